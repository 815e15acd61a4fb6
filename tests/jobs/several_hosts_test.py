#!/usr/bin/env python3
"""Tests of weftrun over several hosts, which are made of namespaces (hosts.py), from outside.

several_hosts_test.py WEFTRUN JOB_PROBE PMIX_PROBE [unittest arguments]
"""

import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import hosts
import weftrun_job
from weftrun_job import (command_of, eventually, JobTest, kill_if_there, kill_rounds, seeded,
                         state_of, strike)

PROBE = PMIX_PROBE = None
HOSTS = None  # eight of them; whoever disturbs one mends it
SANITIZER = os.environ.get("LAUNCHER_TEST_SANITIZER", "")
DAEMON = "--daemon-of-weftrun"


def setUpModule():
    global HOSTS
    HOSTS = hosts.Hosts(8)


def tearDownModule():
    HOSTS.end()


def names(count, first=0):
    """What --hosts takes."""
    return ",".join(HOSTS.names[first:first + count])


class SeveralHostsTest(JobTest):
    """Jobs start in host0."""

    def start(self, *arguments, env=None, host="host0", cwd=".", **popen):
        return super().start(*arguments, env=HOSTS.environment() | (env or {}),
                             at=lambda *command: HOSTS.command(host, "env", "-C", cwd, *command),
                             **popen)

    def daemons(self, job):
        return [pid for pid in job.pids() if DAEMON in command_of(pid)]

    def script(self, text):
        """A program of one line of shell."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "agent")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return path

    def refused(self, code, words, *arguments, **more):
        job = self.run_job(*arguments, **more)
        self.assertEqual((job.code, job.out), (code, ""), job.err)
        self.assertRegex(job.err, words)
        for line in job.err.splitlines():
            self.assertTrue(line.startswith("weftrun: "), job.err)


class Contract(SeveralHostsTest):
    def test_exchange(self):
        for count, ranks in ((2, 2), (2, 5), (4, 9), (8, 16)):
            job = self.good("--hosts", names(count), "-n", ranks, PROBE, "exchange")
            self.assertEqual(job.out, "good\n" * ranks)

    def test_exchange_over_trees(self):
        for degree in 1, 2, 3:
            job = self.good("--launch-degree", degree, "--hosts", names(8), "-n", 11, PROBE,
                            "exchange")
            self.assertEqual(job.out, "good\n" * 11)

    def test_jobs_made_one_after_another(self):
        self.assertEqual(self.good("--hosts", names(3), "-n", 4, PROBE, "again").out, "good\n" * 4)

    def test_other_users_of_pmix(self):
        for degree in 32, 1:
            job = self.good("--launch-degree", degree, "--hosts", names(3), "-n", 7, PMIX_PROBE)
            self.assertEqual(job.out, "good\n" * 7)

    def test_shared_memory_ends_at_the_host(self):
        self.assertEqual(self.good("--hosts", names(2), "-n", 4, PROBE, "reach").out, "good\n" * 4)

    def check_nodes(self, job, expected):
        """`expected`: each host's name and ranks."""
        size = sum(len(ranks) for _, ranks in expected)
        lines = sorted(job.out.splitlines(), key=lambda line: int(line.split()[2]))
        ids = {re.search(r" id (\S+)", line)[1] for line in lines}
        self.assertEqual((len(ids), len(lines)), (1, size), job.out)
        for number, (host, ranks) in enumerate(expected):
            for rank in ranks:
                near = " ".join(map(str, ranks))
                self.assertIn(f"{host} rank {rank} of {size} node {number} of {len(expected)} "
                              f"by pmix near {near} id ", lines[rank])
                self.assertRegex(lines[rank], "key 32$")

    SHOW = ("sh", "-c", 'echo $(hostname) $("$0" info)')

    def test_nodes(self):
        for hosts_given, ranks, expected in (
                ("host0,host1", 2, [("host0", [0]), ("host1", [1])]),
                ("host0:1,host1:3", 4, [("host0", [0]), ("host1", [1, 2, 3])]),
                ("host2:2,host0:4,host1", 6, [("host2", [0, 1]), ("host0", [2, 3, 4, 5])]),
                ("host3,host2,host1", 5, [("host3", [0, 1]), ("host2", [2, 3]), ("host1", [4])]),
                ("host5", 3, [("host5", [0, 1, 2])]),
                ("host5:2", 1, [("host5", [0])]),
                ("host1,host1,localhost", 3, [("host1", [0, 1]), ("host0", [2])])):
            self.check_nodes(self.good("-host", hosts_given, "-n", ranks, *self.SHOW, PROBE),
                             expected)
        job = self.good("--hosts", "host0:1,host1:1", "--oversubscribe", "-n", 5, *self.SHOW, PROBE)
        self.check_nodes(job, [("host0", [0, 1, 2]), ("host1", [3, 4])])

    def test_names_of_all_kinds(self):
        agent = self.script("host=${1%%.*}; host=${host#*@}; test $1 = 10.77.0.3 && host=host2; shift; "
                            f'exec {HOSTS.agent} $host "$@"')
        job = self.good("--launch-agent", agent, "-n", 7, "--hosts",
                        "host0:2,host1.example.org:1,me@host1.example.com:2,10.77.0.3", "--oversubscribe",
                        *self.SHOW, PROBE)
        self.check_nodes(job, [("host0", [0, 1, 2]), ("host1", [3]), ("host1", [4, 5]), ("host2", [6])])
        job = self.good("--launch-agent", agent, "-n", 2, "--hosts", "10.77.0.3", *self.SHOW, PROBE)
        self.check_nodes(job, [("host2", [0, 1])])

    def test_ranks_of_each_host(self):
        self.check_nodes(self.good("-hosts", "host2,host0,host1", "-ppn", 2, "-n", 5, *self.SHOW, PROBE),
                         [("host2", [0, 1]), ("host0", [2, 3]), ("host1", [4])])

    def test_host_files(self):
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as file:
            file.write("# ours\n\n  host1   slots=2  # two\nhost0:1 max_slots=4\r\nhost2\n")
            file.flush()
            for flag in "--hostfile", "-hostfile", "-machinefile", "-f":
                job = self.good(flag, file.name, "-n", 4, *self.SHOW, PROBE)
                self.check_nodes(job, [("host1", [0, 1]), ("host0", [2]), ("host2", [3])])

    def test_several_programs(self):
        show = ("sh", "-c", "echo $(hostname) $PMIX_RANK $WEFTRUN_APP $A")
        job = self.good("-n", 2, "-host", "host1", "-env", "A", "x", *show, ":", "-n", 1, *show, ":",
                        "-n", 1, "-host", "host0", *show)
        self.assertEqual(sorted(job.out.splitlines()),
                         ["host0 3 2", "host1 0 0 x", "host1 1 0 x", "host1 2 1"])
        job = self.good("-n", 2, "-hosts", "host0,host1,host2", PROBE, "exchange", ":", "-n", 2,
                        PROBE, "exchange")
        self.assertEqual(job.out, "good\n" * 4)

    def test_abort(self):
        job = self.run_job("--hosts", names(3), "-n", 6, PROBE, "abort", 4, 42)
        self.assertEqual((job.code, job.out), (42, ""))
        self.assertEqual(job.err, "weftrun: rank 4 on host2 ended the job with code 42: no hope\n")

    def test_survivors_are_told(self):
        for number in kill_rounds(6):
            job = self.run_job("--launch-degree", (32, 1)[number % 2], "--hosts", names(4), "-n", 8,
                               "--on-failure", "continue", PROBE, "survive", 5)
            how = "on host2 was killed by signal 9 (SIGKILL)"
            self.assertEqual(job.out, f"told: victim {how}; peer_died: fence: rank 5 {how}\n" * 7)
            self.assertEqual((job.code, job.err), (137, f"weftrun: rank 5 {how}\n"))

    def test_ranks_that_are_missing(self):
        job = self.start("--hosts", names(3), "-n", 3, "--report-missing", 3, "sh", "-c",
                         "test $PMIX_RANK = 2 && exec sleep 1000; exec $0 exchange", PROBE)
        self.assertIn("rank 2 on host2 has not joined the job", job.process.stderr.readline().decode())
        job.process.terminate()
        job.finish()

    def test_rank_that_left(self):
        for _ in kill_rounds(5):
            job = self.good("--hosts", names(3), "-n", 6, PROBE, "absent", 4)
            self.assertRegex(job.out, "^(peer_died: fence: (rank 4 left the job before this fence|"
                                      "a rank ended before it came)\n){5}$")

    def test_rank_that_fails_in_order_ends_those_who_wait_for_it(self):
        job = self.run_job("--hosts", names(3), "-n", 3, PROBE, "desert", 1)
        self.assertEqual((job.code, job.err),
                         (9, "weftrun: rank 1 on host1 exited with code 9; ending the job\n"))

    def test_two_jobs_at_once(self):
        jobs = [self.start("--hosts", names(4, first), "-n", 8, PROBE, "exchange", host=f"host{first}")
                for first in (0, 2, 3)]
        for job in jobs:
            job.finish()
            self.assertEqual((job.code, job.out, job.err), (0, "good\n" * 8, ""))
            self.assertEqual(job.left_behind(), [])


class Surroundings(SeveralHostsTest):
    def test_variables_and_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            with tempfile.TemporaryDirectory() as below:
                job = self.good("--hosts", names(2), "-n", 2, "--env", "B=b c", "sh", "-c",
                                f"cd {below}; cd - >/dev/null; echo $A/$B/$(pwd)", env={"A": "a=1\n2"},
                                cwd=folder)
        self.assertEqual(job.out, f"a=1 2/b c/{os.path.realpath(folder)}\n" * 2)

    def test_folder_of_a_program(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.good("--hosts", names(2), "-n", 1, "pwd", ":", "-n", 1, "--wdir", folder, "pwd")
            self.assertEqual(sorted(job.out.splitlines()), sorted([os.getcwd(), folder]))

    def test_binding(self):
        cores = len(os.sched_getaffinity(0))
        job = self.good("--hosts", "host0:1,host1:3", "-n", 4, "--bind", "core", "sh", "-c",
                        "echo $PMIX_RANK $WEFTRUN_CORES $(grep Cpus_allowed_list /proc/self/status)")
        allowed = sorted(os.sched_getaffinity(0))
        # Each host's ranks begin with its first core.
        expected = [f"0 0/1 Cpus_allowed_list: {allowed[0]}"]
        expected += [f"{1 + i} {i // cores}/{len(range(i % cores, 3, cores))} "
                     f"Cpus_allowed_list: {allowed[i % cores]}" for i in range(3)]
        self.assertEqual(sorted(job.out.splitlines()), expected)

    def test_sigpipe_is_as_weftrun_found_it(self):
        bit = 1 << (signal.SIGPIPE - 1)
        for ignored in False, True:
            job = self.start("--launch-degree", 1, "--hosts", names(3), "-n", 3, "grep", "SigIgn:",
                             "/proc/self/status", preexec_fn=lambda: signal.signal(
                                 signal.SIGPIPE, signal.SIG_IGN if ignored else signal.SIG_DFL),
                             restore_signals=False).finish()
            masks = [int(line.split()[1], 16) & bit for line in job.out.splitlines()]
            self.assertEqual((masks, job.err), ([bit * ignored] * 3, ""))

    def test_verbose(self):
        job = self.run_job("--hosts", names(3), "-n", 6, "--verbose", "sh", "-c", "echo $PMIX_RANK $$")
        said = re.findall(r"weftrun: rank (\d+): pid (\d+) on ([^\s,]+)", job.err)
        self.assertEqual({(rank, pid) for rank, pid, _ in said},
                         {tuple(line.split()) for line in job.out.splitlines()})
        self.assertEqual({(rank, host) for rank, _, host in said},
                         {(str(rank), f"host{rank // 2}") for rank in range(6)})

    def test_key_is_on_no_command_line_and_in_no_file(self):
        job = self.start("--launch-degree", 1, "--hosts", names(3), "-n", 3, "sh", "-c",
                         "echo $WEFTRUN_KEY; exec sleep 1000")
        job.wait_for(3, "sleep")
        keys = {job.process.stdout.readline().strip() for _ in range(3)}
        self.assertEqual(len(keys), 1)
        key = keys.pop()
        self.assertEqual(len(key), 32)
        self.assertEqual(len(self.daemons(job)), 2)
        for pid in job.pids():
            self.assertNotIn(key.decode(), command_of(pid))
            self.assertEqual(stat.S_IMODE(os.stat(f"/proc/{pid}/environ").st_mode), 0o400)
        for folder, _, files in os.walk(job.temp):
            for name in files:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(key, file.read())
        job.process.terminate()
        self.assertEqual(job.finish().code, 143)
        self.assertEqual(job.left_behind(), [])


class InputOutput(SeveralHostsTest):
    def test_input_goes_to_rank_0(self):
        text = "".join(f"line {i}\n" for i in range(200_000)).encode()
        script = 'test $PMIX_RANK = 0 || echo none; cat'
        for hosts_given in "host1,host0", "host0,host1", "host2,host1":
            job = self.good("--hosts", hosts_given, "-n", 2, "sh", "-c", script, text_in=text)
            self.assertEqual(job.out.count("none\n"), 1)
            self.assertEqual(job.out.replace("none\n", "").encode(), text)
        with tempfile.TemporaryFile() as file:
            file.write(text)
            file.seek(0)
            job = self.good("--hosts", "host1,host0", "-n", 1, "cat", stdin=file)
        self.assertEqual(job.out.encode(), text)
        self.assertEqual(self.good("--hosts", "host1", "-n", 1, "cat").out, "")

    # A shell's part: a session with a terminal, standard input, which it gives to the command that it runs;
    # SIGUSR1: it has it itself, SIGUSR2: the command does.
    SHELL = ("import fcntl, os, signal, subprocess, sys, termios\n"
             "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
             "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
             "def begin():\n"
             "    os.setpgid(0, 0)\n"
             "    os.tcsetpgrp(0, os.getpid())\n"
             "    signal.signal(signal.SIGTTOU, signal.SIG_DFL)\n"
             "one = subprocess.Popen(sys.argv[1:], preexec_fn=begin)\n"
             "signal.signal(signal.SIGUSR1, lambda *_: os.tcsetpgrp(0, os.getpgrp()))\n"
             "signal.signal(signal.SIGUSR2, lambda *_: os.tcsetpgrp(0, one.pid))\n"
             "sys.exit(one.wait())\n")

    def test_terminal_of_another_job_is_not_read(self):
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        job = JobTest.start(self, "--host-timeout", 10, "--hosts", names(2, 1), "-n", 2, "sh", "-c",
                            "echo ready; test $PMIX_RANK = 0 || exec sleep 1000; read line; echo got $line; "
                            "exit 3", env=HOSTS.environment(), stdin=theirs, start_new_session=True,
                            at=lambda *command: [sys.executable, "-c", self.SHELL,
                                                 *HOSTS.command("host0", *command)])
        os.close(theirs)
        for _ in range(2):
            self.assertEqual(job.process.stdout.readline(), b"ready\n")
        weftrun = next(pid for pid in job.pids() if command_of(pid).startswith(weftrun_job.WEFTRUN)
                       and DAEMON not in command_of(pid))

        def give_terminal(number, owner):
            job.process.send_signal(number)
            self.assertTrue(eventually(lambda: os.tcgetpgrp(ours) == owner))

        # As Ctrl-Z, and then `bg`; what is typed then is the shell's.
        os.kill(weftrun, signal.SIGTSTP)
        self.assertTrue(eventually(lambda: state_of(weftrun) == "T"))
        give_terminal(signal.SIGUSR1, job.process.pid)
        os.kill(weftrun, signal.SIGCONT)
        self.assertTrue(eventually(lambda: state_of(weftrun) != "T"))
        os.write(ours, b"typed\n")
        for _ in range(25):
            time.sleep(0.1)
            self.assertNotEqual(state_of(weftrun), "T", "it was stopped by reading the terminal")
        self.assertEqual(len(job.ranks("read")), 1)
        # `fg`.
        give_terminal(signal.SIGUSR2, weftrun)
        job.finish()
        self.assertEqual((job.code, job.out), (3, "got typed\n"), job.err)
        self.assertEqual(job.left_behind(), [])

    def test_input_that_nobody_wants(self):
        text = b"x" * 3_000_000
        job = self.start("--hosts", "host1", "-n", 2, "sh", "-c",
                         "exec <&-; sleep 0.5; echo done", stdin=subprocess.PIPE)
        self.assertEqual(job.finish(text).out, "done\n" * 2)
        self.assertEqual(job.left_behind(), [])

    def test_prompt_of_one_rank_is_not_held_back(self):
        job = self.start("--hosts", "host3", "-n", 1, "sh", "-c",
                         "printf 'name? '; read name; echo hello $name", stdin=subprocess.PIPE)
        self.assertEqual(job.process.stdout.read(6), b"name? ")
        self.assertEqual(job.finish(b"weft\n").out, "hello weft\n")

    def test_lines_stay_whole(self):
        script = ("import os\n"
                  "r = os.environ['PMIX_RANK']\n"
                  "for i in range(60):\n"
                  "    line = f'{r}:{i}:' + r * (i * 97 % 3000) + '\\n'\n"
                  "    half = len(line) // 2\n"
                  "    for part in (line[:half], line[half:]):\n"
                  "        os.write(1 + i % 2, part.encode())\n")
        job = self.run_job("--launch-degree", 2, "--hosts", names(4), "-n", 8, sys.executable, "-c",
                           script)
        self.assertEqual(job.code, 0)
        for text, parity in ((job.out, 0), (job.err, 1)):
            seen = {str(rank): [] for rank in range(8)}
            for line in text.splitlines():
                rank, i, fill = line.split(":")
                self.assertEqual(fill, rank * (int(i) * 97 % 3000))
                seen[rank].append(int(i))
            for order in seen.values():
                self.assertEqual(order, list(range(parity, 60, 2)))

    def test_tags_and_last_lines(self):
        job = self.good("--hosts", names(2), "-n", 2, "--tag-output", "sh", "-c",
                        "echo a; echo; printf b")
        self.assertEqual([line for line in job.out.splitlines() if line.startswith("[1]")],
                         ["[1] a", "[1] ", "[1] b"])
        job = self.good("--hosts", "host1", "-n", 1, "printf", "%s", "no end")
        self.assertEqual(job.out, "no end")

    def test_reader_that_is_slow(self):
        job = self.start("--hosts", names(3), "-n", 6, sys.executable, "-c",
                         "for i in range(200000): print('x' * 50)")
        time.sleep(2)
        # All wait for us; memory stays bounded meanwhile, here and there.
        for pid in [job.process.pid, *self.daemons(job)]:
            with open(f"/proc/{pid}/status", encoding="ascii") as status:
                resident = int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])
            if not SANITIZER:
                self.assertLess(resident, 64 * 1024)
        job.finish()
        self.assertEqual((job.code, job.out.count("\n")), (0, 1_200_000))

    def test_reader_that_does_not_read_hides_no_death(self):
        job = self.start("--hosts", names(2), "-n", 2, "sh", "-c",
                         "test $PMIX_RANK = 1 && exec yes; sleep 1; exit 3")
        self.assertTrue(eventually(lambda: len(job.pids()) == 1), "the job did not end")
        self.assertEqual(job.finish().code, 3)

    def test_reader_that_leaves(self):
        job = self.start("--hosts", names(2, 1), "-n", 2, "yes")
        job.process.stdout.readline()
        job.process.stdout.close()
        job.process.stdout = None
        self.assertEqual(job.finish().code, 128 + signal.SIGPIPE)
        self.assertEqual(job.left_behind(), [])


class ExitCodes(SeveralHostsTest):
    def test_codes(self):
        job = self.run_job("--hosts", "host1", "-n", 1, "sh", "-c", "exit 7")
        self.assertEqual((job.code, job.err), (7, "weftrun: rank 0 on host1 exited with code 7\n"))

    def test_failure_ends_the_others(self):
        for stubborn in ("", "trap '' TERM;"):
            job = self.run_job("--hosts", names(4), "-n", 4, "sh", "-c",
                               f"{stubborn} test $PMIX_RANK = 2 && {{ sleep 0.5; exit 9; }}; "
                               "while :; do sleep 1000; done")
            self.assertEqual(job.code, 9)
            self.assertEqual(job.err,
                             "weftrun: rank 2 on host2 exited with code 9; ending the job\n")

    def test_continue(self):
        job = self.run_job("--hosts", names(3), "-n", 3, "--on-failure", "continue", "sh", "-c",
                           "test $PMIX_RANK = 1 && exit 4; sleep 1; echo survived")
        self.assertEqual((job.code, job.out), (4, "survived\n" * 2))
        self.assertEqual(job.err, "weftrun: rank 1 on host1 exited with code 4\n")

    def test_timeout(self):
        job = self.run_job("--hosts", names(2), "-n", 2, "--timeout", 1, "sleep", 1000)
        self.assertEqual((job.code, job.err),
                         (124, "weftrun: the job ran for 1 s, its limit; ending it\n"))

    def test_signals(self):
        job = self.start("--hosts", names(3), "-n", 3, "sh", "-c",
                         "trap 'echo got; exit 0' USR1; echo ready; while :; do sleep 0.05; done")
        for _ in range(3):
            self.assertEqual(job.process.stdout.readline(), b"ready\n")
        job.process.send_signal(signal.SIGUSR1)
        self.assertEqual(job.finish().out, "got\n" * 3)
        job = self.start("--hosts", names(3), "-n", 3, "sleep", 1000)
        job.wait_for(3, "sleep")
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.finish().code, 130)
        self.assertEqual(job.left_behind(), [])

    def test_stop_and_continue(self):
        # weftrun is silent meanwhile, and for longer than a host may be.
        job = self.start("--host-timeout", 1, "--hosts", names(2), "-n", 2, "sleep", 1000)
        pids = job.wait_for(2, "sleep")
        job.process.send_signal(signal.SIGTSTP)
        everyone = pids + [job.process.pid]
        self.assertTrue(eventually(lambda: all(state_of(pid) == "T" for pid in everyone)))
        time.sleep(2)
        job.process.send_signal(signal.SIGCONT)
        self.assertTrue(eventually(lambda: all(state_of(pid) == "S" for pid in everyone)))
        job.process.terminate()
        self.assertEqual(job.finish().code, 143)


class Refusals(SeveralHostsTest):
    def test_lists_and_files(self):
        for given, words in (("host0:x", "'host0:x': a number of slots from 1"),
                             ("host0:0", "'host0:0': a number of slots from 1"),
                             ("host0,,host1", "'' is no host's name"),
                             ("-x,host1", "'-x' is no host's name"),
                             ("a;b", "'a;b' is no host's name"),
                             ("host0:2,host1:3", "6 ranks, but the hosts have 5 slots in all")):
            self.refused(2, re.escape(words), "--hosts=" + given, "-n", 6, "true")
        for text, words in (("host0 slots=two\n", "line 1: 'slots=two': slots=N is all"),
                            ("host0\nhost1 2\n", "line 2: '2': slots=N is all"),
                            ("# nobody\n", "names no host"),
                            ("host0\n\0\n", "line 2: ")):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                self.refused(2, f"--hostfile {file.name}: {re.escape(words)}", "--hostfile",
                             file.name, "-n", 1, "true")
                self.refused(2, "one of them", "--hostfile", file.name, "--hosts", "host0", "-n", 1,
                             "true")
        self.refused(2, "--hostfile /: Is a directory", "--hostfile", "/", "-n", 1, "true")
        self.refused(2, "--hostfile /absent: No such file", "--hostfile", "/absent", "-n", 1, "true")
        self.refused(2, "the ranks of a host must follow each other", "-n", 1, "-host", "host1",
                     "true", ":", "-n", 1, "-host", "host0", "true", ":", "-n", 1, "-host", "host1",
                     "true")
        self.refused(2, "--fake-nodes: not with other hosts", "--fake-nodes", 2, "--hosts", names(2),
                     "-n", 2, "true")
        for option in "--host-timeout", "--launch-timeout":
            for seconds in -1, 0, "nan":
                self.refused(2, f"{option} {seconds}: must be positive", option, seconds, "--hosts",
                             names(2), "-n", 2, "true")
        self.refused(2, "--launch-degree 0", "--launch-degree", 0, "--hosts", names(2), "-n", 2,
                     "true")

    def test_nothing_is_no_host(self):
        for option in "--hosts", "--hostfile":
            self.refused(2, f"{option} '': names nothing", option, "", "-n", 1, "true")

    def test_too_few_descriptors(self):
        def may_have(number):
            return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))}

        self.refused(1, r"1 ranks and 2 other hosts take up to 40 open files, and this shell may have 39 ",
                     "--hosts", names(3), "-n", 3, "true", **may_have(39))
        self.good("--hosts", names(3), "-n", 3, PROBE, "exchange", **may_have(40))
        self.good("--hosts", names(8), "-n", 8, "true", **may_have(60))

    def test_unknown_host(self):
        for degree in 32, 1:
            self.refused(1, "(?s)moon: no such host: moon\n.*host moon: the launch agent exited with "
                            "code 255, and no daemon answered; ending the job\n$",
                         "--launch-degree", degree, "--hosts", "host1,host2,moon", "-n", 3, PROBE,
                         "exchange")

    def test_agents(self):
        def agent(*words):
            return "--launch-agent", " ".join(words), "--hosts", names(2), "-n", 2, "true"
        self.refused(127, "launch agent: no such program in PATH: absent", *agent("absent"))
        self.refused(1, "host host1: the launch agent exited with code 1, and no daemon",
                     *agent("false"))
        self.refused(1, "host host1: the launch agent was killed by signal 9",
                     *agent(self.script("kill -9 $$")))
        self.refused(1, "host host1: no daemon answered within 0.7 s", "--launch-timeout", 0.7,
                     *agent(self.script("exec sleep 1000")))
        # One that does not pass on its standard input.
        self.refused(1, "host1: a daemon of weftrun is started by weftrun",
                     *agent(self.script(f'exec {HOSTS.agent} "$@" </dev/null')))

    def test_program_and_folder_that_are_not_there(self):
        # Each host has a /dev/shm of its own.
        self.addCleanup(HOSTS.do, "host0", "rm", "-rf", "/dev/shm/own")
        HOSTS.do("host0", "sh", "-c", "mkdir /dev/shm/own; cp /bin/true /dev/shm/own/program")
        self.refused(127, "rank 1 could not be started on host1: exec /dev/shm/own/program: No such",
                     "--hosts", names(3), "-n", 3, "/dev/shm/own/program")
        self.refused(1, "^weftrun: host host1: cannot change to the folder /dev/shm/own: No such file "
                        "or directory; ending the job\n$", "--hosts", names(2), "-n", 2, "true",
                     cwd="/dev/shm/own")

    def test_launcher_that_is_slow_to_answer(self):
        # weftrun does nothing for longer than an address gets to answer while there are others.
        agent = self.script("kill -STOP $PPID; (sleep 5; kill -CONT $PPID) >/dev/null 2>&1 &\n"
                            f'exec {HOSTS.agent} "$@"')
        job = self.good("--launch-agent", agent, "--hosts", names(2), "-n", 2, PROBE, "exchange")
        self.assertEqual(job.out, "good\n" * 2)

    def test_temp_folder_of_this_host_alone(self):
        self.addCleanup(HOSTS.do, "host0", "rm", "-rf", "/dev/shm/own")
        HOSTS.do("host0", "mkdir", "/dev/shm/own")
        job = self.good("--hosts", names(3), "-n", 3, PROBE, "exchange", env={"TMPDIR": "/dev/shm/own"})
        self.assertEqual(job.out, "good\n" * 3)

    def test_weftrun_where_a_shell_sees_more_than_a_word(self):
        folder = tempfile.mkdtemp(prefix="weft's $(own) ")
        self.addCleanup(shutil.rmtree, folder)
        self.addCleanup(setattr, weftrun_job, "WEFTRUN", weftrun_job.WEFTRUN)
        weftrun_job.WEFTRUN = shutil.copy(weftrun_job.WEFTRUN, folder)
        ssh = os.path.join(os.path.dirname(HOSTS.agent), "ssh")
        job = self.good("--launch-agent", ssh, "--hosts", names(3), "-n", 3, PROBE, "exchange")
        self.assertEqual(job.out, "good\n" * 3)

    def test_interrupted_while_hosts_start(self):
        job = self.start("--launch-agent", self.script("exec sleep 1000"), "--hosts", names(3), "-n", 3,
                         "true")
        self.assertTrue(eventually(lambda: job.ranks("sleep")))
        job.process.send_signal(signal.SIGINT)
        self.assertEqual((job.finish().code, job.err),
                         (130, "weftrun: SIGINT before all hosts were ready; ending the job\n"))
        self.assertEqual(job.left_behind(), [])


# A rank with a child, and a grandchild in a session of its own.
FAMILY = "sleep 1000 & setsid sh -c 'sleep 1000; true' & while :; do sleep 1000; done"


class Killed(SeveralHostsTest):
    def family(self, *options, count=4):
        job = self.start("--host-timeout", 2, "--hosts", names(count), "-n", count, *options, "sh",
                         "-c", FAMILY, stdout=subprocess.DEVNULL)
        job.wait_for(3 * count, "sleep")
        return job

    def processes_at(self, job, host):
        """Of its processes those that are on the host."""
        place = os.readlink(f"/proc/{HOSTS.pids[host]}/ns/net")
        found = []
        for pid in job.pids():
            try:
                if os.readlink(f"/proc/{pid}/ns/net") == place:
                    found.append(pid)
            except OSError:
                pass
        return found

    def one_at(self, job, host, word):
        return next(pid for pid in self.processes_at(job, host) if word in command_of(pid))

    def test_rank(self):
        for degree in 32, 1:
            job = self.family("--launch-degree", degree)
            victim = next(pid for pid in self.processes_at(job, "host2")
                          if command_of(pid).startswith("sh -c sleep 1000 &") and os.getpgid(pid) == pid)
            os.kill(victim, signal.SIGKILL)
            job.finish()
            self.assertEqual((job.code, job.err),
                             (137, "weftrun: rank 2 on host2 was killed by signal 9 (SIGKILL); ending "
                                   "the job\n"))
            self.assertEqual(job.left_behind(), [])

    def test_launcher(self):
        for degree in 32, 1:
            job = self.family("--launch-degree", degree)
            job.process.kill()
            job.process.wait()
            self.assertEqual(job.left_behind(), [])

    def test_daemon(self):
        job = self.family()
        os.kill(self.one_at(job, "host2", DAEMON), signal.SIGKILL)
        job.finish()
        self.assertEqual(job.code, 1)
        self.assertRegex(job.err, r"^weftrun: host host2: the connection to it ended \(.*\); rank 2 is "
                                  "lost; ending the job\n$")
        self.assertEqual(job.left_behind(), [])

    def test_daemon_in_a_tree(self):
        job = self.family("--launch-degree", 1)
        os.kill(self.one_at(job, "host2", DAEMON), signal.SIGKILL)
        job.finish()
        self.assertEqual(job.code, 1)
        self.assertRegex(job.err, r"^weftrun: host host2: the connection to it ended \(.*\); rank 2 is "
                                  "lost; ending the job\nweftrun: host host3: it was reached through "
                                  "host2, which is lost; rank 3 is lost\n$")
        self.assertEqual(job.left_behind(), [])

    def test_guardian_of_the_launcher(self):
        job = self.family()
        os.kill(self.one_at(job, "host0", "weft-guardian"), signal.SIGKILL)
        job.finish()
        self.assertEqual((job.code, job.err),
                         (1, "weftrun: the guardian process died; the job is over\n"))
        self.assertEqual(job.left_behind(), [])

    def test_guardian_of_a_daemon(self):
        for degree in 32, 1:
            job = self.family("--launch-degree", degree)
            os.kill(self.one_at(job, "host1", "weft-guardian"), signal.SIGKILL)
            job.finish()
            self.assertEqual(job.code, 1)
            self.assertIn("host host1: the guardian process died; rank 1 is lost; ending the job",
                          job.err)
            self.assertEqual(job.left_behind(), [])

    @unittest.skipIf(SANITIZER, "it takes these signals for itself, or has a thread of its own")
    def test_daemon_that_breaks_down(self):
        for of_pmix in (True, False):
            job = self.family()
            daemon = self.one_at(job, "host1", DAEMON)
            task = next(task for task in sorted(map(int, os.listdir(f"/proc/{daemon}/task")))
                        if (task != daemon) == of_pmix)
            self.assertEqual(strike(daemon, task), 0)
            job.finish()
            self.assertEqual(job.code, 1)
            self.assertRegex(job.err, "^weftrun: host host1: .*; rank 1 is lost; ending the job\n$")
            self.assertEqual("its PMIx server broke down (SIGSEGV)" in job.err, of_pmix)
            self.assertEqual(job.left_behind(), [])

    def test_last_unfinished_line_of_a_lost_host(self):
        for tag in (), ("--tag-output",):
            job = self.start(*tag, "--hosts", names(2), "-n", 2, "sh", "-c",
                             "test $PMIX_RANK = 0 && exec sleep 1000; printf half; sleep 0.3; echo >&2; "
                             "exec sleep 1000")
            job.process.stderr.readline()
            os.kill(self.one_at(job, "host1", DAEMON), signal.SIGKILL)
            job.finish()
            self.assertEqual((job.code, job.out), (1, "[1] half" if tag else "half"))
            self.assertEqual(job.left_behind(), [])

    def test_what_was_printed_before_a_daemon_gave_up(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        job = self.start("--hosts", names(2), "-n", 2, "sh", "-c",
                         "test $PMIX_RANK = 0 && exec sleep 1000; echo ready; cd $0; "
                         "(while ! test -e go; do sleep 0.05; done; echo late; touch gone) & wait", folder)
        self.assertEqual(job.process.stdout.readline(), b"ready\n")
        daemon, guardian = (self.one_at(job, "host1", word) for word in (DAEMON, "weft-guardian"))
        os.kill(daemon, signal.SIGSTOP)
        self.assertTrue(eventually(lambda: state_of(daemon) == "T"))
        os.kill(guardian, signal.SIGKILL)
        self.assertTrue(eventually(lambda: state_of(guardian) in "Z"))
        # What outlived its rank prints when the daemon has yet to hear of the guardian's end.
        with open(f"{folder}/go", "w", encoding="utf-8"):
            pass
        self.assertTrue(eventually(lambda: os.path.exists(f"{folder}/gone")))
        os.kill(daemon, signal.SIGCONT)
        job.finish()
        self.assertEqual((job.code, job.out), (1, "late\n"), job.err)
        self.assertIn("host host1: the guardian process died; rank 1 is lost; ending the job", job.err)
        self.assertEqual(job.left_behind(), [])

    def test_stopped_daemon(self):
        job = self.family()
        daemon = self.one_at(job, "host3", DAEMON)
        os.kill(daemon, signal.SIGSTOP)
        job.finish()
        self.assertEqual(job.code, 1)
        self.assertIn("host host3: it was silent for 2 s; rank 3 is lost; ending the job", job.err)
        kill_if_there(daemon, signal.SIGCONT)
        self.assertEqual(job.left_behind(), [])

    def cut_off(self, host, how, *options):
        job = self.family(*options)
        self.addCleanup(HOSTS.mend, host)
        HOSTS.cut(host, how)
        job.finish()
        self.assertEqual(job.code, 1, job.err)
        # Before the net is whole again.
        self.assertEqual(job.left_behind(), [])
        HOSTS.mend(host)
        return job.err

    def test_host_that_is_cut_off(self):
        for how in "link", "drop":
            self.assertEqual(self.cut_off("host2", how),
                             "weftrun: host host2: it was silent for 2 s; rank 2 is lost; ending the "
                             "job\n")

    def test_host_within_a_tree_that_is_cut_off(self):
        said = self.cut_off("host1", "link", "--launch-degree", 2)
        self.assertIn("host host1: it was silent for 2 s; rank 1 is lost; ending the job\n", said)
        self.assertIn("host host3: it was reached through host1, which is lost; rank 3 is lost\n", said)

    def test_launcher_that_is_cut_off(self):
        said = self.cut_off("host0", "drop")
        for rank in 1, 2, 3:
            self.assertIn(f"host host{rank}: it was silent for 2 s; rank {rank} is lost", said)

    def test_survivors_of_a_lost_host(self):
        job = self.start("--host-timeout", 2, "--hosts", names(3), "-n", 3, "--on-failure", "continue",
                         PROBE, "late", 2)
        for _ in range(3):
            self.assertEqual(job.process.stdout.readline(), b"waits\n")
        os.kill(self.one_at(job, "host2", DAEMON), signal.SIGKILL)
        job.finish()
        # (Who hears of the other's end, too, may tell of that.)
        self.assertIn("job_probe: fence: rank 2 on host2 is lost with its host: the connection to it "
                      "ended", job.err)
        self.assertEqual(job.left_behind(), [])

    def test_launcher_at_any_moment(self):
        rng = seeded()
        for number in kill_rounds(8):
            job = self.start("--launch-degree", 1 + number % 3, "--hosts", names(4), "-n", 4, PROBE,
                             "exchange", start_new_session=True)
            time.sleep(rng.uniform(0, 0.5))
            job.process.kill()
            job.process.wait()
            self.assertEqual(job.left_behind(), [])

    def test_rank_or_daemon_at_any_moment(self):
        rng = seeded()
        for number in kill_rounds(8):
            job = self.start("--launch-degree", 1 + number % 3, "--hosts", names(4), "-n", 8, PROBE,
                             "exchange")
            time.sleep(rng.uniform(0.05, 0.6))
            victims = job.ranks("exchange") if number % 2 else self.daemons(job)
            if victims:
                kill_if_there(rng.choice(victims))
            job.finish()
            self.assertIn(job.code, (0, 137) if number % 2 else (0, 1), job.err)
            if job.code != 0:
                self.assertRegex(job.err, r"weftrun: .*host\d")
            self.assertEqual(job.left_behind(), [])


if __name__ == "__main__":
    hosts.as_root()
    weftrun_job.WEFTRUN, PROBE, PMIX_PROBE = map(os.path.abspath, sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
