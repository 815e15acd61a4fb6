#!/usr/bin/env python3
"""Jobs that get into trouble: what they say, how they end, and that nothing is left of them.

trouble_test.py WEFTRUN TROUBLE EXCHANGE [unittest arguments]
"""

import os
import re
import signal
import sys
import time
import unittest

import weftrun_job
from weftrun_job import JobTest, eventually, kill_if_there, seeded, state_of

TROUBLE = EXCHANGE = None
FILES = {"WEFT_FABRIC_SHM_BACKING": "file"}
BACKINGS = ({}, FILES)


def segments_of(job):
    """The named segments of its ranks."""
    return [name for name in os.listdir("/dev/shm") if f"weft-{job.process.pid}-" in name]


def rounds(usual):
    """`usual` rounds, or a hundred where the length of stress tests is set."""
    return 100 if "WEFT_STRESS_SECONDS" in os.environ else usual


class Flood(JobTest):
    # The peaks of memory that trouble.cpp allows are for so many packets, of which every byte may be
    # written in turn.
    PACKETS = ("--env", "WEFT_FABRIC_PACKETS=64", "--env", "WEFT_FABRIC_PACKET_BYTES=8K")

    def test_63_senders_flood_one_sleeper(self):
        # 8 MiB from each, half a GiB in all: many times what either side may hold.
        self.good("-n", 64, *self.PACKETS, TROUBLE, "flood", 750)

    def test_a_rank_that_does_not_progress(self):
        self.good("-n", 3, *self.PACKETS, TROUBLE, "deaf")

    def test_64_ranks_on_few_cores(self):
        self.good("-n", 64, TROUBLE, "busy", 1)


class Threads(JobTest):
    def test_64_threads_on_any_number_of_devices(self):
        for devices in (1, 2, 63):
            self.good("-n", 2, TROUBLE, "many-threads", devices)


class Process(JobTest):
    def test_a_second_runtime_is_refused(self):
        self.assertIn("one per process", self.good("-n", 1, TROUBLE, "twice").out)

    def test_fork_in_a_rank(self):
        self.good("-n", 2, TROUBLE, "fork")


class Copies(JobTest):
    def test_same_checksum_with_and_without_single_copy(self):
        sums = {}
        for mode in ("auto", "off"):
            job = self.good("-n", 2, "--env", f"WEFT_FABRIC_CMA={mode}", EXCHANGE, 2, 2)
            sums[mode] = re.search(r"checksum (\w+)", job.out).group(1)
        self.assertEqual(sums["auto"], sums["off"])


class Room(JobTest):
    """Segments in files, where the job has a /dev/shm of its own that is too small, or full."""

    @staticmethod
    def with_shm(size, then=":"):
        script = f"mount -t tmpfs -o size={size},mode=1777 tmpfs /dev/shm && {{ {then}; }} && exec \"$@\""
        rights = ["-m"] if os.geteuid() == 0 else ["-r", "-m"]
        return lambda *command: ["unshare", *rights, "sh", "-c", script, "sh", *command]

    def refused(self, at):
        job = self.run_job("-n", 2, TROUBLE, "busy", 0.2, env=FILES, at=at)
        self.assertNotEqual(job.code, 0)
        self.assertRegex(job.err, r"rank [01]\D")
        self.assertRegex(job.err, r"no room.*/dev/shm|/dev/shm.*no room")
        self.assertNotIn("signal", job.err)

    def test_too_small(self):
        self.refused(self.with_shm("64k"))

    def test_full(self):
        self.refused(self.with_shm("64m", "cat /dev/zero 2>/dev/null >/dev/shm/other || :"))

    def test_large_enough(self):
        self.good("-n", 2, TROUBLE, "busy", 0.2, env=FILES, at=self.with_shm("64m"))

    def test_not_needed_by_nameless_segments(self):
        self.good("-n", 2, TROUBLE, "busy", 0.2, at=self.with_shm("64k"))


class Death(JobTest):
    def test_operations_with_a_dead_rank_fail_and_survivors_go_on(self):
        job = self.run_job("-n", 3, "--on-failure", "continue", TROUBLE, "die-waiting")
        self.assertEqual(job.out.count("survived: "), 2, job.out + job.err)
        self.assertEqual(job.code, 128 + signal.SIGKILL, job.err)

    def test_a_stopped_rank_stalls_nobody_else(self):
        job = self.start("-n", 3, TROUBLE, "stopped")
        ranks = job.wait_for(3, "stopped")
        stopped = []
        self.assertTrue(eventually(
            lambda: stopped.extend(pid for pid in ranks if state_of(pid) == "T") or stopped))
        until = time.monotonic() + 2
        self.assertEqual(job.process.stdout.readline(), b"talked\n")  # the others, while it is stopped
        self.assertEqual(state_of(stopped[0]), "T")
        time.sleep(max(0, until - time.monotonic()))
        os.kill(stopped[0], signal.SIGCONT)
        job.finish()
        self.assertEqual((job.code, job.out), (0, ""), job.err)
        self.assertEqual(job.left_behind(), [])

    def test_a_rank_killed_at_any_moment(self):
        """Init, transfer or finalize: the job ends, says who died, leaves nothing."""
        random = seeded()
        for number in range(rounds(6)):
            job = self.start("-n", 4, TROUBLE, "busy", 0.4, env=BACKINGS[number % 2])
            ranks = job.wait_for(4, "busy")
            time.sleep(random.uniform(0, 0.6))
            kill_if_there(random.choice(ranks))
            job.finish()
            if job.code != 0:  # it may have been over already
                self.assertIn("SIGKILL", job.err)
            self.assertEqual(job.left_behind(), [])

    def under_load(self, backing):
        """A job whose ranks have children and exchange messages."""
        job = self.start("-n", 3, "sh", "-c", "sleep 1000 & setsid sh -c 'sleep 1000; true' & "
                         f"exec {TROUBLE} busy 60", env=backing)
        job.wait_for(6, "sleep")
        job.wait_for(3, "busy")
        if backing is FILES:
            self.assertTrue(eventually(lambda: len(segments_of(job)) >= 3))
        time.sleep(0.5)
        return job

    def test_the_launcher_killed_under_load(self):
        for backing in BACKINGS:
            job = self.under_load(backing)
            job.process.kill()
            job.process.wait()
            self.assertEqual(job.left_behind(), [])

    def test_the_guardian_killed_under_load(self):
        for backing in BACKINGS:
            job = self.under_load(backing)
            os.kill(job.guardian()[0], signal.SIGKILL)
            self.assertEqual(job.finish().code, 1)
            self.assertEqual(job.left_behind(), [])

    def test_leftovers_of_a_crashed_job_are_swept(self):
        for backing in BACKINGS:
            job = self.under_load(FILES)
            # Nobody is left who could clean up.
            keepers = [job.process.pid] + job.guardian()
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in keepers:
                    os.kill(pid, number)
            job.process.wait()
            for pid in job.pids():
                kill_if_there(pid)
            self.assertTrue(eventually(lambda: not job.pids()))
            self.assertNotEqual(segments_of(job), [])
            after = self.start("-n", 2, TROUBLE, "busy", 0.2, env=backing).finish()
            self.assertEqual(after.code, 0, after.err)
            self.assertEqual(segments_of(job), [], "the next job removes what the other left")


if __name__ == "__main__":
    weftrun_job.WEFTRUN, TROUBLE, EXCHANGE = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
