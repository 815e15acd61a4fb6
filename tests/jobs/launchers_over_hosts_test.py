#!/usr/bin/env python3
"""The same programs over several hosts, which are made of namespaces (hosts.py), under the launchers that are
not ours.

launchers_over_hosts_test.py HYDRA-OR-EMPTY PRTERUN-OR-EMPTY WEFTRUN BIN-FOLDER [unittest arguments]

As in launchers_test.py nothing is skipped but Slurm where its daemons do not start without root.
"""

import os
import re
import sys
import unittest

import hosts
import launchers_test
import slurm_cluster
import weftrun_job
from launchers_test import INFO, tool
from weftrun_job import eventually, Job, JobTest

HOSTS = None  # four of them
# More than a launcher says for itself, and less than `exchange 2 1` sends between two of its ranks.
MANY_BYTES = 4_000_000


def setUpModule():
    global HOSTS
    HOSTS = hosts.Hosts(4)


def tearDownModule():
    HOSTS.end()


class HostsJob(Job):
    """Started on the first host."""

    def __init__(self, *arguments, env=None, **popen):
        super().__init__(*arguments, env=HOSTS.environment() | (env or {}),
                         at=lambda *command: HOSTS.command(HOSTS.names[0], *command), **popen)

    def left_behind(self):
        def in_memory():
            return [f"in /dev/shm of {host}: {name}" for host in HOSTS.names
                    for name in os.listdir(f"/proc/{HOSTS.pids[host]}/root/dev/shm")]

        left = super().left_behind()
        eventually(lambda: not in_memory(), 10)
        return left + in_memory()


class Over:
    """What holds under each of them; the classes below are one launcher each."""

    provider = "pmix"
    started_by = None  # as weft-info --launch calls it
    abort_code = 42  # what the launcher makes of it; None: something else than 0
    silent = True  # a good job leaves nothing on stderr
    fences_hold = True  # no fence ends well while its launcher ends the job

    def placed(self, count, each):
        """The launcher's arguments for so many ranks on each of the first `count` hosts, in blocks."""
        raise NotImplementedError

    def launch(self, count, each, *command, **popen):
        return self.run_job(*self.placed(count, each), *command, **popen)

    def launch_good(self, count, each, *command, **popen):
        job = self.launch(count, each, *command, **popen)
        self.assertEqual(job.code, 0, job.out + job.err)
        if self.silent:
            self.assertEqual(job.err, "")
        return job

    def launch_bad(self, code, *command):
        """On two hosts, of two ranks each; `code` or, if None, another than 0."""
        job = self.launch(2, 2, *command)
        if self.fences_hold:
            self.assertNotIn("ended without all ranks", job.out)
        if code is None:
            self.assertNotEqual(job.code, 0, job.out + job.err)
        else:
            self.assertEqual(job.code, code, job.out + job.err)
        return job

    def test_everybody_knows_everybody(self):
        for count, each in (2, 1), (2, 2), (4, 2):
            job = self.launch_good(count, each, "sh", "-c",
                                   'echo "$(hostname) has ${PMIX_RANK-$PMI_RANK}"; exec "$0" info',
                                   tool("job_probe"))
            where = re.findall(r"^(\w+) has (\d+)$", job.out, re.MULTILINE)
            found = INFO.findall(job.out)
            size = count * each
            self.assertEqual({int(rank): host for host, rank in where},
                             {rank: HOSTS.names[rank // each] for rank in range(size)}, job.out)
            near = ["".join(f" {node * each + i}" for i in range(each)) for node in range(count)]
            self.assertEqual(sorted((int(one[0]), *one[1:6]) for one in found),
                             [(rank, str(size), str(rank // each), str(count), self.provider, near[rank // each])
                              for rank in range(size)])
            self.assertEqual(len({one[6] for one in found}), 1, found)
            self.assertEqual({one[7] for one in found}, {"32"})

    def test_values(self):
        for count, each in (2, 1), (2, 2), (4, 2):
            for mode in "exchange", "again":
                job = self.launch_good(count, each, tool("job_probe"), mode)
                self.assertEqual(job.out, "good\n" * (count * each), mode)

    def test_values_while_a_fence_is_waited_for(self):
        self.assertEqual(self.launch_good(2, 2, tool("job_probe"), "overlap").out, "good\n" * 4)

    def test_shared_memory_ends_at_the_host(self):
        self.assertEqual(self.launch_good(2, 2, tool("job_probe"), "reach").out, "good\n" * 4)

    def carried(self, host, device):
        """How many bytes came and went there so far."""
        with open(f"/proc/{HOSTS.pids[host]}/net/dev", encoding="ascii") as file:
            numbers = re.search(rf"^ *{device}: *(.*)$", file.read(), re.MULTILINE)[1].split()
        return int(numbers[0]) + int(numbers[8])

    def carries(self, count, each, *command):
        """A good job, and how many bytes the first host's cable and its loopback carried meanwhile."""
        before = [self.carried(HOSTS.names[0], device) for device in ("eth0", "lo")]
        job = self.launch_good(count, each, *command)
        after = [self.carried(HOSTS.names[0], device) for device in ("eth0", "lo")]
        return job, *(one - other for one, other in zip(after, before))

    def test_messages(self):
        """The network carries them between the hosts, and memory within one: nothing goes by loopback."""
        answers = set()
        for count, each in (1, 4), (2, 2), (4, 1):
            job, cable, loopback = self.carries(count, each, tool("exchange"), 2, 1)
            answers.add(re.search(r"exchange: \d+ messages, 0 wrong, checksum \w+", job.out)[0])
            self.assertLess(loopback, MANY_BYTES)
            if count == 1:
                self.assertLess(cable, MANY_BYTES)
            else:
                self.assertGreater(cable, MANY_BYTES)
        self.assertEqual(len(answers), 1, answers)

    def test_graph(self):
        command = tool("weft-graph"), "bfs", "--generate", "kron:10", "--threads", 2, "--verify"
        answers = {re.search(r"checksum +(\w+)", self.launch_good(count, each, *command).out)[1]
                   for count, each in ((1, 4), (2, 2), (4, 1))}
        self.assertEqual(len(answers), 1, answers)

    def test_how_it_was_launched(self):
        job = self.launch_good(2, 2, tool("weft-info"), "--launch")
        self.assertRegex(job.out, f"started by +{self.started_by}")
        self.assertRegex(job.out, f"provider +{self.provider}\n +rank +0 of 4\n +nodes +2\n"
                                  " +node 0: ranks 0-1\n +node 1: ranks 2-3\n")
        self.assertEqual(job.out.count("started by"), 1)

    def test_abort(self):
        job = self.launch_bad(self.abort_code, tool("job_probe"), "abort", 3, 42)
        self.assertIn("no hope", job.out + job.err)

    def test_rank_that_fails(self):
        self.launch_bad(None, tool("job_probe"), "fail")

    def test_rank_that_dies(self):
        for victim in 1, 2:  # on the first host, on the other
            self.launch_bad(None, tool("job_probe"), "survive", victim)


class HydraJob(HostsJob):
    @property
    def launcher(self):
        return [launchers_test.HYDRA, "-launcher", "ssh", "-launcher-exec", os.path.join(HOSTS.folder, "ssh")]


class Hydra(Over, JobTest):
    job_type = HydraJob
    provider = "pmi1"
    started_by = "Hydra's mpiexec"

    def placed(self, count, each):
        path = os.path.join(HOSTS.folder, f"{count}-of-{each}")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"{name}:{each}\n" for name in HOSTS.names[:count])
        return ["-f", path, "-n", count * each]


class PrterunJob(HostsJob):
    @property
    def launcher(self):
        place = os.path.dirname(os.path.dirname(os.path.abspath(launchers_test.PRTERUN)))
        return [launchers_test.PRTERUN, "--allow-run-as-root", "--prefix", place, "--bind-to", "none",
                "--prtemca", "plm_ssh_agent", os.path.join(HOSTS.folder, "ssh")]


class Prterun(Over, JobTest):
    job_type = PrterunJob
    started_by = "prterun"
    silent = False  # as in launchers_test.py

    def placed(self, count, each):
        return ["--host", ",".join(f"{name}:{each}" for name in HOSTS.names[:count]), "--map-by",
                f"ppr:{each}:node:oversubscribe", "-n", count * each]

    def test_abort(self):
        launchers_test.check_abort_of_prterun(
            self, lambda: self.start(*self.placed(2, 2), tool("job_probe"), "abort", 3, 42))


class SlurmJob(HostsJob):
    plugin = "pmix"

    def __init__(self, *arguments, env=None, **popen):
        super().__init__(*arguments, env=launchers_test.SlurmJob.cluster.environment | (env or {}), **popen)

    @property
    def launcher(self):
        return [launchers_test.SlurmJob.cluster.srun, "--quiet", "--kill-on-bad-exit=1", f"--mpi={self.plugin}"]


class Slurm(Over, launchers_test.WithCluster):
    job_type = SlurmJob
    started_by = "srun"
    fences_hold = False  # its PMIx plugin takes a rank of another node that is gone for one that came

    @classmethod
    def new_cluster(cls):
        return slurm_cluster.Cluster(HOSTS)

    def placed(self, count, each):
        return ["--nodelist", ",".join(HOSTS.names[:count]), "-N", count, f"--ntasks-per-node={each}",
                "-n", count * each, "--distribution=block"]


class SlurmPmi2Job(SlurmJob):
    plugin = "pmi2"


class SlurmPmi2(Slurm):
    job_type = SlurmPmi2Job
    provider = "pmi1"
    abort_code = None  # that of the ranks that it killed
    fences_hold = True


if __name__ == "__main__":
    launchers_test.HYDRA = launchers_test.needed(sys.argv[1], ["mpiexec.hydra"])
    launchers_test.PRTERUN = launchers_test.needed(sys.argv[2], ["prterun"])
    hosts.as_root()
    weftrun_job.WEFTRUN, launchers_test.BIN = map(os.path.abspath, sys.argv[3:5])
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
