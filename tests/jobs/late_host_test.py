"""Hosts that come late to a job which ends already; they are this one, by other names."""

import os
import shutil
import signal
import sys
import tempfile
import unittest

import weftrun_job
from weftrun_job import command_of, eventually, JobTest, kill_if_there, state_of


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def is_idle(job):
    """All of weftrun's own have slept for so long, or are stopped: each has done what it had to."""
    looks = []

    def look():
        commands = {pid: command_of(pid).split() for pid in job.pids()}
        states = [state_of(pid) for pid, command in commands.items()
                  if command and os.path.basename(command[0]) in ("weftrun", "weft-guardian")]
        looks.append(all(state in ("S", "T", "") for state in states))
        return looks[-15:] == [True] * 15

    return eventually(look)


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
        self.assertTrue(is_idle(job))  # early is ready
        early = next(pid for pid in job.guardian() if parent_of(pid) != job.process.pid)
        os.kill(early, signal.SIGSTOP)  # so that the end takes until late has come
        job.process.terminate()
        self.assertTrue(is_idle(job))  # it has heard of that
        with open(may_come, "w", encoding="ascii"):
            pass
        self.assertTrue(eventually(lambda: len(job.guardian()) == 3 or job.process.poll() is not None))
        self.assertTrue(is_idle(job))  # late is ready, and was told
        kill_if_there(early, signal.SIGCONT)
        self.assertEqual(job.finish().code, 143)
        self.assertEqual(job.err, "weftrun: SIGTERM before all hosts were ready; ending the job\n")
        self.assertEqual(job.left_behind(), [])


if __name__ == "__main__":
    weftrun_job.WEFTRUN = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
