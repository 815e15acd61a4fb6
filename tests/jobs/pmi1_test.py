#!/usr/bin/env python3
"""The PMI-1 provider against servers of this test: one as the protocol has it, and others that lie,
cut, stammer and die. Real ones are met in launchers_test.py.

pmi1_test.py PROBE [unittest arguments]
"""

import os
import re
import socket
import subprocess
import sys
import threading
import unittest

PROBE = None
WATCHDOG_S = 100


class Server:
    """Serves `ranks` ranks, each with a thread; a subclass does one thing differently."""

    name = "kvs_test"
    maxes = "kvsname_max=256 keylen_max=64 vallen_max=1024"
    mapping = "(vector,(0,1,1))"

    def __init__(self, ranks):
        self.ranks = ranks
        self.lock = threading.Lock()
        self.values = {"PMI_process_mapping": self.mapping} if self.mapping else {}
        self.waiting = []  # in the barrier
        self.heard = []  # (rank, line)
        self.sockets = []

    def say(self, rank, text):
        self.sockets[rank].sendall(text.encode() + b"\n")

    def serve(self, rank):
        try:
            with self.sockets[rank].makefile("rb") as lines:
                for line in lines:
                    text = line.decode().rstrip("\n")
                    with self.lock:
                        self.heard.append((rank, text))
                        command = text.split()[0].removeprefix("cmd=")
                        fields = dict(word.split("=", 1) for word in text.split()[1:])
                        if not self.answer(rank, command, fields):
                            return
        except OSError:
            pass  # the rank is gone
        # One that did not say good-bye ends the job.
        if (rank, "cmd=finalize") not in self.heard:
            for one in self.sockets:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it is closed

    def answer(self, rank, command, fields):
        """Returns false if this connection shall end."""
        getattr(self, command)(rank, **fields)
        return True

    def init(self, rank, pmi_version, pmi_subversion):
        self.say(rank, f"cmd=response_to_init pmi_version={pmi_version} "
                 f"pmi_subversion={pmi_subversion} rc=0")

    def get_maxes(self, rank):
        self.say(rank, f"cmd=maxes {self.maxes}")

    def get_my_kvsname(self, rank):
        self.say(rank, f"cmd=my_kvsname kvsname={self.name}")

    def put(self, rank, kvsname, key, value):
        assert kvsname == self.name and key not in self.values, key  # never a key twice
        self.values[key] = value
        self.say(rank, "cmd=put_result rc=0 msg=success")

    def get(self, rank, kvsname, key):
        assert kvsname == self.name
        if key in self.values:
            self.say(rank, f"cmd=get_result rc=0 msg=success value={self.values[key]}")
        else:
            self.say(rank, f"cmd=get_result rc=-1 msg=key_{key}_not_found value=unknown")

    def barrier_in(self, rank):
        self.waiting.append(rank)
        if len(self.waiting) == self.ranks:
            for one in self.waiting:
                self.say(one, "cmd=barrier_out rc=0")
            self.waiting = []

    def abort(self, rank, exitcode):
        pass

    def finalize(self, rank):
        self.say(rank, "cmd=finalize_ack")

    def run(self, *arguments, **variables):
        """Runs the probe; a list of (code, stdout, stderr), one of each rank."""
        processes, threads = [], []
        for rank in range(self.ranks):
            ours, theirs = socket.socketpair()
            self.sockets.append(ours)
            environment = {name: value for name, value in os.environ.items()
                           if not name.startswith(("PMIX_", "PMI_"))}
            environment.update({"PMI_FD": str(theirs.fileno()), "PMI_RANK": str(rank),
                                "PMI_SIZE": str(self.ranks)}, **variables)
            processes.append(subprocess.Popen(
                [PROBE, *map(str, arguments)], env=environment, pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
            theirs.close()
        for rank in range(self.ranks):
            threads.append(threading.Thread(target=self.serve, args=[rank], daemon=True))
            threads[-1].start()
        try:
            outcomes = [(process.communicate(timeout=WATCHDOG_S), process.returncode)
                        for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
                process.stdout.close()
                process.stderr.close()
            for one in self.sockets:
                one.close()
        for thread in threads:
            thread.join(WATCHDOG_S)
        return [(code, out.decode(), err.decode()) for (out, err), code in outcomes]


class Conformance(unittest.TestCase):
    """What Job promises, whatever the server's manners."""

    def good(self, server, *arguments):
        for code, out, err in server.run(*arguments):
            self.assertEqual((code, out, err), (0, "good\n", ""))
        return server

    def test_values(self):
        for ranks in 1, 2, 3:
            server = self.good(Server(ranks), "exchange")
            self.assertEqual([line for _, line in server.heard].count("cmd=finalize"), ranks)

    def test_lines_are_short(self):
        """Of a server with long names, too."""
        class LongNames(Server):
            name = "k" * 255

        for server in Server(2), LongNames(2):
            heard = self.good(server, "exchange").heard
            self.assertLess(max(len(line) for _, line in heard), 1000)
            self.assertTrue(any(".1.20.:large" in line for _, line in heard))

    def test_small_limits(self):
        class Small(Server):
            maxes = "kvsname_max=16 keylen_max=33 vallen_max=66"

        heard = self.good(Small(2), "exchange").heard
        for _, line in heard:
            value = re.search(r" value=(\S*)", line)
            self.assertTrue(value is None or 0 < len(value[1]) < 66, line)

    def test_jobs_one_after_another(self):
        self.good(Server(2), "again")

    def test_fork(self):
        server = self.good(Server(2), "fork")
        self.assertEqual([line for _, line in server.heard].count("cmd=finalize"), 2)

    def test_answers_in_pieces(self):
        class Stammers(Server):
            def say(self, rank, text):
                for byte in text.encode() + b"\n":
                    self.sockets[rank].sendall(bytes([byte]))

        self.good(Stammers(2), "exchange")

    def test_what_is_asked_while_a_fence_is_waited_for_is_answered(self):
        class AskedFirst(Server):
            """Lets nobody out of a barrier whom it has not heard ask for something in it."""
            asked = set()

            def barrier_in(self, rank):
                self.waiting.append(rank)

            def get(self, rank, kvsname, key):
                super().get(rank, kvsname, key)
                if rank in self.waiting:
                    self.asked.add(rank)
                if len(self.asked) == self.ranks:
                    self.let_out()

            def let_out(self):
                for one in self.waiting:
                    self.say(one, "cmd=barrier_out")
                self.waiting, self.asked = [], set()

        class TheThird(AskedFirst):
            """The first two are those of joining and of beginning, and the fourth is the end: nobody asks there."""
            rounds = 0

            def barrier_in(self, rank):
                super().barrier_in(rank)
                if self.rounds != 2 and len(self.waiting) == self.ranks:
                    self.let_out()

            def let_out(self):
                super().let_out()
                self.rounds += 1

        self.good(TheThird(2), "overlap")

    def test_nodes(self):
        class TwoNodes(Server):
            mapping = "(vector,(0,2,1))"

        found = TwoNodes(3).run("info")
        self.assertEqual([re.search("node . of . by pmi1 near[ 0-9]*", out)[0] for _, out, _ in found],
                         ["node 0 of 2 by pmi1 near 0 2 ", "node 1 of 2 by pmi1 near 1 ",
                          "node 0 of 2 by pmi1 near 0 2 "])

    def test_nodes_without_a_map(self):
        for what in None, "(vector,0)":
            class NoMap(Server):
                mapping = what

            for code, out, err in NoMap(3).run("info"):
                self.assertEqual((code, err), (0, ""))
                self.assertIn("node 0 of 1 by pmi1 near 0 1 2 ", out)

    def test_abort(self):
        server = Server(1)
        self.assertEqual(server.run("abort", 0, 42),
                         [(42, "", "weft: rank 0 ended the job: no hope\n")])
        self.assertIn((0, "cmd=abort exitcode=42"), server.heard)


class Trouble(unittest.TestCase):
    def refused(self, server, words, *arguments, rank=0, **variables):
        code, out, err = server.run(*(arguments or ["exchange"]), **variables)[rank]
        self.assertEqual((code, out), (1, ""), err)
        self.assertRegex(err, words)
        self.assertEqual(err.count("\n"), 1, err)  # a sentence, and no crash

    def test_variables(self):
        for name, values in {"PMI_RANK": ("-1", "1", "", "x", "0 "), "PMI_SIZE": ("0", "99999999999"),
                             "PMI_FD": ("-1", "x")}.items():
            for value in values:
                self.refused(Server(1), f"{name}={value}: not a number from .* to ", **{name: value})
        self.refused(Server(1), "PMI_FD=0 is no open socket", PMI_FD="0")
        self.refused(Server(1), "PMI_FD=1000 is no open socket", PMI_FD="1000")

    def test_server_that_dies(self):
        for when in "init", "get_maxes", "put", "barrier_in", "get":
            class Dies(Server):
                def answer(self, rank, command, fields, last=when):
                    if command != last:
                        return super().answer(rank, command, fields)
                    for one in self.sockets:
                        one.shutdown(socket.SHUT_RDWR)
                    return False

            for rank in range(2):
                self.refused(Dies(2), "the launcher's PMI-1 server is gone: ", rank=rank)

    def test_server_that_talks_nonsense(self):
        for text, words in (("nonsense", "makes no sense: 'nonsense'"),
                            ("cmd=put_result rc=0", "answers 'put_result' where 'maxes' was due"),
                            ("cmd=maxes keylen_max=64 vallen_max=many", "vallen_max of 'maxes'"),
                            ("cmd=maxes keylen_max=64", "'maxes' without vallen_max"),
                            ("cmd=maxes keylen_max=8 vallen_max=1024", "too few"),
                            ("cmd=maxes a=\x01", "no text"),
                            ("cmd=maxes " + "a" * 80_000, "without an end")):
            class Talks(Server):
                def get_maxes(self, rank, text=text):
                    self.say(rank, text)

            self.refused(Talks(1), words)

    def test_server_of_another_version(self):
        class Newer(Server):
            def init(self, rank, **fields):
                self.say(rank, "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")

        self.refused(Newer(1), "speaks PMI 2, and this program PMI 1 and PMIx.*--mpi=pmix")

        class Refuses(Server):
            def init(self, rank, **fields):
                self.say(rank, "cmd=response_to_init rc=-1 msg=no")

        self.refused(Refuses(1), "init: the launcher refuses: no")

    def test_server_that_speaks_unasked(self):
        class Unasked(Server):
            def get_maxes(self, rank):
                self.say(rank, "cmd=barrier_out\ncmd=barrier_out")

        self.refused(Unasked(1), "answers 'barrier_out'|says 'cmd=barrier_out', unasked")

    def test_barrier_that_fails(self):
        class Fails(Server):
            def barrier_in(self, rank):
                self.say(rank, "cmd=barrier_out rc=-1 msg=no")

        self.refused(Fails(1), "ends a barrier with 'cmd=barrier_out rc=-1 msg=no'")

    def test_server_that_refuses_a_value(self):
        class Full(Server):
            def put(self, rank, **fields):
                self.say(rank, "cmd=put_result rc=-1 msg=no_more_room")

        self.refused(Full(1), "put of 'w0.1.0.*the launcher refuses: no_more_room")

    def test_server_that_cuts_values(self):
        class Cuts(Server):
            def put(self, rank, kvsname, key, value):
                super().put(rank, kvsname, key, value[:500])

        self.refused(Cuts(1), "the launcher cuts values")

    def test_server_that_loses_values(self):
        class Loses(Server):
            def put(self, rank, kvsname, key, value):
                super().put(rank, kvsname, "lost-" + key, value)

        self.refused(Loses(1), "does not have what rank 0 published")

        class LosesAPiece(Server):
            def put(self, rank, kvsname, key, value):
                super().put(rank, kvsname, "lost-" + key if ".3.:large" in key else key, value)

        self.refused(LosesAPiece(1), "lost piece 4 of .. of what rank 0 published")

    def test_nodes_that_are_none(self):
        class Elsewhere(Server):
            def put(self, rank, kvsname, key, value):
                if key.endswith(".host"):
                    value = "1:9:elsewhere"
                super().put(rank, kvsname, key, value)

        self.refused(Elsewhere(2), "says .*that ranks 0 and 1 share a node, but they run on different",
                     rank=1)


if __name__ == "__main__":
    PROBE = sys.argv[1]
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
