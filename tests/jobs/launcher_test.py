#!/usr/bin/env python3
"""Tests of weftrun from outside: what a user sees, kills and finds afterwards.

launcher_test.py WEFTRUN PROBE [unittest arguments]
"""

import os
import random
import re
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import weftrun_job
from weftrun_job import (command_of, eventually, JobTest, kill_if_there, kill_rounds, seeded,
                         state_of, strike, WATCHDOG_S)

PROBE = None
HOST = os.uname().nodename
SANITIZER = os.environ.get("LAUNCHER_TEST_SANITIZER", "")


def unread_connections():
    """The inodes of TCP sockets of this machine whose other end has not read all that they sent."""
    inodes, unread = {}, set()
    with open("/proc/net/tcp", encoding="ascii") as table:
        for row in list(table)[1:]:
            _, here, there, _, queues, _, _, _, _, inode = row.split()[:10]
            inodes[here, there] = inode
            if not queues.endswith(":00000000"):
                unread.add((there, here))
    return {inodes.get(ends) for ends in unread}


def asks_in_vain(pid):
    """True once it has sent something over TCP that nobody read."""
    try:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        return False
    return any(f"socket:[{inode}]" in links for inode in unread_connections())


class Environment(JobTest):
    def test_variables(self):
        job = self.good("-n", 2, "--env", "A=1=2", "--env", "B=", "--env", "HOME=/nowhere",
                        "sh", "-c", "echo $A/$B/$HOME/$PMIX_RANK/$KEPT", env={"KEPT": "kept"})
        self.assertEqual(sorted(job.out.split()), ["1=2///nowhere/0/kept", "1=2///nowhere/1/kept"])

    def test_nothing_of_an_outer_job_reaches_the_ranks(self):
        outer = {"PMIX_RANK": "7", "PMIX_NAMESPACE": "outer", "PMIX_SERVER_URI41": "nonsense",
                 "WEFTRUN_KEY": "outer"}
        job = self.good("-n", 2, PROBE, "exchange", env=outer)
        self.assertEqual(job.out, "good\ngood\n")
        job = self.good("-n", 2, weftrun_job.WEFTRUN, "-n", 2, PROBE, "exchange")
        self.assertEqual(job.out, "good\n" * 4)

    def test_ranks_of_a_host_find_each_other_on_cards(self):
        for ranks, more in (3, []), (4, ["--fake-nodes", "2"]):
            job = self.run_job("-n", ranks, *more, PROBE, "exchange",
                               env={"WEFT_LOG_LEVEL": "debug"})
            self.assertEqual(job.code, 0, job.err)
            self.assertEqual(job.err.count(f"cards of {ranks} ranks"), ranks, job.err)

    def test_key_is_on_no_command_line(self):
        job = self.start("-n", 2, "sh", "-c", "echo $WEFTRUN_KEY; exec sleep 1000")
        pids = job.wait_for(2, "sleep")
        key = job.process.stdout.readline().strip()
        self.assertEqual(len(key), 32)
        for pid in job.pids():
            self.assertNotIn(key.decode(), command_of(pid))
        self.assertEqual(stat.S_IMODE(os.stat(f"/proc/{pids[0]}/environ").st_mode), 0o400)
        job.process.terminate()
        self.assertEqual(job.finish().code, 143)
        self.assertEqual(job.left_behind(), [])

    def test_working_folder_descriptors_and_limits(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.good("-n", 2, "sh", "-c", "pwd; ls /proc/self/fd | wc -w; ulimit -n",
                            cwd=folder)
            lines = job.out.split()
            self.assertEqual(lines.count(os.path.realpath(folder)), 2)
            # 0, 1, 2 and the one that ls reads the folder with.
            self.assertEqual(lines.count("4"), 2, lines)
            limit = subprocess.run(["sh", "-c", "ulimit -n"], stdout=subprocess.PIPE, check=True)
            self.assertEqual(lines.count(limit.stdout.decode().strip()), 2)

    def test_binding(self):
        cores = sorted(os.sched_getaffinity(0))
        show = "echo $PMIX_RANK $(grep Cpus_allowed_list /proc/self/status)"
        job = self.good("-n", 5, "--bind", "core", "sh", "-c", show)
        for line in job.out.splitlines():
            rank, _, allowed = line.split()
            self.assertEqual(int(allowed), cores[int(rank) % len(cores)])
        # Which of those that share its cores a rank is, and of how many.
        share = "echo $PMIX_RANK $WEFTRUN_CORES"
        job = self.good("-n", 5, "--bind", "core", "sh", "-c", share)
        self.assertEqual(sorted(job.out.splitlines()), [
            f"{rank} {rank // len(cores)}/{len(range(rank % len(cores), 5, len(cores)))}"
            for rank in range(5)])
        job = self.good("-n", 3, "--bind", "none", "sh", "-c", share, env={"WEFTRUN_CORES": "5/7"})
        self.assertEqual(sorted(job.out.splitlines()), ["0 0/3", "1 1/3", "2 2/3"])
        job = self.good("-n", 2, "--bind", "numa", "sh", "-c", show)
        self.assertEqual(len(job.out.splitlines()), 2)
        fake = {"WEFT_BASE_TOPOLOGY": "numa:2 core:4 pu:1"}
        job = self.run_job("-n", 3, "-v", "--bind", "numa", "true", env=fake)
        self.assertEqual(job.code, 0)
        self.assertRegex(job.err, r"rank 0: .*memory node 0 \(cores 0,1,2,3\)")
        self.assertRegex(job.err, r"rank 1: .*memory node 1 \(cores 4,5,6,7\)")
        self.assertRegex(job.err, r"rank 2: .*memory node 0 ")
        # Without a word: each its share, as long as there is a core for each.
        for ranks, expected in ((2, ["cores 0,1,2,3", "cores 4,5,6,7"]),
                                (3, ["cores 0,1", "cores 2,3,4", "cores 5,6,7"]),
                                (8, [f"core {i}" for i in range(8)])):
            job = self.run_job("-n", ranks, "-v", "true", env=fake)
            self.assertEqual(job.code, 0)
            for rank, places in enumerate(expected):
                self.assertRegex(job.err, rf"rank {rank}: pid \d+ on [^,]+, {places}\n")
        for ranks, bind in ((1, "share"), (9, "share"), (2, "none")):
            job = self.run_job("-n", ranks, "-v", "--bind", bind, "true", env=fake)
            self.assertEqual(job.code, 0)
            self.assertNotIn("core", job.err)
        job = self.good("-n", len(cores), "sh", "-c", show + " $WEFTRUN_CORES")
        for rank, core in enumerate(cores if len(cores) > 1 else []):
            self.assertIn(f"{rank} Cpus_allowed_list: {core} 0/1\n", job.out)


class InputOutput(JobTest):
    def test_input_goes_to_rank_0(self):
        text = "".join(f"line {i}\n" for i in range(200_000))
        job = self.good("-n", 3, "sh", "-c", 'test $PMIX_RANK = 0 || echo none; cat',
                        text_in=text.encode())
        self.assertEqual(job.out.count("none\n"), 2)
        self.assertEqual(job.out.replace("none\n", ""), text)

    def test_lines_stay_whole(self):
        script = ("import os, sys\n"
                  "r = os.environ['PMIX_RANK']\n"
                  "for i in range(100):\n"
                  "    line = f'{r}:{i}:' + r * (i * 37 % 3000) + '\\n'\n"
                  "    half = len(line) // 2\n"
                  "    for part in (line[:half], line[half:]):\n"
                  "        os.write(1 + i % 2, part.encode())\n")
        job = self.run_job("-n", 16, sys.executable, "-c", script)
        self.assertEqual(job.code, 0)
        for text, parity in ((job.out, 0), (job.err, 1)):
            lines = text.splitlines()
            self.assertEqual(len(lines), 16 * 50)
            seen = {str(rank): [] for rank in range(16)}
            for line in lines:
                rank, i, fill = line.split(":")
                self.assertEqual(fill, rank * (int(i) * 37 % 3000))
                seen[rank].append(int(i))
            for order in seen.values():
                self.assertEqual(order, list(range(parity, 100, 2)))

    def test_long_line(self):
        job = self.good("-n", 2, sys.executable, "-c",
                        "import os; print('ab'[int(os.environ['PMIX_RANK'])] * 300000)")
        self.assertEqual(sorted(job.out.splitlines()), ["a" * 300000, "b" * 300000])

    def test_last_line_without_an_end(self):
        job = self.good("-n", 3, "sh", "-c", "printf $PMIX_RANK")
        self.assertEqual(sorted(job.out.split("\n")), ["0", "1", "2"])
        # A job of one: byte for byte.
        bytes_out = bytes(random.Random(1).randrange(256) for _ in range(100_000))
        job = self.start("-n", 1, "cat", stdin=subprocess.PIPE)
        out, _ = job.process.communicate(bytes_out, timeout=WATCHDOG_S)
        self.assertEqual(out, bytes_out)

    def test_prompt_of_one_rank_is_not_held_back(self):
        job = self.start("-n", 1, "sh", "-c", "printf 'name? '; read name; echo hello $name",
                         stdin=subprocess.PIPE)
        self.assertEqual(job.process.stdout.read(6), b"name? ")
        job.finish(b"weft\n")
        self.assertEqual(job.out, "hello weft\n")

    def test_tags(self):
        job = self.good("-n", 2, "--tag-output", "sh", "-c", "echo a; echo; printf b")
        self.assertEqual([line for line in job.out.splitlines() if line.startswith("[1]")],
                         ["[1] a", "[1] ", "[1] b"])
        self.assertEqual(len(job.out.splitlines()), 6)

    def test_one_file_for_both(self):
        job = self.run_job("-n", 4, "sh", "-c", "for i in 1 2 3; do echo out; echo err >&2; done",
                           stderr=subprocess.STDOUT)
        self.assertEqual(sorted(job.out.split()), ["err"] * 12 + ["out"] * 12)

    def test_reader_that_is_slow(self):
        job = self.start("-n", 4, sys.executable, "-c",
                         "for i in range(200000): print('x' * 50)")
        time.sleep(1)
        # All wait for us; the memory of weftrun stays bounded meanwhile.
        with open(f"/proc/{job.process.pid}/status", encoding="ascii") as status:
            resident = int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1])
        self.assertLess(resident, 64 * 1024)
        job.finish()
        self.assertEqual((job.code, job.out.count("\n")), (0, 800_000))

    def test_reader_that_does_not_read_hides_no_death(self):
        job = self.start("-n", 2, "sh", "-c", "test $PMIX_RANK = 0 && exec yes; sleep 1; exit 3")
        self.assertTrue(eventually(lambda: len(job.pids()) == 1), "the job did not end")
        self.assertEqual(job.finish().code, 3)

    def test_reader_that_leaves(self):
        job = self.start("-n", 2, "yes")
        job.process.stdout.readline()
        job.process.stdout.close()
        job.process.stdout = None
        job.finish()
        self.assertEqual(job.code, 128 + signal.SIGPIPE)
        self.assertEqual(job.left_behind(), [])

    def test_full_disk(self):
        with open("/dev/full", "wb") as full:
            job = self.run_job("-n", 2, "echo", "x", stdout=full)
        self.assertEqual(job.code, 1)
        self.assertIn("cannot write output: No space left on device", job.err)

    def test_closed_descriptors(self):
        command = f"exec {weftrun_job.WEFTRUN} -n 2 sh -c 'cat; echo out' <&- 2>&-"
        done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, timeout=WATCHDOG_S)
        self.assertEqual((done.returncode, done.stdout), (0, b"out\nout\n"))


class ExitCodes(JobTest):
    def test_codes(self):
        self.assertEqual(self.good("-n", 2, "true").out, "")
        job = self.run_job("-n", 1, "sh", "-c", "exit 7")
        self.assertEqual((job.code, job.err), (7, f"weftrun: rank 0 on {HOST} exited with code 7\n"))

    def test_signals_as_codes(self):
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGTERM):
            job = self.run_job("-n", 1, "sh", "-c", f"ulimit -c 0; kill -{int(number)} $$")
            self.assertEqual(job.code, 128 + number)
            self.assertIn(f"rank 0 on {HOST} was killed by signal {int(number)} ({number.name})",
                          job.err)

    def test_failure_ends_the_others(self):
        # Rank 2 fails; the others, which do not listen to SIGTERM, are killed.
        for stubborn in ("", "trap '' TERM;"):
            job = self.start("-n", 4, "sh", "-c",
                             f"{stubborn} test $PMIX_RANK = 2 && {{ sleep 1; exit 9; }}; "
                             "while :; do sleep 1000; done")
            job.finish()
            self.assertEqual(job.code, 9)
            self.assertEqual(job.err,
                             f"weftrun: rank 2 on {HOST} exited with code 9; ending the job\n")
            self.assertEqual(job.left_behind(), [])

    def test_others_hear_of_it_by_sigterm(self):
        with tempfile.TemporaryDirectory() as folder:
            job = self.run_job("-n", 2, "sh", "-c",
                               f"cd {folder}; if test $PMIX_RANK = 1; then "
                               "while ! test -e listens; do sleep 0.02; done; exit 5; fi; "
                               "trap 'echo asked; exit 0' TERM; touch listens; "
                               "while :; do sleep 0.1; done")
        self.assertEqual((job.code, job.out), (5, "asked\n"))

    def test_continue(self):
        job = self.run_job("-n", 3, "--on-failure", "continue", "sh", "-c",
                           "test $PMIX_RANK = 1 && exit 4; sleep 1; echo survived")
        self.assertEqual((job.code, job.out), (4, "survived\n" * 2))
        self.assertEqual(job.err, f"weftrun: rank 1 on {HOST} exited with code 4\n")

    def test_quiet(self):
        job = self.run_job("-n", 3, "--quiet", "sh", "-c", "exit $PMIX_RANK")
        self.assertIn(job.code, (1, 2))
        self.assertEqual(job.err, "")

    def test_verbose(self):
        job = self.run_job("-n", 3, "--verbose", "sh", "-c", "echo $PMIX_RANK $$")
        said = re.findall(r"weftrun: rank (\d+): pid (\d+) on ([^\s,]+)", job.err)
        self.assertEqual({(rank, pid) for rank, pid, _ in said},
                         {tuple(line.split()) for line in job.out.splitlines()})
        self.assertEqual({host for _, _, host in said}, {HOST})

    def test_first_failure_counts(self):
        # Each waits until the one before it has ended and was reaped.
        with tempfile.TemporaryDirectory() as folder:
            job = self.run_job("-n", 3, "--on-failure", "continue", "sh", "-c",
                               f"cd {folder}; echo $$ > new$PMIX_RANK; mv new$PMIX_RANK $PMIX_RANK; "
                               "if test $PMIX_RANK -gt 0; then last=$((PMIX_RANK - 1)); "
                               "while ! test -e $last; do sleep 0.02; done; "
                               "while kill -0 $(cat $last) 2> /dev/null; do sleep 0.02; done; fi; "
                               "exit $((3 - PMIX_RANK))")
        self.assertEqual(job.code, 3)

    def test_timeout(self):
        for stubborn in ("", "trap '' TERM;"):
            job = self.run_job("-n", 2, "--timeout", "0.5", "sh", "-c",
                               f"{stubborn} while :; do sleep 1000; done")
            self.assertEqual(job.code, 124)
            self.assertEqual(job.err, "weftrun: the job ran for 0.5 s, its limit; ending it\n")
        self.assertEqual(self.good("-n", 2, "--timeout", 1000, "true").code, 0)


class Signals(JobTest):
    def test_passed_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT,
                       signal.SIGUSR1, signal.SIGUSR2):
            name = number.name[3:]
            job = self.start("-n", 3, "sh", "-c",
                             f"trap 'echo got {name}; exit 0' {name}; echo ready; "
                             "while :; do sleep 0.05; done")
            for _ in range(3):
                self.assertEqual(job.process.stdout.readline(), b"ready\n")
            job.process.send_signal(number)
            job.finish()
            self.assertEqual((job.code, job.out), (0, f"got {name}\n" * 3), job.err)
            told = "" if name.startswith("USR") else f"weftrun: SIG{name} came; passed on to the ranks\n"
            self.assertEqual(told, "".join(re.findall("weftrun: .*\n", job.err)))
            self.assertEqual(job.left_behind(), [])

    def test_deadly(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            job = self.start("-n", 3, "sleep", 1000)
            job.wait_for(3, "sleep")
            job.process.send_signal(number)
            self.assertEqual(job.finish().code, 128 + number)
            self.assertEqual(job.left_behind(), [])

    def test_second_interrupt_ends_the_stubborn(self):
        job = self.start("-n", 2, "sh", "-c",
                         "trap '' INT TERM; echo ready; while :; do sleep 1000; done")
        for _ in range(2):
            job.process.stdout.readline()
        job.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        self.assertIsNone(job.process.poll())
        job.process.send_signal(signal.SIGINT)
        job.finish()
        self.assertEqual(job.code, 128 + signal.SIGINT)
        self.assertIn("a second signal, SIGINT; ending the job", job.err)
        self.assertEqual(job.left_behind(), [])

    def test_a_signal_that_comes_twice_is_one(self):
        # As timeout(1) sends it, to its child and to the group: the ranks end by themselves. They take a
        # while, as whoever comes after weftrun's end meets any program's; and where one is held up for so
        # long that the two are two, another try may not be.
        for _ in range(5):
            job = self.start("-n", 2, "sh", "-c", "trap 'sleep 0.5; exit 7' TERM; echo ready; "
                                                  "while :; do sleep 0.1; done")
            for _ in range(2):
                job.process.stdout.readline()
            job.process.send_signal(signal.SIGTERM)
            time.sleep(0.03)  # sent at once, the kernel makes them one
            job.process.send_signal(signal.SIGTERM)
            job.finish()
            self.assertEqual(job.left_behind(), [])
            if "second signal" not in job.err:
                break
        self.assertNotIn("second signal", job.err)
        self.assertEqual(job.code, 7)

    def test_stop_and_continue(self):
        job = self.start("-n", 2, "sleep", 1000)
        pids = job.wait_for(2, "sleep")
        job.process.send_signal(signal.SIGTSTP)
        everyone = pids + [job.process.pid]
        self.assertTrue(eventually(lambda: all(state_of(pid) == "T" for pid in everyone)))
        job.process.send_signal(signal.SIGCONT)
        self.assertTrue(eventually(lambda: all(state_of(pid) == "S" for pid in everyone)))
        job.process.terminate()
        self.assertEqual(job.finish().code, 143)

    def test_stopped_rank_can_be_ended(self):
        job = self.start("-n", 2, "sleep", 1000)
        pids = job.wait_for(2, "sleep")
        os.kill(pids[0], signal.SIGSTOP)
        os.kill(pids[1], signal.SIGKILL)
        self.assertEqual(job.finish().code, 137)
        self.assertEqual(job.left_behind(), [])


# A rank with a child, a grandchild in a session of its own, and a flood of output.
FAMILY = ("sleep 1000 & setsid sh -c 'sleep 1000; true' & "
          "(trap '' TERM HUP INT; while :; do echo flood; done) & "
          "while :; do sleep 1000; done")


class Killed(JobTest):
    def family(self, ranks=3):
        job = self.start("-n", ranks, "sh", "-c", FAMILY, stdout=subprocess.DEVNULL)
        job.wait_for(3 * ranks, "sleep")
        return job

    def test_rank(self):
        job = self.family()
        victim = next(pid for pid in job.pids()
                      if command_of(pid).startswith("sh -c sleep 1000 &")
                      and os.getpgid(pid) == pid)
        os.kill(victim, signal.SIGKILL)
        job.finish()
        self.assertEqual(job.code, 137)
        self.assertRegex(job.err, rf"^weftrun: rank \d on {HOST} was killed by signal 9 \(SIGKILL\); "
                                  "ending the job\n$")
        self.assertEqual(job.left_behind(), [])

    def test_launcher(self):
        job = self.family()
        job.process.kill()
        job.process.wait()
        self.assertEqual(job.left_behind(), [])

    def test_guardian(self):
        job = self.family()
        os.kill(job.guardian()[0], signal.SIGKILL)
        job.finish()
        self.assertEqual(job.code, 1)
        self.assertIn("the guardian process died", job.err)
        self.assertEqual(job.left_behind(), [])

    def test_process_group_of_the_launcher(self):
        job = self.start("-n", 2, "sh", "-c", FAMILY, stdout=subprocess.DEVNULL,
                         start_new_session=True)
        job.wait_for(6, "sleep")
        os.killpg(job.process.pid, signal.SIGKILL)
        job.process.wait()
        self.assertEqual(job.left_behind(), [])

    def test_stopped_launcher(self):
        job = self.family(2)
        job.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        job.process.kill()
        job.process.wait()
        self.assertEqual(job.left_behind(), [])

    def test_at_any_moment(self):
        rng = seeded()
        for _ in kill_rounds():
            job = self.start("-n", 4, PROBE, "start", start_new_session=True)
            time.sleep(rng.uniform(0, 0.08))
            job.process.kill()
            job.process.wait()
            self.assertEqual(job.left_behind(), [])

    def test_rank_at_any_moment(self):
        rng = seeded()
        for _ in kill_rounds():
            job = self.start("-n", 4, PROBE, "exchange")
            time.sleep(rng.uniform(0.01, 0.08))
            ranks = job.ranks("exchange")
            if ranks:
                kill_if_there(rng.choice(ranks))
            job.finish()
            self.assertIn(job.code, (0, 137), job.err)
            self.assertEqual(job.left_behind(), [])

    def test_many_of_many_ranks_at_any_moment(self):
        # They die while the others connect; freed memory is overwritten, so that its use shows.
        rng = seeded()
        for _ in kill_rounds(3):
            job = self.start("-n", 64, PROBE, "exchange", env={"MALLOC_PERTURB_": "85"})
            time.sleep(rng.uniform(0, 0.3))
            ranks = job.ranks("exchange")
            for pid in rng.sample(ranks, len(ranks) // 4):
                kill_if_there(pid)
            job.finish()
            self.assertIn(job.code, (0, 137), job.err)
            self.assertEqual(job.left_behind(), [])

    def test_ranks_that_wait_for_their_first_answer(self):
        # The launcher stands still while they connect and die, and finds the dead and the living
        # in its queue. libpmix must not be led to where it frees what it still uses.
        with tempfile.TemporaryDirectory() as folder:
            go = os.path.join(folder, "go")
            job = self.start("-n", 16, "sh", "-c", "echo ready; "
                             f"while ! test -e {go}; do sleep 0.05; done; exec {PROBE} start",
                             env={"MALLOC_PERTURB_": "85"})
            for _ in range(16):
                self.assertEqual(job.process.stdout.readline(), b"ready\n")
            job.process.send_signal(signal.SIGSTOP)
            with open(go, "wb"):
                pass
            started = job.wait_for(16, "start")
            # On a loaded machine some may not be there yet; they die earlier then.
            eventually(lambda: all(map(asks_in_vain, started)), 10)
            for pid in started[::2]:
                kill_if_there(pid)
            job.process.send_signal(signal.SIGCONT)
            job.finish()
        self.assertEqual(job.code, 137)
        self.assertRegex(job.err, rf"^weftrun: rank \d+ on {HOST} was killed by signal 9 "
                                  r"\(SIGKILL\); ending the job\n$")
        self.assertEqual(job.left_behind(), [])

    def test_process_groups_of_one_session(self):
        """Each rank can be signalled with its children; all are scheduled as one session."""
        job = self.good("-n", 3, "sh", "-c", "cut -d' ' -f1,5,6 /proc/$$/stat")
        ranks = [line.split() for line in job.out.splitlines()]
        self.assertEqual(len(ranks), 3)
        for pid, group, session in ranks:
            self.assertEqual(group, pid)
            self.assertEqual(session, ranks[0][2])

    def test_children_of_ranks_that_ended_well(self):
        job = self.good("-n", 2, "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0")
        self.assertEqual(job.out, "")


@unittest.skipIf(SANITIZER, "it takes these signals for itself, or has a thread of its own")
class Breakdown(JobTest):
    """weftrun itself crashes, as libpmix sometimes does in it."""

    WORDS = r"weftrun: the PMIx server broke down \(SIGSEGV\); ending the job\n"

    def strike(self, job, of_pmix):
        """A SIGSEGV for one of PMIx's threads, or for the main one."""
        pid = job.process.pid
        for task in sorted(map(int, os.listdir(f"/proc/{pid}/task"))):
            if (task != pid) == of_pmix:
                self.assertEqual(strike(pid, task), 0)
                return

    def family(self, *options):
        job = self.start("-n", 3, *options, "sh", "-c", FAMILY, stdout=subprocess.DEVNULL)
        job.wait_for(9, "sleep")
        return job

    def test_of_any_thread(self):
        for of_pmix in (True, False):
            job = self.family()
            self.strike(job, of_pmix)
            job.finish()
            self.assertEqual(job.code, 1)
            self.assertRegex(job.err, f"^{self.WORDS}$")
            self.assertEqual(job.left_behind(), [])

    def test_with_a_death(self):
        # The rank that died counts, whichever of the two is noticed first.
        for on_failure in ("end", "continue"):
            job = self.start("-n", 3, "--on-failure", on_failure, "sleep", 1000)
            ranks = job.wait_for(3, "sleep")
            job.process.send_signal(signal.SIGSTOP)
            self.strike(job, True)
            os.kill(ranks[0], signal.SIGKILL)
            self.assertTrue(eventually(lambda: not state_of(ranks[0])))
            job.process.send_signal(signal.SIGCONT)
            job.finish()
            self.assertEqual(job.code, 137, job.err)
            self.assertRegex(job.err, rf"weftrun: rank \d on {HOST} was killed by signal 9 ")
            self.assertEqual(job.left_behind(), [])

    def test_of_a_fence_that_many_leave_at_once(self):
        # libpmix 4.2.2 may end such a fence twice.
        job = self.start("-n", 16, PROBE, "late", 3, env={"MALLOC_PERTURB_": "85"})
        ranks = job.wait_for(16, "late")
        for _ in range(16):
            self.assertEqual(job.process.stdout.readline(), b"waits\n")
        time.sleep(0.3)
        job.process.send_signal(signal.SIGSTOP)
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(eventually(lambda: not any(map(state_of, ranks))))
        job.process.send_signal(signal.SIGCONT)
        job.finish()
        self.assertEqual(job.code, 137, job.err)
        self.assertRegex(job.err, rf"weftrun: rank \d+ on {HOST} was killed by signal 9 ")
        self.assertEqual(job.left_behind(), [])

    def test_with_survivors(self):
        job = self.family("--on-failure", "continue")
        self.strike(job, True)
        self.assertEqual(job.finish().code, 1)
        self.assertRegex(job.err, self.WORDS)
        self.assertEqual(job.left_behind(), [])

    def test_of_all_threads(self):
        job = self.family("--quiet")
        self.strike(job, True)
        self.strike(job, False)
        job.finish()
        self.assertEqual((job.code, job.err), (1, ""))
        self.assertEqual(job.left_behind(), [])


class Contract(JobTest):
    def test_exchange(self):
        for ranks in (1, 2, 5, 64):
            self.assertEqual(self.good("-n", ranks, PROBE, "exchange").out, "good\n" * ranks)

    def test_info(self):
        lines = self.good("-n", 3, PROBE, "info").out.splitlines()
        ids = {re.search(r" id (\S+)", line)[1] for line in lines}
        self.assertEqual(len(ids), 1)
        self.assertRegex(ids.pop(), r"^weft-\d+-[0-9a-f]{8}$")
        for line in lines:
            self.assertRegex(line, r"rank \d of 3 node 0 of 1 by pmix near 0 1 2 .* key 32")

    def test_fake_nodes(self):
        lines = sorted(self.good("-n", 5, "--fake-nodes", 2, PROBE, "info").out.splitlines())
        for line, node in zip(lines, (0, 0, 0, 1, 1), strict=True):
            self.assertIn(f"node {node} of 2 by pmix near 0 1 2 3 4 id", line)
        self.assertEqual(self.good("-n", 5, "--fake-nodes", 2, PROBE, "exchange").out, "good\n" * 5)

    def test_alone(self):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("PMIX_")}
        done = subprocess.run([PROBE, "info"], env=environment, stdout=subprocess.PIPE,
                              timeout=WATCHDOG_S, check=True)
        self.assertRegex(done.stdout.decode(), "rank 0 of 1 node 0 of 1 by alone near 0 id alone-")
        subprocess.run([PROBE, "exchange"], env=environment, stdout=subprocess.DEVNULL,
                       timeout=WATCHDOG_S, check=True)

    def test_launcher_that_is_gone(self):
        gone = {"PMIX_RANK": "0", "PMIX_NAMESPACE": "gone"}
        done = subprocess.run([PROBE, "info"], env=dict(os.environ, **gone),
                              stderr=subprocess.PIPE, timeout=WATCHDOG_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a PMIx launcher, which set PMIX_NAMESPACE=gone, does not answer",
                      done.stderr.decode())

    def test_abort(self):
        job = self.run_job("-n", 4, PROBE, "abort", 2, 42)
        self.assertEqual((job.code, job.out), (42, ""))
        self.assertEqual(job.err, f"weftrun: rank 2 on {HOST} ended the job with code 42: no hope\n")
        self.assertEqual(self.run_job("-n", 2, PROBE, "abort", 0, 0).code, 1)

    def test_survivors_are_told(self):
        job = self.run_job("-n", 4, "--on-failure", "continue", PROBE, "survive", 2)
        how = f"on {HOST} was killed by signal 9 (SIGKILL)"
        self.assertEqual(job.out,
                         f"told: victim {how}; peer_died: fence: rank 2 {how}\n" * 3)
        self.assertEqual(job.code, 137)

    def test_ranks_that_are_missing(self):
        """Which have not joined the job: who has waits for them."""
        late = ("sh", "-c", "case $PMIX_RANK in 1|2) read line < $0;; esac; exec $1 exchange")
        with tempfile.TemporaryDirectory() as folder:
            gate = os.path.join(folder, "gate")
            os.mkfifo(gate)
            job = self.start("-n", 4, "--report-missing", 3, *late, gate, PROBE)
            said = job.process.stderr.readline().decode()
            self.assertRegex(said, "ranks 1, 2 have not joined the job .*those that have may wait for them$")
            with open(gate, "w", encoding="ascii") as out:
                out.write("go\ngo\ngo\n")
            job.process.terminate()
            job.finish()
        # Of programs that never join nothing is said, nor after all have, nor if not asked for.
        self.good("-n", 2, "--report-missing", 0.1, "sleep", 0.5)
        self.good("-n", 2, "--report-missing", 3, "sh", "-c", "$0 start; sleep 3.5", PROBE)
        job = self.run_job("-n", 1, "--report-missing", 0, PROBE, "start", ":", "-n", 1, "sleep", 0.5)
        self.assertNotIn("joined", job.err)

    def test_rank_that_left(self):
        job = self.good("-n", 4, PROBE, "absent", 3)
        # The fence may fail before the news who it was has come.
        self.assertRegex(job.out, "^(peer_died: fence: (rank 3 left the job before this fence|"
                                  "a rank ended before it came)\n){3}$")

    def test_jobs_made_one_after_another(self):
        self.assertEqual(self.good("-n", 3, PROBE, "again").out, "good\n" * 3)

    def test_all_ranks_say_why_they_fail(self):
        job = self.run_job("-n", 6, PROBE, "fail")
        self.assertEqual(sorted(job.out.splitlines()), [f"rank {r} fails" for r in range(6)])
        self.assertEqual(job.code, 9)

    def test_rank_that_fails_in_order_ends_those_who_wait_for_it(self):
        job = self.run_job("-n", 3, PROBE, "desert", 1)
        self.assertEqual(job.code, 9)
        self.assertIn(f"rank 1 on {HOST} exited with code 9; ending the job", job.err)

    def test_programs_one_after_another(self):
        script = f"{PROBE} again && sleep 1.5 && {PROBE} start && echo second"
        self.assertEqual(sorted(self.good("-n", 2, "sh", "-c", script).out.split()),
                         ["good", "good", "second", "second"])

    def test_fork(self):
        # (A sanitizer may complain of the forked child.)
        job = self.run_job("-n", 3, PROBE, "fork")
        self.assertEqual((job.code, job.out), (0, "good\n" * 3), job.err)

    @unittest.skipIf(SANITIZER, "sanitizers take memory")
    def test_memory_of_an_idle_rank(self):
        def resident(ranks):
            job = self.good("-n", ranks, PROBE, "idle")
            return max(map(int, re.findall(r"VmRSS:\s+(\d+) kB", job.out)))
        few, many = resident(2), resident(64)
        self.assertLessEqual(many, 16 * 1024)
        self.assertLessEqual(many - few, 62 * 64)

    def test_many_jobs_at_once(self):
        jobs = [self.start("-n", 8, PROBE, "exchange") for _ in range(4)]
        for job in jobs:
            job.finish()
            self.assertEqual((job.code, job.out), (0, "good\n" * 8), job.err)
            self.assertEqual(job.left_behind(), [])


if __name__ == "__main__":
    weftrun_job.WEFTRUN, PROBE = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
