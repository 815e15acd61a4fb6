#!/usr/bin/env python3
"""Tests of messages between hosts, which are made of namespaces (hosts.py): shared memory within, libfabric's
tcp between them, in good weather and bad.

across_hosts_test.py WEFTRUN EXCHANGE CHATTER WEFT_GRAPH ROADS TROUBLE [unittest arguments]
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

SANITIZER = os.environ.get("LAUNCHER_TEST_SANITIZER", "")
EXCHANGE = CHATTER = GRAPH = ROADS = TROUBLE = None
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


class Reordering(AcrossHostsTest):
    """The right answer over a network that loses packets, delays them, and lets them overtake each other."""

    def setUp(self):
        self.disturbed("host1", "delay", 1, 2, 10)
        HOSTS.loss("host1", 5)

    def test_exchange(self):
        pattern = r"exchange: \d+ messages, 0 wrong, checksum \w+"
        self.assertEqual(self.found(pattern, self.over(2, 2, EXCHANGE, 1, 1)),
                         self.found(pattern, self.over(1, 2, EXCHANGE, 1, 1)))

    def test_graph(self):
        command = GRAPH, "bfs", "--generate", "kron:14", "--threads", 2, "--verify"
        self.assertEqual(self.found(r"checksum +\w+", self.over(3, 3, *command)),
                         self.found(r"checksum +\w+", self.over(1, 3, *command)))


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

    def test_loss_delay_and_reordering(self):
        self.disturbed("host1", "delay", 1, 2, 10)
        HOSTS.loss("host1", 5)
        self.well(self.talk(3, 2))

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


class Scarcity(Talk):
    """What a host, a process or a receiver has too little of."""

    def set_buffers(self, host, which, sizes):
        HOSTS.do(host, "sh", "-c", f"echo {sizes} >/proc/sys/net/ipv4/tcp_{which}")

    def test_small_socket_buffers(self):
        for host in "host0", "host1":
            for which in "wmem", "rmem":
                usual = HOSTS.do(host, "cat", f"/proc/sys/net/ipv4/tcp_{which}").strip()
                self.addCleanup(self.set_buffers, host, which, usual)
                self.set_buffers(host, which, "4096 4096 4096")
        job = self.talk(3, 3)
        slow = self.rank_at(job, "host1")  # takes nothing for a while: they are full
        os.kill(slow, signal.SIGSTOP)
        time.sleep(1)
        os.kill(slow, signal.SIGCONT)
        self.well(job)

    def test_a_receiver_that_is_late(self):
        for trouble in ("deaf",), ("flood", 400):
            self.over(3, 3, TROUBLE, *trouble, env={"WEFT_FABRIC_PACKETS": "64", "WEFT_FABRIC_PACKET_BYTES": "8192"})

    @unittest.skipIf(SANITIZER, "it opens files of its own")
    def test_few_files(self):
        """Each rank may have so many open: the job is right, or says why not."""
        for most in 24, 32, 40, 64:
            job = self.run_job("--hosts", "host0,host1,host2", "-n", 3, "sh", "-c",
                               f"ulimit -n {most}; exec {CHATTER} 0.1", env={"WEFT_FABRIC_OFI_SILENCE_S": "3"})
            if job.code == 0 or most == 64:  # which is enough
                self.assertRegex(job.out, r"chatter: \d+ rounds, 0 wrong\n$")
            else:
                self.assertRegex(job.err, r"ulimit -n")

    def test_two_jobs_at_once(self):
        jobs = [self.start("--hosts", "host0,host1", "-n", 4, EXCHANGE, 1, 1) for _ in range(2)]
        for job in jobs:
            job.finish()
            self.assertEqual((job.code, job.err), (0, ""), job.out)
            self.assertEqual(job.left_behind(), [])
        self.assertRegex(jobs[0].out, r"exchange: \d+ messages, 0 wrong")
        self.assertEqual(jobs[0].out, jobs[1].out)


class HalfOpen(Talk):
    """Connections of which one end knows that they are gone, and the other does not."""

    def half_open(self, provider, host, mended, **settings):
        """A job whose connections with the host broke so, which is mended soon, or not before the job's end."""
        self.addCleanup(HOSTS.mend, host)
        # For good: it would talk for longer than it can.
        for seconds in (2, 10, 30) if mended else (100,):
            job = self.talk(3, seconds, WEFT_FABRIC_OFI_SILENCE_S="20" if mended else "3",
                            WEFT_FABRIC_OFI_PROVIDER=provider, **settings)
            if not mended:
                time.sleep(5)  # one that is still being made may be one of two that cross, and the other lives
            if (forgotten := HOSTS.forget(host, "chatter", for_good=not mended)) != 0:
                break
            HOSTS.mend(host)  # on a busy machine the talk was over before its connections were found
            job.finish()
        self.assertEqual(forgotten, 2)
        if mended:
            time.sleep(1)
            HOSTS.mend(host)
        job.finish()
        HOSTS.mend(host)
        return job

    def names(self, job, host, why):
        """It is lost, and each rank that says so of another, of its own knowledge, is on that host, or the other is."""
        self.assertEqual(job.code, 3, job.out + job.err)
        told = re.findall(r"rank (\d): weft warn: a peer died: rank \d \(on (host\d), node \d\) (.*? for \d+ s)",
                          job.err)
        self.assertNotEqual(told, [], job.err)
        for teller, named, said in told:
            self.assertIn(host, (f"host{teller}", named), job.err)
            self.assertRegex(said, f"^{why}$")
        self.assertEqual(job.left_behind(), [])

    def test_for_a_while(self):
        for host in "host0", "host1":
            self.well(self.half_open("", host, True))

    def test_for_good(self):
        """Nothing tells its peers, which keep to connections that nobody else knows of. Nor can new ones be made:
        libfabric 1.17 takes one that its peer makes in place of the old, or refuses it, by what lay in memory."""
        self.names(self.half_open("", "host1", False), "host1",
                   "(was silent|got nothing of what was sent to it) for 3 s")

    def test_with_a_layer_above_connections(self):
        """Which may keep for ever what it was about to send over such a one."""
        for _ in range(2):
            self.well(self.half_open("tcp;ofi_rxm", "host0", True, WEFT_FABRIC_PACKET_BYTES="8192"))
        self.names(self.half_open("tcp;ofi_rxm", "host0", False), "host0",
                   "(was silent|got nothing of what was sent to it) for 3 s")

    def test_with_a_layer_that_fetches(self):
        """Packets of more than 16 KiB that layer fetches from their sender's memory. Those whose fetching broke
        off may stay away for good; whether there was one is chance. Then the peers, who hear each other again,
        say just that."""
        job = self.half_open("tcp;ofi_rxm", "host0", True)
        if job.code == 0:
            self.well(job)
        else:
            self.names(job, "host0", "got nothing of what was sent to it for 20 s")


class Lost(Talk):
    """What does not come back: it is named, and the job ends, everywhere."""

    def says(self, job, line):
        said = job.process.stdout.readline()
        if said != line:
            HOSTS.mend("host2")
            job.finish()
            self.fail(f"{said} instead of {line}, then: {job.out}{job.err}")

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

    def test_survivors_of_a_rank(self):
        job = self.run_job("--hosts", "host0,host1,host2", "-n", 3, "--on-failure", "continue", TROUBLE,
                           "die-waiting")
        self.assertEqual((job.code, job.out.count("survived: ")), (137, 2), job.out + job.err)

    def test_survivors_of_a_host_that_is_cut_off(self):
        job = self.start("--host-timeout", 60, "--hosts", "host0,host1,host2", "-n", 3, "--on-failure", "continue",
                         TROUBLE, "outlive", env={"WEFT_FABRIC_OFI_SILENCE_S": "2"})
        self.says(job, b"waits\n")
        self.disturbed("host2", "cut", "drop")
        for _ in range(2):
            self.says(job, b"survived: rank 2 (on host2, node 2) was silent for 2 s\n")
        HOSTS.mend("host2")  # where, by then, both others are lost
        self.assertEqual(job.finish().code, 0, job.err)
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
    weftrun_job.WEFTRUN, EXCHANGE, CHATTER, GRAPH, ROADS, TROUBLE = map(os.path.abspath, sys.argv[1:7])
    unittest.main(argv=[sys.argv[0], *sys.argv[7:]], verbosity=2)
