#!/usr/bin/env python3
"""Tests of hosts made of namespaces (hosts.py): what they are, how they are disturbed, that they end."""

import os
import re
import signal
import subprocess
import sys
import unittest

import hosts
from weftrun_job import command_of, eventually

PROGRAM = os.path.abspath(hosts.__file__)
WATCHDOG_S = 120

# Answers datagrams; says first where it listens.
ECHO = """
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind((sys.argv[1], 0))
print(own.getsockname()[1], flush=True)
while True:
    data, sender = own.recvfrom(2048)
    own.sendto(data, sender)
"""
# Sends so many datagrams of so many bytes, 1 ms apart; prints how many answers came, and in how many ms.
ASK = """
import select, socket, sys, time
host, port, count, size = sys.argv[1], *map(int, sys.argv[2:])
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begin, got = time.monotonic(), 0
def take(seconds):
    global got
    while select.select([own], [], [], seconds)[0]:
        try:
            got += len(own.recv(2048)) == size
        except OSError:
            pass
        if got == count:
            break
for _ in range(count):
    try:
        own.sendto(bytes(size), (host, port))
    except OSError:
        pass
    take(0.001)
take(1)
print(got, round(1000 * (time.monotonic() - begin)))
"""
# Prints the numbers in so many datagrams, in the order in which they come.
LIST = """
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind((sys.argv[1], 0))
print(own.getsockname()[1], flush=True)
own.settimeout(20)
print(*(int(own.recv(100)) for _ in range(int(sys.argv[2]))), flush=True)
"""
# Sends numbers, one a millisecond.
COUNT = """
import socket, sys, time
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[3])):
    own.sendto(str(number).encode(), (sys.argv[1], int(sys.argv[2])))
    time.sleep(0.001)
"""
# Connects to where nobody listens, for so many seconds.
CONNECT = """
import socket, sys
socket.create_connection((sys.argv[1], 9), float(sys.argv[2]))
"""
# Says when its one connection is over; WAIT, at the other end, speaks until it hears that.
HOLD = """
import socket, sys
own = socket.create_server((sys.argv[1], 0))
print(own.getsockname()[1], flush=True)
try:
    other = own.accept()[0]
    while other.recv(100):
        pass
except OSError:
    pass
print("over", flush=True)
sys.stdin.read()
"""
WAIT = """
import socket, sys, time
own = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("connected", flush=True)
try:
    while True:
        own.send(b"x")
        time.sleep(0.1)
except OSError:
    pass
"""
# Prints what came over one connection, as its length and a hash; STREAM sends so many bytes, and prints the same.
DIGEST = """
import hashlib, socket, sys
own = socket.create_server((sys.argv[1], 0))
print(own.getsockname()[1], flush=True)
data = b"".join(iter(lambda other=own.accept()[0]: other.recv(65536), b""))
print(len(data), hashlib.sha256(data).hexdigest(), flush=True)
"""
STREAM = """
import hashlib, random, socket, sys
data = random.Random(1).randbytes(int(sys.argv[3]))
socket.create_connection((sys.argv[1], int(sys.argv[2]))).sendall(data)
print(len(data), hashlib.sha256(data).hexdigest())
"""


class HostsTest(unittest.TestCase):
    def make(self, count, **more):
        made = hosts.Hosts(count, **more)
        self.addCleanup(made.end)
        return made

    def echo(self, made, host):
        """The port of a process there that answers."""
        server = subprocess.Popen(made.command(host, sys.executable, "-c", ECHO, made.address(host)),
                                  stdout=subprocess.PIPE)
        self.addCleanup(lambda: (server.kill(), server.wait(), server.stdout.close()))
        return int(server.stdout.readline())

    def ask(self, made, asker, host, port, count=20, size=64):
        done = made.run(asker, sys.executable, "-c", ASK, host, port, count, size,
                        stdout=subprocess.PIPE, check=True, timeout=WATCHDOG_S)
        return tuple(map(int, done.stdout.split()))

    def test_names_and_addresses(self):
        made = self.make(3, prefix="node")
        self.assertEqual(made.names, ["node0", "node1", "node2"])
        for index, name in enumerate(made.names):
            self.assertEqual(made.do(name, "hostname"), name + "\n")
            self.assertIn(f"10.77.0.{index + 1}/16", made.do(name, "ip", "addr"))
            self.assertEqual(made.do(name, "ls", "/dev/shm"), "")
        port = self.echo(made, "node2")
        self.assertEqual(self.ask(made, "node0", "node2", port)[0], 20)
        self.assertEqual(self.ask(made, "node1", made.address("node2"), port)[0], 20)
        with self.assertRaisesRegex(hosts.Unable, "no such host: node3"):
            made.command("node3", "true")

    def test_cut_and_mend(self):
        made = self.make(3)
        port, other = self.echo(made, "host1"), self.echo(made, "host2")
        for how in "link", "drop":
            made.cut("host1", how)
            self.assertEqual(self.ask(made, "host0", "10.77.0.2", port)[0], 0)
            self.assertEqual(self.ask(made, "host0", "host2", other)[0], 20)
            made.mend("host1")
            self.assertTrue(eventually(lambda: self.ask(made, "host0", "host1", port)[0] == 20))

    def test_loss(self):
        made = self.make(2)
        port = self.echo(made, "host1")
        # They find each other before: packets wait for that, and it may be lost as well.
        self.assertEqual(self.ask(made, "host0", "host1", port)[0], 20)
        made.loss("host1", 30)
        # Half of them both come and return; 400 throws are not beyond these limits by chance.
        self.assertIn(self.ask(made, "host0", "host1", port, 400)[0], range(100, 300))
        made.mend("host1")
        self.assertEqual(self.ask(made, "host0", "host1", port)[0], 20)
        with self.assertRaises(hosts.Unable):
            made.loss("host1", 101)

    def test_rate(self):
        made = self.make(2)
        port = self.echo(made, "host1")
        made.rate("host1", 1)
        got, milliseconds = self.ask(made, "host0", "host1", port, 50, 1400)
        # Whatever came waited for its bits, but for the burst of 16 KiB.
        self.assertGreater(milliseconds, (got * 1400 - 16384) * 8 / 1000)
        self.assertGreater(got, 10)
        self.assertLess(got, 50)

    def test_congestion(self):
        made = self.make(2)
        machines = made.do("host1", "cat", "/proc/sys/net/ipv4/tcp_congestion_control")
        self.assertEqual(made.congestion("host0", "no-such-control", "reno"), "reno")
        self.assertEqual(made.do("host0", "cat", "/proc/sys/net/ipv4/tcp_congestion_control"), "reno\n")
        self.assertEqual(made.do("host1", "cat", "/proc/sys/net/ipv4/tcp_congestion_control"), machines)
        with self.assertRaisesRegex(hosts.Unable, "congestion host0: .* none of no-such-control"):
            made.congestion("host0", "no-such-control")

    def test_forgotten_connections(self):
        made = self.make(2)
        server = subprocess.Popen(made.command("host1", sys.executable, "-c", HOLD, made.address("host1")),
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.kill(), server.wait(), server.stdout.close(), server.stdin.close()))
        port = int(server.stdout.readline())
        client = subprocess.Popen(made.command("host0", sys.executable, "-c", WAIT, made.address("host1"), port),
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (client.kill(), client.wait(), client.stdout.close()))
        self.assertEqual(client.stdout.readline(), "connected\n")
        self.assertEqual(made.forget("host1", "no such program"), 0)
        self.assertEqual(made.forget("host1", made.do("host1", "cat", f"/proc/{server.pid}/comm").strip()), 1)
        self.assertEqual(server.stdout.readline(), "over\n")
        # The other end does not know, and what it says is answered by nobody, until there are answers.
        established = ("ss", "-Htn", "state", "established")
        self.assertIn(f":{port}", made.do("host0", *established))
        made.mend("host1")
        self.assertEqual(client.wait(WATCHDOG_S), 0)

    def test_forgotten_for_good(self):
        """Nor can the host begin connections, or let others do so."""
        made = self.make(2)
        made.forget("host1", "nobody", for_good=True)
        for asker, asked in ("host0", "host1"), ("host1", "host0"):
            with self.assertRaisesRegex(hosts.Unable, "timed out"):
                made.do(asker, sys.executable, "-c", CONNECT, made.address(asked), "1")
        made.mend("host1")
        for asker, asked in ("host0", "host1"), ("host1", "host0"):
            with self.assertRaisesRegex(hosts.Unable, "refused"):
                made.do(asker, sys.executable, "-c", CONNECT, made.address(asked), str(WATCHDOG_S))

    def test_delay(self):
        made = self.make(2)
        port = self.echo(made, "host1")
        made.delay("host1", 20)
        got, milliseconds = self.ask(made, "host0", "host1", port, 1)
        self.assertEqual(got, 1)
        self.assertGreaterEqual(milliseconds, 40)
        # Another way to be disturbed comes on top of it.
        made.cut("host1")
        self.assertEqual(self.ask(made, "host0", "host1", port, 1)[0], 0)
        made.mend("host1")
        self.assertTrue(eventually(lambda: self.ask(made, "host0", "host1", port)[0] == 20))
        self.assertNotIn("far.", made.do(hosts.SWITCH, "ip", "link"))
        for wrong in (-1,), (1, -1), (1, 0, 101):
            with self.assertRaises(hosts.Unable):
                made.delay("host1", *wrong)

    def arrivals(self, made, count):
        """Numbers of datagrams from host0, in the order in which they arrive in host1."""
        server = subprocess.Popen(made.command("host1", sys.executable, "-c", LIST, made.address("host1"), count),
                                  stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (server.kill(), server.wait(), server.stdout.close()))
        port = int(server.stdout.readline())
        made.run("host0", sys.executable, "-c", COUNT, made.address("host1"), port, count, check=True,
                 timeout=WATCHDOG_S)
        return list(map(int, server.stdout.readline().split()))

    def test_packets_that_overtake_each_other(self):
        made = self.make(2)
        made.delay("host1", 10)
        self.assertEqual(self.arrivals(made, 100), list(range(100)))
        for how in (5, 30), (20, 0, 20):
            made.delay("host1", *how)
            numbers = self.arrivals(made, 100)
            self.assertEqual(sorted(numbers), list(range(100)))
            self.assertNotEqual(numbers, sorted(numbers))

    def test_large_packets_through_a_relay(self):
        """What a kernel leaves to the interface (checksums, cutting to size) is not missing."""
        made = self.make(2)
        made.delay("host1", 1, 1)
        for here, there in ("host0", "host1"), ("host1", "host0"):
            server = subprocess.Popen(made.command(there, sys.executable, "-c", DIGEST, made.address(there)),
                                      stdout=subprocess.PIPE, text=True)
            self.addCleanup(lambda s=server: (s.kill(), s.wait(), s.stdout.close()))
            port = int(server.stdout.readline())
            sent = made.run(here, sys.executable, "-c", STREAM, made.address(there), port, 2 << 20,
                            stdout=subprocess.PIPE, text=True, check=True, timeout=WATCHDOG_S).stdout
            self.assertEqual(server.stdout.readline(), sent)

    def test_two_at_once(self):
        first, second = self.make(2), self.make(2)
        ports = [self.echo(made, "host1") for made in (first, second)]
        first.cut("host1")
        self.assertEqual(self.ask(first, "host0", "host1", ports[0])[0], 0)
        self.assertEqual(self.ask(second, "host0", "host1", ports[1])[0], 20)

    def left(self, folder):
        """What is left of hosts whose folder that was."""
        named = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                 if folder in command_of(pid)]
        return named + [folder] * os.path.exists(folder)

    def test_end(self):
        made = self.make(2)
        sleeper = subprocess.Popen(made.command("host1", "setsid", "sleep", "1000"))
        self.assertTrue(eventually(lambda: command_of(sleeper.pid) == "sleep 1000"))
        made.end()
        self.assertEqual(sleeper.wait(), -signal.SIGKILL)
        self.assertEqual(self.left(made.folder), [])

    def test_killed_owner(self):
        owner = subprocess.Popen(
            [sys.executable, PROGRAM, "2", "sh", "-c", "hostname; setsid sleep 1000 & echo $!; "
             f"{PROGRAM} enter host1 sh -c 'hostname; echo $HOSTS_FOLDER; sleep 1000'"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(owner.stdout.close)
        said = [owner.stdout.readline().strip() for _ in range(4)]
        self.assertEqual((said[0], said[2]), ("host0", "host1"))
        sleeper, folder = int(said[1]), said[3]
        self.assertTrue(os.path.isdir(folder))
        owner.kill()
        owner.wait()
        self.assertTrue(eventually(lambda: not self.left(folder) and not command_of(sleeper)))

    def test_command_line(self):
        def run(*words):
            done = subprocess.run([sys.executable, PROGRAM, *words], capture_output=True, text=True,
                                  timeout=WATCHDOG_S)
            return done.returncode, done.stdout, done.stderr
        self.assertEqual(run("1", "sh", "-c", "hostname; exit 3"), (3, "host0\n", ""))
        self.assertEqual(run("2", PROGRAM, "enter", "host1", "hostname"), (0, "host1\n", ""))
        self.assertEqual(run("1", "sh", "-c", 'exec "$WEFTRUN_LAUNCH_AGENT" host0 hostname'),
                         (0, "host0\n", ""))
        for words, problem in ((("0", "true"), "0 hosts: from 1 to 250"),
                               (("cut", "host0"), "only for what was started by"),
                               (("make", "tea"), "make: neither a number"),
                               (("1", PROGRAM, "cut", "host7"), "host7"),
                               (("1", PROGRAM, "delay", "host0", "1", "-5"), "up to -5.0 more"),
                               (("1", PROGRAM, "cut", "host0", "softly"), "link or drop")):
            code, _, said = run(*words)
            self.assertEqual(code, 1)
            self.assertRegex(said, "^hosts: .*" + re.escape(problem))


if __name__ == "__main__":
    hosts.as_root()
    unittest.main(verbosity=2)
