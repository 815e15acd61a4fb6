#!/usr/bin/env python3
"""Tests of weftrun's command line: its own, and those that were written for other launchers.

command_line_test.py WEFTRUN PROBE [unittest arguments]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import weftrun_job
from weftrun_job import JobTest

PROBE = None
HOST = os.uname().nodename
SANITIZER = os.environ.get("LAUNCHER_TEST_SANITIZER", "")


class Arguments(JobTest):
    def refused(self, code, words, *arguments, **more):
        job = self.run_job(*arguments, **more)
        self.assertEqual(job.code, code, job.err)
        self.assertRegex(job.err, words)
        self.assertTrue(job.err.startswith("weftrun: "), job.err)
        self.assertEqual(job.out, "")

    def test_number_of_ranks(self):
        self.refused(2, "how many ranks", "true")
        for number in (0, -3, 5000):
            self.refused(2, f"-n {number}: the number of ranks must be", "-n", number, "true")
        self.refused(2, "two", "-n", "two", "true")

    def test_program(self):
        self.refused(2, "no program given", "-n", 2)
        self.refused(127, "no such program: ./absent: No such file", "-n", 2, "./absent")
        self.refused(127, "no such program in PATH: absent-program", "-n", 2, "absent-program")
        self.refused(126, "/usr is a directory", "-n", 2, "/usr")
        self.refused(126, "cannot run /etc/hostname: Permission|cannot run /etc/passwd: Permission",
                     "-n", 2, "/etc/passwd")

    @unittest.skipIf(SANITIZER == "thread", "it makes a fork of vfork")
    def test_program_that_is_none(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "no-program")
            with open(path, "wb") as file:
                file.write(b"\0\1\2\3")
            os.chmod(path, 0o755)
            self.refused(126, "rank 0 could not be started: exec .*no-program: Exec format error",
                         "-n", 3, path)
            with open(path, "wb") as file:
                file.write(b"#!/absent/interpreter\n")
            self.refused(127, "No such file or directory .of what it is to be run by: its first line", "-n", 1, path)
            self.refused(127, r"did you mean \./no-program\?", "-n", 1, "no-program", cwd=folder)

    def test_options(self):
        self.refused(2, "unknown option --bnid", "-n", 2, "--bnid", "core", "true")
        self.refused(2, "unknown option --bogus", "--bogus", 5, "-n", 2, "true")
        for word in "-configfile", "-launcher", "-nolocal":
            self.refused(2, f"unknown option -{word}", word, "x", "-n", 2, "true")
        self.refused(2, "unknown option --timeout .*before the first program", "-n", 1, "true", ":", "--timeout", 3,
                     "-n", 1, "true")
        for words in ("-n2", "-lq"), ("-qln2",), ("-qlx", "A=1", "-n", 2):
            self.assertEqual(self.good(*words, "echo", "x").out.count("x\n"), 2)
        self.refused(2, "--bind: 'socket' is none of core, none, numa, share$",
                     "-n", 2, "--bind", "socket", "true")
        self.refused(2, "--env FOO: expected NAME=VALUE", "-n", 2, "--env", "FOO", "true")
        self.refused(2, "--fake-nodes 3: must be from 1 to the number of ranks, 2",
                     "-n", 2, "--fake-nodes", 3, "true")
        self.refused(2, "--timeout -1", "-n", 2, "--timeout", -1, "true")
        self.refused(2, "--on-failure: 'pray' is none of continue, end$",
                     "-n", 2, "--on-failure", "pray", "true")

    def test_numbers(self):
        for number in -1, 0:
            self.refused(2, f"--ppn {number}: must be 1 or more", "-n", 2, "--ppn", number, "true")
        self.refused(2, "--ppn", "-n", 2, "--ppn", "many", "true")
        self.refused(2, "--report-missing -1: must be from 0", "-n", 2, "--report-missing", -1, "true")

    def test_help_and_version(self):
        self.assertIn("--on-failure", self.good("--help").out)
        self.assertRegex(self.good("--version").out, r"^weftrun \d+\.\d+\.\d+\n$")

    def test_arguments_of_the_program_are_its_own(self):
        job = self.good("-n", 1, "echo", "-n", "7", "--bind", "--", "--env", "x y")
        self.assertEqual(job.out, "7 --bind -- --env x y")
        self.assertEqual(self.good("-n", 1, "--", "printf", "%s", "--help").out, "--help")

    def test_temp_folder_cannot_be_made(self):
        job = self.run_job("-n", 1, "true", env={"TMPDIR": "/absent-folder"})
        self.assertEqual(job.code, 1)
        self.assertIn("cannot make a folder /absent-folder/", job.err)


class Flags(JobTest):
    """What command lines that were written for other MPI launchers have."""

    def test_number_of_ranks(self):
        for flag in "-n", "-np", "--np", "-c", "--ranks":
            self.assertEqual(self.good(flag, 2, "echo", "x").out, "x\nx\n")

    def test_hosts(self):
        for hosts in "localhost", HOST, "localhost:4", f"{HOST},localhost":
            for flag in "-host", "--host", "-H", "-hosts":
                self.assertEqual(self.good("-n", 1, flag, hosts, "echo", "x").out, "x\n")
        # The first host takes the only rank; the other is not asked for.
        self.assertEqual(self.good("-n", 1, "-host", "localhost,far-away", "echo", "x").out, "x\n")

    def test_variables(self):
        show = ("sh", "-c", "echo $A/$B/$C")
        job = self.good("-env", "A", "1", "-x", "B=2", "-x", "C", "-np", 1, *show, env={"C": "3"})
        self.assertEqual(job.out, "1/2/3\n")
        job = self.good("-n", 1, "-env", "A", "a=b", "--env", "B=c d", *show)
        self.assertEqual(job.out, "a=b/c d/\n")

    def test_those_that_change_nothing(self):
        job = self.good("--oversubscribe", "--allow-run-as-root", "--map-by", "core", "-map-by",
                        "slot:OVERSUBSCRIBE", "-n", 2, "--bind-to", "none", "echo", "x")
        self.assertEqual(job.out, "x\nx\n")

    def test_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = os.path.realpath(folder)
            with open(os.path.join(folder, "where"), "w", encoding="ascii") as file:
                file.write("#!/bin/sh\necho $0 $PWD $(/bin/pwd)\n")
            os.chmod(file.name, 0o755)
            for flag in "-wdir", "--wdir", "-wd":
                # From there the program is found.
                job = self.good(flag, folder, "-n", 2, "./where")
                self.assertEqual(job.out, f"{folder}/where {folder} {folder}\n" * 2)
            above, name = os.path.split(folder)
            job = self.good("-n", 1, "--wdir", name, "./where", ":", "-n", 1, "sh", "-c", "/bin/pwd", cwd=above)
            self.assertEqual(sorted(job.out.splitlines()), sorted([f"{folder}/where {folder} {folder}", above]))
            job = self.run_job("-n", 1, "--wdir", folder, "./absent")
            self.assertEqual((job.code, job.out), (127, ""))
        self.assertEqual(self.run_job("-n", 1, "--wdir", "x" * 300, "true").code, 2)
        job = self.run_job("-n", 1, "--wdir", folder, "true")  # which is gone
        self.assertEqual((job.code, job.err), (2, f"weftrun: --wdir {folder}: no such folder\n"))

    def test_folder_that_is_closed(self):
        """Or that another host has not: the rank is not started somewhere else."""
        with tempfile.TemporaryDirectory() as folder:
            closed = os.path.join(folder, "closed")
            os.mkdir(closed)
            done = subprocess.run(
                ["unshare", "--user", "--map-user=12345", "sh", "-c",
                 f"chmod 0 {closed} 2>/dev/null; exec {weftrun_job.WEFTRUN} -n 1 --wdir {closed} /bin/pwd"],
                capture_output=True, text=True, timeout=weftrun_job.WATCHDOG_S)
            os.chmod(closed, 0o700)
            if "unshare:" in done.stderr:
                self.skipTest("no namespaces of users here")
            self.assertEqual((done.returncode, done.stdout), (126, ""), done.stderr)
            self.assertIn(f"enter the folder {closed}: Permission denied", done.stderr)

    def test_tags(self):
        for flag in "-l", "-prepend-rank", "--tag-output":
            self.assertEqual(sorted(self.good("-n", 2, flag, "echo", "x").out.splitlines()), ["[0] x", "[1] x"])

    def test_ranks_of_each_host(self):
        for flag in "-ppn", "--ppn", "-perhost", "-npernode", "-N":
            self.assertEqual(self.good("-n", 2, flag, 2, "echo", "x").out, "x\nx\n")
        job = self.run_job("-n", 3, "-ppn", 1, "-host", "localhost,far-away", "echo", "x")
        self.assertEqual((job.code, job.out), (2, ""))
        self.assertIn("3 ranks, but the hosts have 2 slots in all", job.err)

    def test_settings_of_others(self):
        job = self.run_job("--mca", "btl", "self,vader", "-np", 1, "-genvlist", "A,B", "echo", "x")
        self.assertEqual((job.code, job.out), (0, "x\n"))
        self.assertEqual(job.err, "weftrun: --mca btl self,vader: another launcher's, left out\n"
                                  "weftrun: -genvlist A,B: another launcher's, left out\n")
        self.good("-genvall", "--mca", "btl", "tcp", "--output=tag", "-q", "-np", 1, "true")

    def test_binding(self):
        job = self.good("-n", 2, "--bind-to", "core", "sh", "-c",
                        "grep Cpus_allowed_list /proc/self/status")
        self.assertEqual(len(re.findall(r":\t\d+\n", job.out)), 2, job.out)
        self.good("-n", 1, "-bind-to", "socket", "true")
        job = self.run_job("-n", 1, "--bind-to", "moon", "true")
        self.assertEqual((job.code, job.out), (2, ""))
        self.assertIn("--bind-to moon", job.err)

    def test_several_programs(self):
        show = ("sh", "-c", "echo $0 $PMIX_RANK $WEFTRUN_APP $A $B")
        job = self.good("-env", "A", "1", "-n", 2, *show, "first", ":", "-genv", "B", "2",
                        "-np", 1, *show, "second", ":", "-n", 1, "--env", "A=3", *show, "third")
        self.assertEqual(sorted(job.out.splitlines()),
                         ["first 0 0 1 2", "first 1 0 1 2", "second 2 1 2", "third 3 2 3 2"])
        job = self.good("-n", 1, PROBE, "exchange", ":", "-n", 2, PROBE, "exchange")
        self.assertEqual(job.out, "good\n" * 3)
        self.assertEqual(self.good("-n", 1, "--", "echo", "a", ":", "b").out, "a : b\n")
        for command, words in ((["-n", 1, "true", ":"], "how many ranks"),
                               (["-n", 1, "true", ":", "-n", 1], "no program given"),
                               (["-n", 1, "true", ":", "-n", 1, "./absent"], "no such program")):
            job = self.run_job(*command)
            self.assertNotEqual(job.code, 0)
            self.assertIn(words, job.err)

    def test_names(self):
        for name in "mpiexec", "mpirun":
            program = os.path.join(os.path.dirname(weftrun_job.WEFTRUN), name)
            done = subprocess.run([program, "-n", "2", "echo", "x"], capture_output=True, text=True,
                                  timeout=weftrun_job.WATCHDOG_S)
            self.assertEqual((done.stdout, done.stderr, done.returncode), ("x\nx\n", "", 0))


if __name__ == "__main__":
    weftrun_job.WEFTRUN, PROBE = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
