"""Jobs on a kernel of 2018 (old_kernel.cpp)."""

import os
import shutil
import sys
import tempfile
import unittest

import weftrun_job
from weftrun_job import Job, JobTest

OLD_KERNEL, EXCHANGE = "", ""


class OldJob(Job):
    @property
    def launcher(self):
        return [OLD_KERNEL, weftrun_job.WEFTRUN]


class OldKernel(JobTest):
    job_type = OldJob

    def test_messages(self):
        self.good("-n", 2, EXCHANGE, 2, 2)

    def test_hosts(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        agent = os.path.join(folder, "agent")
        with open(agent, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\nshift\nexec sh -c "$*"\n')
        os.chmod(agent, 0o755)
        self.good("--launch-agent", agent, "--hosts", "one,other", "-n", 2, EXCHANGE, 2, 2)

    def test_launch_agents_that_fail(self):
        job = self.start("--launch-agent", "false", "--hosts", "one,other", "-n", 2, "true").finish()
        self.assertEqual(job.code, 1)
        self.assertIn("the launch agent exited with code 1, and no daemon answered", job.err)
        self.assertEqual(job.left_behind(), [])


if __name__ == "__main__":
    weftrun_job.WEFTRUN, OLD_KERNEL, EXCHANGE = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
