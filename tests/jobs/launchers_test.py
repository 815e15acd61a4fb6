#!/usr/bin/env python3
"""The same programs, unchanged, under every launcher that weft knows.

launchers_test.py HYDRA-OR-EMPTY PRTERUN-OR-EMPTY WEFTRUN BIN-FOLDER [unittest arguments]

Nothing is skipped for want of a launcher: scripts/bootstrap test installs all of them. Only where
this user cannot run Slurm's daemons (never so as root on Debian) are its tests skipped, with the reason.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import slurm_cluster
import weftrun_job
from weftrun_job import command_of, eventually, Job, JobTest

BIN = HYDRA = PRTERUN = None
INFO = re.compile(r"^rank (\d+) of (\d+) node (\d+) of (\d+) by (\w+) near([\d ]*) id (\S+) key (\d+)$",
                  re.MULTILINE)


def tool(name):
    return os.path.join(BIN, name)


class Launched:
    """What holds under each of them; the classes below are one launcher each."""

    provider = "pmix"
    started_by = None  # as weft-info --launch calls it
    abort_code = 42  # what the launcher makes of it; None: something else than 0
    death_code = None
    silent = True  # a good job leaves nothing on stderr

    def launch(self, ranks, *command, **popen):
        return self.run_job(*self.ranks_arguments(ranks), *command, **popen)

    def ranks_arguments(self, ranks):
        return ["-n", ranks]

    def launch_good(self, ranks, *command, **popen):
        job = self.launch(ranks, *command, **popen)
        self.assertEqual(job.code, 0, job.out + job.err)
        if self.silent:
            self.assertEqual(job.err, "")
        return job

    def test_everybody_knows_everybody(self):
        for ranks in 2, 4:
            found = INFO.findall(self.launch_good(ranks, tool("job_probe"), "info").out)
            self.assertEqual(sorted(int(one[0]) for one in found), list(range(ranks)))
            near = "".join(f" {rank}" for rank in range(ranks))
            self.assertEqual({one[1:6] for one in found}, {(str(ranks), "0", "1", self.provider, near)})
            self.assertEqual(len({one[6] for one in found}), 1, found)
            self.assertEqual({one[7] for one in found}, {"32"})

    def test_jobs_have_names_of_their_own(self):
        names = {INFO.findall(self.launch_good(1, tool("job_probe"), "info").out)[0][6]
                 for _ in range(2)}
        self.assertEqual(len(names), 2)

    def test_values(self):
        for ranks in 1, 2, 4:
            for mode in "exchange", "again", "fork":
                job = self.launch_good(ranks, tool("job_probe"), mode)
                self.assertEqual(job.out, "good\n" * ranks, mode)

    def test_values_while_a_fence_is_waited_for(self):
        self.assertEqual(self.launch_good(2, tool("job_probe"), "overlap").out, "good\n" * 2)

    def test_messages(self):
        for ranks in 2, 4:
            job = self.launch_good(ranks, tool("exchange"), 2, 1)
            self.assertRegex(job.out, r"^exchange: \d+ messages, 0 wrong")

    def test_graph(self):
        for ranks in 2, 4:
            job = self.launch_good(ranks, tool("weft-graph"), "bfs", "--generate", "kron:10",
                                   "--threads", 2, "--verify")
            self.assertIn("verif", job.out)

    def test_how_it_was_launched(self):
        job = self.launch_good(2, tool("weft-info"), "--launch")
        self.assertRegex(job.out, f"started by +{self.started_by}")
        self.assertRegex(job.out, f"provider +{self.provider}\n +rank +0 of 2\n")
        self.assertEqual(job.out.count("started by"), 1)

    def test_abort(self):
        job = self.launch(2, tool("job_probe"), "abort", 1, 42)
        self.check_code(job, self.abort_code)
        self.assertIn("no hope", job.out + job.err)
        self.assertNotIn("ended without all ranks", job.out)

    def test_exit_code(self):
        # One rank: of several, Slurm takes the highest, that of a killed one among them.
        self.check_code(self.launch(1, tool("job_probe"), "fail"), 9)
        self.check_code(self.launch(4, tool("job_probe"), "fail"), None)

    def test_rank_that_dies(self):
        job = self.launch(4, tool("job_probe"), "survive", 1)
        self.check_code(job, self.death_code)

    def check_code(self, job, code):
        if code is None:
            self.assertNotEqual(job.code, 0, job.out + job.err)
        else:
            self.assertEqual(job.code, code, job.out + job.err)


class Weftrun(Launched, JobTest):
    started_by = "weftrun"

    def test_rank_that_dies_is_told_to_those_who_survive(self):
        job = self.run_job("-n", 3, "--on-failure", "continue", tool("job_probe"), "survive", 1)
        self.assertEqual(job.out.count("told: victim"), 2, job.out + job.err)

    def test_inside_of_hydra(self):
        """Its ranks are its own: Hydra's variables are not handed down."""
        outer = subprocess.run([HYDRA, "-n", "1", weftrun_job.WEFTRUN, "-n", "2", tool("job_probe"),
                                "info"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        found = INFO.findall(outer.stdout.decode())
        self.assertEqual(sorted(one[:2] + one[4:5] for one in found),
                         [("0", "2", "pmix"), ("1", "2", "pmix")])

    def test_outside_of_hydra(self):
        """The socket of PMI_FD is open: the inner launcher is the one that counts."""
        job = self.good("-n", 1, HYDRA, "-n", 2, tool("job_probe"), "info")
        found = INFO.findall(job.out)
        self.assertEqual(sorted(one[:2] + one[4:5] for one in found),
                         [("0", "2", "pmi1"), ("1", "2", "pmi1")])


class HydraJob(Job):
    @property
    def launcher(self):
        return [HYDRA]


class Hydra(Launched, JobTest):
    job_type = HydraJob
    provider = "pmi1"
    started_by = "Hydra's mpiexec"

    def test_two_nodes_on_one_machine(self):
        """Hydra takes two names for two nodes."""
        job = self.run_job("-hosts", "localhost,127.0.0.1", "-ppn", 2, "-n", 4, "-launcher", "fork",
                           tool("job_probe"), "info")
        found = INFO.findall(job.out)
        self.assertEqual([(one[0], one[2], one[3], one[5]) for one in sorted(found)],
                         [("0", "0", "2", " 0 1"), ("1", "0", "2", " 0 1"),
                          ("2", "1", "2", " 2 3"), ("3", "1", "2", " 2 3")], job.err)

    def test_without_its_socket(self):
        """What a rank starts has its variables, but is no rank."""
        job = self.run_job("-n", 1, "sh", "-c",
                           f"eval exec $PMI_FD'>&-'; {tool('job_probe')} info")
        self.assertNotEqual(job.code, 0)
        self.assertRegex(job.err, r"PMI_FD=\d+ is no open socket.*unset PMI_FD")


    def test_second_program_of_a_rank(self):
        """PMI-1 serves one; it is told so."""
        job = self.launch(2, "sh", "-c", f"{tool('job_probe')} start; {tool('job_probe')} info")
        self.assertNotEqual(job.code, 0)
        self.assertRegex(job.err, "server is gone.*was there another before this one")


def check_abort_of_prterun(test, start):
    """prterun 5.0.11 itself now and then crashes, or stays when all ranks have ended, over an
    abort (docs/launchers.md). Then, and only then, it is tried again."""
    for _ in range(10):
        job = start()
        try:
            out, err = job.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            test.assertEqual([pid for pid in job.pids()
                              if command_of(pid).startswith(tool("job_probe"))], [])
            job.cleanup()
            continue
        test.assertNotIn(b"ended without all ranks", out)
        if job.process.returncode < 0:
            continue
        test.assertEqual(job.process.returncode, 42, out + err)
        test.assertIn(b"no hope", out + err)
        test.assertEqual(job.left_behind(), [])
        return
    test.fail("prterun crashed or hung over each of ten aborts")


class PrterunJob(Job):
    @property
    def launcher(self):
        return [PRTERUN, "--allow-run-as-root", "--map-by", ":oversubscribe"]


class Prterun(Launched, JobTest):
    job_type = PrterunJob
    started_by = "prterun"
    silent = False  # PMIx 5 complains of each client that is PMIx 4, and goes on

    def test_abort(self):
        check_abort_of_prterun(self, lambda: self.start("-n", 2, tool("job_probe"), "abort", 1, 42))

    def test_rank_that_leaves_a_fence_short(self):
        """Its own fences end well then."""
        for _ in range(3):
            job = self.launch(4, tool("job_probe"), "absent", 1)
            self.assertEqual(job.code, 0, job.err)
            self.assertEqual(len(re.findall("^peer_died: fence: ", job.out, re.MULTILINE)), 3, job.out)


class SlurmJob(Job):
    cluster = None
    plugin = "pmix"

    def __init__(self, *arguments, env=None, **popen):
        super().__init__(*arguments, env={**self.cluster.environment, **(env or {})}, **popen)

    @property
    def launcher(self):
        # Without the second, a rank that fails is no reason for the others to end.
        return [self.cluster.srun, "--quiet", "--kill-on-bad-exit=1", f"--mpi={self.plugin}"]


def is_root():
    """The machine's, not that of a user namespace."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return os.geteuid() == 0 and file.read().split()[:2] == ["0", "0"]


class WithCluster(JobTest):
    @classmethod
    def setUpClass(cls):
        try:
            SlurmJob.cluster = cls.new_cluster()
        except slurm_cluster.CannotStart as why:
            if not is_root() and "there is no" not in str(why):
                raise unittest.SkipTest(f"Slurm does not start here without root: {why}") from None
            raise
        cls.addClassCleanup(cls.end_cluster)

    @classmethod
    def new_cluster(cls):
        return slurm_cluster.Cluster()

    @classmethod
    def end_cluster(cls):
        cluster = SlurmJob.cluster
        cluster.end()
        if not eventually(lambda: not cluster.processes()) or os.path.exists(cluster.folder):
            raise AssertionError(f"left of Slurm: {cluster.processes()} {cluster.folder}")


class Slurm(Launched, WithCluster):
    job_type = SlurmJob
    started_by = "srun"


class SlurmPmi2Job(SlurmJob):
    plugin = "pmi2"


class SlurmPmi2(Launched, WithCluster):
    """Slurm's pmi2 plugin, which speaks PMI-1 with whoever begins with that."""

    job_type = SlurmPmi2Job
    provider = "pmi1"
    started_by = "srun"
    abort_code = None  # that of the ranks that it killed


class SlurmNoneJob(SlurmJob):
    plugin = "none"


class SlurmNone(WithCluster):
    job_type = SlurmNoneJob

    def test_jobs_of_one_are_warned_of(self):
        job = self.run_job("-n", 3, tool("job_probe"), "info")
        self.assertEqual(job.code, 0, job.err)
        self.assertEqual(job.out.count("rank 0 of 1 node 0 of 1 by alone"), 3, job.out)
        self.assertEqual(len(re.findall("one of 3 processes that srun started", job.err)), 1, job.err)
        self.assertIn("srun --mpi=pmix", job.err)
        self.assertNotIn("warn", self.run_job("-n", 1, tool("job_probe"), "info").err)

    def test_batch_script_is_a_job_of_one(self):
        cluster = SlurmJob.cluster
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "out")
            done = subprocess.run(
                [slurm_cluster.program("sbatch"), "--wait", "-n", "2", f"--output={out}",
                 f"--wrap={tool('job_probe')} info; srun --mpi=pmix {tool('job_probe')} info"],
                env=dict(os.environ, **cluster.environment), stdin=subprocess.DEVNULL,
                capture_output=True, timeout=weftrun_job.WATCHDOG_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(out, encoding="utf-8") as file:
                text = file.read()
        self.assertNotIn("warn", text)
        self.assertEqual(text.count("rank 0 of 1 node 0 of 1 by alone"), 1, text)
        self.assertEqual(len(INFO.findall(text)), 3, text)


def needed(path, names):
    """The launcher: as the build names it, or in PATH."""
    for candidate in [path] if path else names:
        found = shutil.which(candidate)
        if found:
            return found
    return sys.exit(f"there is no {' or '.join([path] if path else names)} here: run scripts/bootstrap "
                    "test, which installs it")


if __name__ == "__main__":
    HYDRA = needed(sys.argv[1], ["mpiexec.hydra"])
    PRTERUN = needed(sys.argv[2], ["prterun"])
    weftrun_job.WEFTRUN = sys.argv[3]
    BIN = sys.argv[4]
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
