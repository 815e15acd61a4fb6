"""Hosts that come late to a job which ends already; they are this one, by other names."""

import os
import shutil
import signal
import sys
import tempfile
import time
import unittest

import weftrun_job
from weftrun_job import eventually, JobTest, kill_if_there


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


class LateHost(JobTest):
    def test_is_told_that_the_job_ends(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        agent, may_come = os.path.join(folder, "agent"), os.path.join(folder, "may-come")
        with open(agent, "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nwhile test $1 = late && ! test -e {may_come}; do sleep 0.02; done\n'
                       'shift\nexec sh -c "$*"\n')
        os.chmod(agent, 0o755)
        job = self.start("--launch-agent", agent, "--hosts", "early,late", "-n", 2, "true")

        self.assertTrue(eventually(lambda: len(job.guardian()) == 2))  # weftrun's, and that of early
        time.sleep(0.3)  # early is ready; where it is not yet, this shows nothing
        early = next(pid for pid in job.guardian() if parent_of(pid) != job.process.pid)
        os.kill(early, signal.SIGSTOP)  # so that the end takes until late has come
        job.process.terminate()
        time.sleep(0.1)
        with open(may_come, "w", encoding="ascii"):
            pass
        self.assertTrue(eventually(lambda: len(job.guardian()) == 3 or job.process.poll() is not None))
        time.sleep(0.3)
        kill_if_there(early, signal.SIGCONT)
        self.assertEqual(job.finish().code, 143)
        self.assertEqual(job.err, "weftrun: SIGTERM before all hosts were ready; ending the job\n")
        self.assertEqual(job.left_behind(), [])


if __name__ == "__main__":
    weftrun_job.WEFTRUN = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
