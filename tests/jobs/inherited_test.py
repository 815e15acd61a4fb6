"""What weftrun finds when it is started: signals that are ignored."""

import os
import re
import signal
import subprocess
import sys
import unittest

import weftrun_job
from weftrun_job import JobTest


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
        masks = re.findall(r"SigIgn:\s*(\w+)", self.good("-n", 1, "grep", "SigIgn", "/proc/self/status").out)
        self.assertEqual([int(mask, 16) >> (signal.SIGCHLD - 1) & 1 for mask in masks], [0])


if __name__ == "__main__":
    weftrun_job.WEFTRUN = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
