#!/usr/bin/env python3
"""MPI programs on several hosts, which are made of namespaces: what passes on one host passes there.

hosts_test.py WEFTRUN FOLDER_OF_PROGRAMS
"""

import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "jobs"))

import hosts  # noqa: E402
import weftrun_job  # noqa: E402
from weftrun_job import JobTest  # noqa: E402

PROGRAMS = None
HOSTS = None


def setUpModule():
    global HOSTS
    HOSTS = hosts.Hosts(3)


def tearDownModule():
    HOSTS.end()


class MpiAcrossHosts(JobTest):
    """A program fails by its exit code. Of more ranks than hosts, some share one."""

    def start(self, *arguments, **popen):
        return super().start("--timeout", 100, *arguments, env=HOSTS.environment(),
                             at=lambda *command: HOSTS.command("host0", *command), **popen)

    def over(self, count, ranks, program, *arguments):
        return self.good("--hosts", ",".join(HOSTS.names[:count]), "-n", ranks,
                         os.path.join(PROGRAMS, "mpi_program_" + program), *arguments)

    def test_messages(self):
        for program in "smoke", "p2p_order", "p2p_probe", "p2p_recalls":
            with self.subTest(program):
                self.over(2, 2, program)

    def test_communicators(self):
        for program in "comms_threads", "intercomms":
            with self.subTest(program):
                self.over(2, 4, program)

    def test_collectives(self):
        for program in "collectives_many", "collectives_reducing":
            with self.subTest(program):
                self.over(3, 5, program)

    def test_a_network_that_loses_packets_and_reorders_them(self):
        HOSTS.delay("host1", 1, 2, 10)
        self.addCleanup(HOSTS.mend, "host1")
        HOSTS.loss("host1", 5)
        for program in "smoke", "p2p_order":
            with self.subTest(program):
                self.over(3, 3 if program == "smoke" else 2, program)

    def test_tasks(self):
        self.over(2, 2, "tasks")


if __name__ == "__main__":
    hosts.as_root()
    weftrun_job.WEFTRUN, PROGRAMS = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
