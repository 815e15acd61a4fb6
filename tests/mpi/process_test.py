"""What a user sees of MPI programs that do something wrong, and of the compiler wrappers.

process_test.py WEFTRUN MISUSE [unittest arguments]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs"))
import weftrun_job  # noqa: E402
from weftrun_job import JobTest  # noqa: E402

MISUSE = None
SANITIZER = os.environ.get("PROCESS_TEST_SANITIZER", "")
HAS_OFI = os.environ.get("PROCESS_TEST_OFI") == "1"


class Ends(JobTest):
    def ended(self, code, words, *arguments, ranks=2, **more):
        job = self.run_job("-n", ranks, "--timeout", 60, MISUSE, *arguments, **more)
        self.assertEqual(job.code, code, job.err)
        for word in words:
            self.assertIn(word, job.err)
        return job

    def test_calls_outside_of_mpi(self):
        self.ended(16, ["MPI_Comm_rank", "MPI_ERR_OTHER", "before MPI was initialized"], "before")
        self.ended(16, ["MPI_Comm_rank", "after MPI was finalized"], "after", ranks=1)
        self.ended(16, ["MPI_Finalize", "after MPI was finalized"], "finalize-twice", ranks=1)
        self.ended(16, ["rank 0: MPI_Init", "was initialized before"], "twice", ranks=1)

    def test_errors_are_fatal(self):
        self.ended(6, ["rank 0: MPI_Send on communicator MPI_COMM_WORLD failed: MPI_ERR_RANK"],
                   "fatal")
        self.ended(2, ["MPI_Send on communicator the cat's own", "MPI_ERR_COUNT"], "fatal-named")
        self.ended(15, ["rank 1: MPI_Recv", "of rank 0 with tag 3 is longer than the 4 bytes of its receive"],
                   "too-long")

    def test_abort(self):
        self.ended(3, ["rank 0 called MPI_Abort with code 3"], "abort", 3)
        self.ended(1, ["called MPI_Abort with code 256"], "abort", 256)

    def test_session_aborts(self):
        """MPI_ERRORS_ABORT of a session ends the process that failed, and no other."""
        job = self.run_job("-n", 2, "--timeout", 60, "--on-failure", "continue", MISUSE, "session-abort")
        self.assertIn("MPI_Group_from_session_pset", job.err)
        self.assertIn("nobody://knows", job.err)
        self.assertNotEqual(job.code, 0)
        self.assertEqual(job.out.split("\n")[:-1], ["rank 1 goes on"])

    def told_while_waiting(self, how, expected, **env):
        """Reads what a job says that waits for ever, until it has said all that was expected."""
        job = self.start("-n", 2, "--timeout", 100, MISUSE, "wait", how, env=env)
        missing = set(expected)
        while missing:
            line = job.process.stderr.readline().decode()
            self.assertTrue(line, f"ended without a word of {missing}")
            missing -= {words for words in missing if words in line}
        job.process.terminate()
        job.finish()
        self.assertEqual(job.code, 143)

    def test_waits_are_told(self):
        soon = {"WEFT_MPI_REPORT_WAITS": "100ms"}
        self.told_while_waiting("ring", {
            f"rank {rank}: weft warn: waits in vain for 100 ms: in MPI_Recv; receives on MPI_COMM_WORLD wait for "
            f"rank {1 - rank} tag 4 (" for rank in (0, 1)}, **soon)
        self.told_while_waiting("sends", {"in MPI_Ssend;", "sends, puts and gets that wait for rank 1: 1 ("}, **soon)
        self.told_while_waiting("collectives", {
            "in MPI_Barrier; a collective on MPI_COMM_WORLD waits for rank 1 (",
            "in MPI_Barrier; a collective on the dog's own waits for rank 0 ("}, **soon)
        self.told_while_waiting("asks", {
            f"rank {rank}: weft warn: waits in vain for 100 ms: in MPI_Test; receives on MPI_COMM_WORLD wait for "
            "any rank any tag (" for rank in (0, 1)}, **soon)

    def test_messages_with_other_tags_are_told_of_in_any_case(self):
        expected = {"rank 0: weft warn: waits in vain for 100 ms: in MPI_Recv; receives on MPI_COMM_WORLD wait for "
                    "rank 1 tag 5, and from rank 1 came tag 6, 4 bytes, which none of them asks for ("}
        for engine in "keyed", "list", "tail":
            self.told_while_waiting("other-tag", expected, WEFT_COMM_REPORT_QUIET="100ms", WEFT_MPI_MATCHING=engine)

    def test_send_buffers_that_are_freed_too_early(self):
        # Read by the receiver alone: a sender that helps would be killed.
        job = self.run_job("-n", 2, "--timeout", 60, MISUSE, "wait", "freed-send",
                           env={"WEFT_FABRIC_TRANSPORT": "shm", "WEFT_COMM_SHARE_BYTES": "1G"})
        self.assertEqual(job.code, 1, job.err)
        self.assertRegex(job.err, r"rank 1: weft warn: the peer \(process \d+\) has no memory at 0x\w+, in the buffer of a message, put "
                                  "or get of 4194304 bytes between it and rank 0: was it freed too early")
        self.assertRegex(job.err, "MPI_(Recv|Wait) on communicator MPI_COMM_WORLD failed: MPI_ERR_BUFFER")
        if HAS_OFI:
            job = self.run_job("-n", 2, "--timeout", 60, MISUSE, "wait", "freed-send", env={"WEFT_FABRIC_TRANSPORT": "ofi"})
            self.assertEqual(job.code, 1, job.err)
            self.assertRegex(job.err, r"rank 0: weft warn: what rank 1 gets from here, 4194304 bytes at 0x\w+, cannot be read "
                                      r"from byte 0 on: was it freed too early\?")
            self.assertRegex(job.err, "MPI_(Recv|Wait) on communicator MPI_COMM_WORLD failed: MPI_ERR_BUFFER")
            # The provider's own read of it goes wrong without a word.
            self.told_while_waiting("freed-send", {"(4194304 bytes) cannot be read from byte 0 on: freed too early?"},
                                    WEFT_FABRIC_TRANSPORT="ofi", WEFT_COMM_REPORT_QUIET="200ms",
                                    WEFT_FABRIC_OFI_REMOTE_READS="provider")

    def test_end_without_finalize(self):
        for ranks in 1, 3:
            # What Finalize would have freed is not searched for by LeakSanitizer.
            job = self.ended(0, ["ended without MPI_Finalize"], "leave", ranks=ranks,
                             env={"ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(job.err.count("without MPI_Finalize"), ranks)

    def test_end_of_one_without_finalize(self):
        job = self.run_job("-n", 2, "--timeout", 60, MISUSE, "leave-one")
        self.assertNotEqual(job.code, 124, job.err)
        self.assertIn("rank 0: weft warn: the program ended without MPI_Finalize", job.err)
        # Nobody had met it: the launcher tells.
        job = self.run_job("-n", 2, "--timeout", 60, MISUSE, "leave-unmet", env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assertNotEqual(job.code, 124, job.err)
        self.assertRegex(job.err, "rank 1: MPI_Recv .*MPI_ERR_PROC_ABORTED.*rank 0 on .* ended without leaving the job")

    def test_nothing_wrong(self):
        self.good("-n", 2, MISUSE, "nothing")
        job = self.run_job("-n", 2, MISUSE, "nothing", env={"WEFT_MPI_STATS": "1"})
        self.assertEqual(job.code, 0, job.err)
        self.assertRegex(job.err, r"weft: rank 1: \w+.* = \d")

    def test_counters_at_the_end(self):
        job = self.run_job("-n", 2, MISUSE, "talk", env={"WEFT_MPI_STATS": "1"})
        self.assertEqual(job.code, 0, job.err)
        for rank in 0, 1:
            told = dict(re.findall(rf"^.*weft: rank {rank}: (.*) = (.*)$", job.err, re.MULTILINE))
            world = "comm_{} (MPI_COMM_WORLD)".format
            self.assertEqual(told[world("messages_sent")], "3")
            self.assertEqual(told[world("bytes_received")], "12")
            self.assertEqual(told[world("unexpected")], "0")
            self.assertEqual(told[world("match_attempts")], "6")
            self.assertEqual(told[world("match_time")], "0.000 ms")
            self.assertGreaterEqual(int(told["messages_sent"]), 3)
            self.assertGreater(int(told["device_polls"]), 0)
            for name in "device_refusals", "device_parks", "waits", "posted_length":
                self.assertIn(name, told)
            # Of a communicator that nobody used there is nothing to tell.
            self.assertNotIn("comm_messages_sent (MPI_COMM_SELF)", told)
        job = self.run_job("-n", 1, MISUSE, "talk",
                           env={"WEFT_MPI_STATS": "1", "WEFT_MPI_MATCH_TIMES": "1"})
        self.assertIn("comm_posted_most (MPI_COMM_WORLD) = 1", job.err)

    def test_leaks(self):
        job = self.run_job("-n", 1, MISUSE, "leak", env={"WEFT_MPI_REPORT_LEAKS": "1"})
        self.assertEqual(job.code, 0, job.err)
        for left in ['communicators not freed (1): "forgotten" (1 processes', "groups not freed (1): 1 processes",
                     "datatypes of MPI_Type_contiguous not freed (1)", "datatypes of MPI_Type_vector not freed (1)",
                     "operations not freed (1)", "error handlers not freed (1)", "info objects not freed (1)",
                     "key values not freed (2): one of communicators, made", "one of datatypes, made",
                     "requests not freed (2): receive from rank 0 tag 77 on MPI_COMM_WORLD (pending), made",
                     "persistent request on MPI_COMM_WORLD (ended), made",
                     "messages that were probed and never received, not freed (1): context"]:
            self.assertIn(left, job.err)
        # And where the program made them: where addr2line is, in which function of it.
        for kind in ("communicators", "groups", "datatypes", "operations", "error handlers", "info objects", "messages",
                     "key values"):
            self.told_where(f"{kind}.* not freed.*", job.err)
        self.assertNotIn("not freed", self.good("-n", 1, MISUSE, "leak").err)
        # What nobody left is not told.
        job = self.run_job("-n", 1, MISUSE, "nothing", env={"WEFT_MPI_REPORT_LEAKS": "1"})
        self.assertEqual(job.code, 0, job.err)
        self.assertNotIn("not freed", job.err)
        job = self.run_job("-n", 1, MISUSE, "leak-session", env={"WEFT_MPI_REPORT_LEAKS": "1"})
        self.assertIn("sessions not freed (1)", job.err)
        self.assertRegex(job.err, r"attached buffers not detached \(1\): a session's, \d+ bytes, made")

    def told_where(self, what, said):
        """That leaks are told with a place in the program, which is where they were made."""
        place = re.search(rf"{what}, made (in \S+ )?at {os.path.basename(MISUSE)}\+(0x[0-9a-f]+)", said)
        self.assertIsNotNone(place, what + " in " + said)
        if shutil.which("addr2line"):
            function = subprocess.run(["addr2line", "-Cfe", MISUSE, place[2]], capture_output=True, text=True,
                                      check=True).stdout
            self.assertRegex(function, r"^(main|.*lea[kv])")

    def test_buffers_and_what_is_of_tools(self):
        job = self.run_job("-n", 1, MISUSE, "leak-buffers", env={"WEFT_MPI_REPORT_LEAKS": "1"})
        self.assertEqual(job.code, 0, job.err)
        self.assertIn("attached buffers not detached (2):", job.err)
        for what in (r"the process's, \d+ bytes", r"that of MPI_COMM_WORLD, \d+ bytes",
                     r"sessions of performance variables not freed \(1\): one",
                     r"handles of performance variables not freed \(1\): waits",
                     r"handles of control variables not freed \(1\): mpi\.stats"):
            self.told_where(what, job.err)
        self.assertNotRegex(self.good("-n", 1, MISUSE, "leak-buffers").err, "not (freed|detached)")

    def test_messages_that_nobody_received(self):
        for engine in "keyed", "hash", "list", "tail":
            job = self.run_job("-n", 3, "--timeout", 60, MISUSE, "leak-messages",
                               env={"WEFT_MPI_REPORT_LEAKS": "1", "WEFT_MPI_MATCHING": engine})
            self.assertEqual(job.code, 0, job.err)
            self.assertIn(
                "rank 0: weft warn: messages on MPI_COMM_WORLD that were not received until it ended (9): "
                "2 times from rank 0 tag 5 (4 bytes), from rank 0 tag 6 (0 bytes), "
                "2 times from rank 1 tag 5 (4 bytes), from rank 1 tag 7 (0 bytes), "
                "2 times from rank 2 tag 5 (4 bytes), from rank 2 tag 8 (0 bytes)", job.err)
            self.assertEqual(job.err.count("messages on MPI_COMM_WORLD"), 1)
            self.assertRegex(job.err, r"rank 0: weft warn: messages for context \d+, of a communicator that this rank has freed "
                             r"or never made, from the job's ranks \(1\): from rank 1 tag 9 \(4 bytes\)")
            for rank in range(3):  # when it is freed, not at the end
                self.assertRegex(
                    job.err, rf"(?s)rank {rank}: weft warn: messages on the bird's own that were not received until it "
                    rf"ended \(1\): from rank 0 tag 7 \(4 bytes\)\n.*rank {rank} has freed it")
        job = self.run_job("-n", 3, MISUSE, "leak-messages")
        self.assertEqual(job.code, 0, job.err)
        self.assertNotIn("messages", job.err)

    def test_sends_that_ended_at_once(self):
        """Each has a request of its own where leaks are told: a forgotten one is, and so is a stale copy."""
        watched = {"WEFT_MPI_REPORT_LEAKS": "1"}
        job = self.run_job("-n", 1, MISUSE, "leak-send", env=watched)
        self.assertEqual(job.code, 0, job.err)
        self.assertRegex(job.err, r"requests not freed \(1\): send .*ended")
        job = self.run_job("-n", 1, MISUSE, "stale-send", env=watched)
        self.assertEqual(job.out.split(), ["refused", "refused"], job.err)
        self.assertNotIn("not freed", job.err)
        # Otherwise all have the same one, of which nobody can tell.
        self.assertEqual(self.good("-n", 1, MISUSE, "stale-send").out.split(), ["served", "served"])

    def test_bad_configuration(self):
        self.ended(16, ["MPI_Init_thread failed", "WEFT_MPI_REQUESTS"], "nothing", ranks=1,
                   env={"WEFT_MPI_REQUESTS": "many"})


class Threads(JobTest):
    def said(self, *arguments, **env):
        job = self.run_job("-n", 1, "--timeout", 60, MISUSE, *arguments, env=env)
        self.assertEqual(job.code, 0, job.err)
        return job.out.strip()

    def test_checked(self):
        checked = {"WEFT_MPI_CHECK_THREADS": "on"}
        self.assertEqual(self.said("other-thread", "single", **checked), "refused")
        self.assertEqual(self.said("other-thread", "funneled", **checked), "refused")
        self.assertEqual(self.said("other-thread", "serialized", **checked), "served")
        self.assertEqual(self.said("concurrent", "serialized", **checked), "refused")
        self.assertEqual(self.said("concurrent", "multiple", **checked), "served")

    def test_one_that_is_in_mpi_at_the_end(self):
        for ranks in 1, 2:
            job = self.run_job("-n", ranks, "--timeout", 60, MISUSE, "stay", "multiple",
                               env={"ASAN_OPTIONS": "detect_leaks=0"})
            self.assertEqual(job.code, 0, job.err)
            self.assertEqual(job.err.count("MPI_Finalize was called while another thread is in a blocking call"), ranks)

    def test_not_checked(self):
        self.assertEqual(self.said("other-thread", "single"), "served")


class Loaded(JobTest):
    PROGRAM = """
import ctypes, sys
for plain in "libssl.so.3", "libstdc++.so.6", "libm.so.6":
    try:
        ctypes.CDLL(plain)
    except OSError:
        pass
mpi = ctypes.CDLL(sys.argv[1])
world = ctypes.c_void_p(0x101)
size = ctypes.c_int()
assert mpi.MPI_Init(None, None) == 0
assert mpi.MPI_Comm_size(world, ctypes.byref(size)) == 0
assert mpi.MPI_Barrier(world) == 0
assert mpi.MPI_Finalize() == 0
print(size.value)
"""

    @unittest.skipIf(SANITIZER, "a sanitized library needs a sanitized program")
    def test_loaded_while_the_program_runs(self):
        library = os.path.join(os.path.dirname(weftrun_job.WEFTRUN), "..", "lib", "libmpi_abi.so.1")
        self.assertEqual(self.good("-n", 2, sys.executable, "-c", self.PROGRAM, library).out,
                         "2\n2\n")


class Wrappers(JobTest):
    C = r"""
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int rank, size, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("%d of %d: %d\n", rank, size, sum);
  return MPI_Finalize();
}
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.bin = os.path.dirname(weftrun_job.WEFTRUN)

    def call(self, program, *arguments):
        done = subprocess.run([os.path.join(self.bin, program), *arguments], text=True,
                              capture_output=True, cwd=self.folder,
                              timeout=weftrun_job.WATCHDOG_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def write(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(self.C)
        return name

    @unittest.skipIf(SANITIZER, "a sanitized library needs a sanitized program")
    def test_programs(self):
        for wrapper, name, more in (("mpicc", "a.c", ["-std=c99", "-pedantic-errors"]),
                                    ("mpicxx", "b.cpp", ["-std=c++11"]), ("mpic++", "c.cpp", [])):
            self.call(wrapper, "-Wall", "-Wextra", "-Werror", *more, self.write(name), "-o", "one")
            out = self.call("mpiexec", "-np", "3", "./one")
            self.assertEqual(sorted(out.split("\n")), ["", "0 of 3: 3", "1 of 3: 3", "2 of 3: 3"])
            # In two steps, as makefiles do.
            self.call(wrapper, *more, "-c", name, "-o", "two.o")
            self.call(wrapper, "two.o", "-o", "two")
            self.assertEqual(self.call("mpirun", "-n", "1", "./two"), "0 of 1: 0\n")

    def test_what_would_run(self):
        shown = self.call("mpicc", "-show", "-O2", "x.c")
        for flag in "-I", "-L", "-Wl,-rpath,", "-lmpi_abi", "-O2", "x.c":
            self.assertIn(flag, shown)
        self.assertIn("-lmpi_abi", self.call("mpicc", "-link-info"))
        self.assertTrue(self.call("mpicxx", "-compile-info").startswith("-I"))
        self.assertRegex(self.call("mpicc", "-dumpversion"), r"^\d")
        # As build systems ask.
        self.assertIn("-lmpi_abi", self.call("mpicc", "--showme", "x.c"))
        self.assertEqual(self.call("mpicc", "-showme:libs"), "mpi_abi\n")
        self.assertTrue(os.path.isfile(os.path.join(
            self.call("mpicc", "--showme:incdirs").strip(), "mpi.h")))
        self.assertTrue(os.path.isfile(os.path.join(
            self.call("mpicxx", "-showme:libdirs").strip(), "libmpi_abi.so.1")))
        self.assertRegex(self.call("mpicc", "--showme:version"), r"weft \d")
        self.assertTrue(self.call("mpicc", "-cc=other", "-show").startswith("other -I"))
        self.assertRegex(self.call("mpicc", "-cc=env LC_ALL=C cc", "-dumpversion"), r"^\d")  # words


if __name__ == "__main__":
    weftrun_job.WEFTRUN, MISUSE = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
