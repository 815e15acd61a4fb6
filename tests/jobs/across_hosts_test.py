#!/usr/bin/env python3
"""Tests of messages between hosts, which are made of namespaces (hosts.py): shared memory within, libfabric's
tcp between them, in good weather and bad.

across_hosts_test.py WEFTRUN EXCHANGE CHATTER WEFT_GRAPH ROADS [unittest arguments]
"""

import os
import re
import signal
import sys
import time
import unittest

import hosts
import weftrun_job
from weftrun_job import JobTest

EXCHANGE = CHATTER = GRAPH = ROADS = None
HOSTS = None  # four of them; whoever disturbs one mends it


def setUpModule():
    global HOSTS
    HOSTS = hosts.Hosts(4)


def tearDownModule():
    HOSTS.end()


class AcrossHostsTest(JobTest):
    """Jobs start in host0."""

    def start(self, *arguments, env=None, **popen):
        return super().start("--timeout", 250, *arguments, env=HOSTS.environment() | (env or {}),
                             at=lambda *command: HOSTS.command("host0", *command), **popen)

    def over(self, count, ranks, *command, **more):
        """A good job over the first `count` hosts."""
        return self.good("--hosts", ",".join(HOSTS.names[:count]), "-n", ranks, *command, **more)

    def found(self, pattern, job):
        match = re.search(pattern, job.out)
        self.assertIsNotNone(match, job.out + job.err)
        return match.group()

    def disturbed(self, host, how, *words):
        """Until the end of the test."""
        self.addCleanup(HOSTS.mend, host)
        getattr(HOSTS, how)(host, *words)


class Answers(AcrossHostsTest):
    """The same on one host as on several."""

    def test_exchange(self):
        answers = {self.found(r"exchange: \d+ messages, 0 wrong, checksum \w+",
                              self.over(count, 4, EXCHANGE, 2, 2)) for count in (1, 2, 4)}
        self.assertEqual(len(answers), 1, answers)

    def test_exchange_with_tags(self):
        plain, tagged = (self.found(r"exchange: \d+ messages, 0 wrong, checksum \w+",
                                    self.over(2, 4, EXCHANGE, 2, 2, env=settings))
                         for settings in ({}, {"WEFT_FABRIC_SECURITY": "mac"}))
        self.assertEqual(plain, tagged)

    def test_graph(self):
        for algorithm in "bfs", "pagerank":
            answers = {self.found(r"checksum +\w+",
                                  self.over(count, 4, GRAPH, algorithm, ROADS, "--threads", 2, "--verify"))
                       for count in (1, 4)}
            self.assertEqual(len(answers), 1, (algorithm, answers))


class Talk(AcrossHostsTest):
    """Jobs of one rank a host that talk with each other all the time."""

    def talk(self, count, seconds, *options, **settings):
        job = self.start(*options, "--hosts", ",".join(HOSTS.names[:count]), "-n", count, CHATTER, seconds,
                         env=settings)
        if (first := job.process.stdout.readline()) != b"talking\n":
            self.fail(f"it says {first}: {job.finish().err}")
        return job

    def rank_at(self, job, host):
        place = os.readlink(f"/proc/{HOSTS.pids[host]}/ns/net")
        return next(pid for pid in job.ranks(CHATTER) if os.readlink(f"/proc/{pid}/ns/net") == place)

    def well(self, job):
        job.finish()
        self.assertEqual((job.code, job.err), (0, ""), job.out)
        self.assertRegex(job.out, r"^chatter: \d+ rounds, 0 wrong\n$")
        self.assertEqual(job.left_behind(), [])


class Weather(Talk):
    """What a network does that it recovers from: the job goes on, and nothing is wrong."""

    def test_loss(self):
        self.disturbed("host1", "loss", 5)
        self.well(self.talk(3, 5))

    def test_slow(self):
        self.disturbed("host1", "rate", 20)
        self.well(self.talk(3, 2))

    def test_a_host_cut_off_and_back(self):
        for how in "link", "drop":
            job = self.talk(3, 4)
            self.disturbed("host1", "cut", how)
            time.sleep(1)
            self.assertIsNone(job.process.poll(), "it was over before")
            HOSTS.mend("host1")
            self.well(job)

    def test_a_rank_that_stands_still_for_a_while(self):
        job = self.talk(3, 3)
        slow = self.rank_at(job, "host1")
        os.kill(slow, signal.SIGSTOP)
        time.sleep(1)
        os.kill(slow, signal.SIGCONT)
        self.well(job)


class Lost(Talk):
    """What does not come back: it is named, and the job ends, everywhere."""

    def test_silence_seen_by_ranks(self):
        job = self.talk(3, 200, "--host-timeout", 60, WEFT_FABRIC_OFI_SILENCE_S="2")
        self.disturbed("host2", "cut", "drop")
        time.sleep(3)
        HOSTS.mend("host2")
        job.finish()
        self.assertNotEqual(job.code, 0)
        self.assertRegex(job.err, r"rank 2 \(on host2, node 2\) was silent for 2 s")
        self.assertEqual(job.left_behind(), [])

    def test_silence_seen_by_the_launcher(self):
        job = self.talk(3, 200, "--host-timeout", 2)
        self.disturbed("host2", "cut", "link")
        job.finish()
        self.assertNotEqual(job.code, 0)
        self.assertIn("host host2: it was silent for 2 s; rank 2 is lost; ending the job", job.err)
        HOSTS.mend("host2")
        self.assertEqual(job.left_behind(), [])

    def test_a_rank_is_killed(self):
        job = self.talk(3, 200)
        os.kill(self.rank_at(job, "host1"), signal.SIGKILL)
        job.finish()
        self.assertEqual(job.code, 137, job.err)
        self.assertIn("rank 1 on host1 was killed by signal 9 (SIGKILL); ending the job", job.err)
        self.assertEqual(job.left_behind(), [])

    def test_of_two_jobs_at_once_one_is_lost(self):
        lost, other = self.talk(2, 200), self.talk(2, 2)
        os.kill(self.rank_at(lost, "host0"), signal.SIGKILL)
        lost.finish()
        self.assertEqual(lost.code, 137, lost.err)
        self.well(other)
        self.assertEqual(lost.left_behind(), [])


if __name__ == "__main__":
    hosts.as_root()
    weftrun_job.WEFTRUN, EXCHANGE, CHATTER, GRAPH, ROADS = map(os.path.abspath, sys.argv[1:6])
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
