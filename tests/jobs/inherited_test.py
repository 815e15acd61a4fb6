"""What weftrun finds when it is started: signals that are ignored, few descriptors, a terminal for its output."""

import os
import pty
import re
import resource
import signal
import subprocess
import sys
import unittest

import weftrun_job
from weftrun_job import eventually, JobTest, state_of


def ignoring(*numbers):
    def ignore():
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
    return ignore


class Signals(JobTest):
    def test_what_is_ignored_is_ignored(self):
        """As by nohup(1), and in the background of a shell script."""
        job = self.start("-n", 1, "sh", "-c", "echo ready; read line; exit 0", stdin=subprocess.PIPE,
                         preexec_fn=ignoring(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT))
        self.assertEqual(job.process.stdout.readline(), b"ready\n")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            job.process.send_signal(number)
        job.finish(b"go\n")
        self.assertEqual((job.code, job.err), (0, ""))

    def test_ends_of_children_that_are_ignored(self):
        job = self.good("-n", 2, "grep", "SigIgn", "/proc/self/status",
                        preexec_fn=ignoring(signal.SIGCHLD))
        masks = re.findall(r"SigIgn:\s*(\w+)", job.out)
        self.assertEqual([int(mask, 16) >> (signal.SIGCHLD - 1) & 1 for mask in masks], [1, 1])
        job = self.good("-n", 1, "grep", "SigIgn", "/proc/self/status",
                        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_DFL))
        masks = re.findall(r"SigIgn:\s*(\w+)", job.out)
        self.assertEqual([int(mask, 16) >> (signal.SIGCHLD - 1) & 1 for mask in masks], [0])


class Descriptors(JobTest):
    def test_too_few(self):
        def may_have(number):
            return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))}

        job = self.run_job("-n", 4, "true", **may_have(35))
        self.assertEqual((job.code, job.err), (1, "weftrun: 4 ranks take up to 36 open files, and this shell may have 35 "
                                                  "(ulimit -Hn)\n"))
        self.good("-n", 4, "true", **may_have(36))


class Terminal(JobTest):
    def test_that_takes_nothing(self):
        """A stopped one (Ctrl-S) holds up what is printed, and nothing else."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        job = self.start("-n", 1, "yes", stdout=slave)
        os.close(slave)
        rank = job.wait_for(1, "yes")[0]
        looks = []  # asleep for so long, it waits for room
        self.assertTrue(eventually(lambda: looks.append(state_of(rank)) or looks[-20:] == ["S"] * 20))
        job.process.terminate()
        self.assertTrue(eventually(lambda: job.ranks("yes") == [] and job.guardian() == []))
        job.process.terminate()  # what is printed may wait for its reader as long as that takes
        self.assertEqual(job.finish().code, -signal.SIGTERM)
        self.assertEqual(job.left_behind(), [])

    def test_gets_everything(self):
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        job = self.start("-n", 1, "seq", 5000, stdout=slave)
        os.close(slave)
        text = b""
        while not text.endswith(b"\n5000\r\n"):
            text += os.read(master, 4096)
        self.assertEqual(text.split(), [b"%d" % number for number in range(1, 5001)])
        self.assertEqual(job.finish().code, 0)


if __name__ == "__main__":
    weftrun_job.WEFTRUN = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
