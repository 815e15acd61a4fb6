#!/usr/bin/env python3
"""Ways into a job over several hosts: those of others than its daemons, which are closed, and a real ssh.

ways_in_test.py WEFTRUN JOB_PROBE PMIX_PROBE [unittest arguments]
"""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import hosts
import several_hosts_test as several
import weftrun_job
from weftrun_job import eventually

setUpModule = several.setUpModule
tearDownModule = several.tearDownModule


class Strangers(several.SeveralHostsTest):
    """Others than the daemons connect to where weftrun waits for these."""

    SPEAK = ("import socket, sys\n"
             "own = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
             "own.sendall(bytes.fromhex(sys.argv[3]))\n"
             "own.settimeout(20)\n"
             "while (got := own.recv(4096)): print(got.hex(), end='')\n")

    def port_of(self, pid):
        """A port on which it listens, on any address."""
        inodes = set()
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
        for table in "tcp6", "tcp":
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
                for row in list(file)[1:]:
                    _, here, _, state, *_ = fields = row.split()
                    address, port = here.split(":")
                    if state == "0A" and f"socket:[{fields[9]}]" in inodes and not int(address, 16):
                        return int(port, 16)
        raise AssertionError("it listens nowhere")

    @staticmethod
    def message(say, member=0, text=b"", length=None):
        body = bytes([say]) + member.to_bytes(4, "little") + bytes(16) + text
        return (len(body) if length is None else length).to_bytes(4, "little") + body

    def test_they_are_not_let_in(self):
        # The daemon of host1 comes at once, that of host2 when all strangers were there.
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        agent = self.script(f"while test $1 = host2 && ! test -e {folder}/go; do sleep 0.05; done; "
                            f'exec {several.HOSTS.agent} "$@"')
        job = self.start("--launch-agent", agent, "--hosts", several.names(3), "-n", 3, several.PROBE,
                         "exchange")
        self.assertTrue(eventually(lambda: self.daemons(job)))
        port = self.port_of(job.process.pid)
        rng = random.Random(7)
        nonce = bytes(range(16))
        hello, proof = 0, 2
        for words in (b"GET / HTTP/1.1\r\n\r\n", rng.randbytes(4000), self.message(hello, 1, b"short"),
                      self.message(hello, 77, nonce), self.message(hello, 1, nonce),
                      self.message(99, 2, nonce), self.message(hello, 2, nonce, 1 << 31),
                      self.message(hello, 2, nonce) + self.message(proof, 0, nonce),
                      self.message(hello, 2, nonce) * 2, self.message(proof, 0, nonce)):
            done = several.HOSTS.run("host2", sys.executable, "-c", self.SPEAK,
                                     several.HOSTS.address("host0"), port, words.hex(),
                                     capture_output=True, text=True, timeout=60)
            # At most a challenge came back: that of a number with another number and a proof.
            self.assertIn(len(done.stdout), (0, 2 * (4 + 21 + 32)), done.stderr)
        with open(f"{folder}/go", "w", encoding="utf-8"):
            pass
        job.finish()
        self.assertEqual((job.code, job.out, job.err), (0, "good\n" * 3, ""))
        self.assertEqual(job.left_behind(), [])


@unittest.skipUnless(os.path.exists("/usr/sbin/sshd") and shutil.which("ssh"), "no sshd here")
class Ssh(several.SeveralHostsTest):
    """The launch agent that users have: a real ssh, to servers and with keys of the test's own."""

    @unittest.skipUnless(os.stat("/proc/self/ns/user").st_ino == 0xEFFFFFFD,
                         "sshd has to be the system's root")
    def test_job(self):
        folder = tempfile.mkdtemp(prefix="ssh-test-")
        self.addCleanup(shutil.rmtree, folder)
        for name in "host_key", "user_key":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"],
                           check=True)
        with open(f"{folder}/config", "w", encoding="utf-8") as file:
            file.write(f"HostKey {folder}/host_key\nAuthorizedKeysFile {folder}/user_key.pub\n"
                       f"PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\n"
                       f"PasswordAuthentication no\nPort 2222\n")
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        for host in "host1", "host2":
            server = subprocess.Popen(several.HOSTS.command(host, "/usr/sbin/sshd", "-D", "-e", "-f",
                                                    f"{folder}/config"), stderr=subprocess.PIPE)
            self.addCleanup(lambda s=server: (s.kill(), s.wait(), s.stderr.close()))
            while b"Server listening" not in (line := server.stderr.readline()):
                self.assertTrue(line, "sshd did not start")
        agent = (f"ssh -x -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile={folder}/known "
                 f"-F none -i {folder}/user_key -p 2222")
        job = self.good("--quiet", "--launch-agent", agent, "--hosts", several.names(3), "-n", 6,
                        several.PROBE, "exchange")
        self.assertEqual(job.out, "good\n" * 6)
        job = self.start("--launch-agent", agent, "--hosts", several.names(3), "-n", 3, "sleep", 1000)
        job.wait_for(3, "sleep")
        job.process.kill()
        job.process.wait()
        self.assertEqual(job.left_behind(), [])
        self.refused(1, "moon: ssh: Could not resolve hostname moon", "--launch-agent", agent, "--hosts",
                     "host1,moon", "-n", 2, "true")


if __name__ == "__main__":
    hosts.as_root()
    weftrun_job.WEFTRUN, several.PROBE = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
