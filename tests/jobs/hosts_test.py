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

    def test_delay(self):
        made = self.make(2)
        port = self.echo(made, "host1")
        try:
            made.delay("host1", 20)
        except hosts.Unable as error:
            self.assertEqual(str(error), "this kernel has no netem, which delays packets")
        else:
            self.assertGreaterEqual(self.ask(made, "host0", "host1", port, 1)[1], 20)

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
                               (("1", PROGRAM, "cut", "host0", "softly"), "link or drop")):
            code, _, said = run(*words)
            self.assertEqual(code, 1)
            self.assertRegex(said, "^hosts: .*" + re.escape(problem))


if __name__ == "__main__":
    hosts.as_root()
    unittest.main(verbosity=2)
