"""A job under test: weftrun run from outside, and what it leaves behind.

Every job runs with a TMPDIR of its own and a marker in its environment, which its grandchildren
inherit, too: when it is over, no process may carry the marker and the folder must be empty.
Nothing here fails because something was slow, but for watchdogs.
"""

import ctypes
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

WEFTRUN = None  # set by whoever runs the tests
WATCHDOG_S = 120
MARKER = "LAUNCHER_TEST_MARKER"


def processes_in(setting):
    """Pids of the processes, zombies apart, whose environment holds the setting, KEY=VALUE."""
    wanted = setting.encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as environ:
                if wanted in environ.read().split(b"\0"):
                    found.append(int(name))
        except OSError:
            pass
    return found


def processes_with(marker):
    """Pids of the processes, zombies apart, whose environment holds the marker."""
    return processes_in(f"{MARKER}={marker}")


def command_of(pid):
    """Its command line; empty once it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def state_of(pid):
    """Its state as `ps` shows it; empty once it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def kill_if_there(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def strike(pid, task, number=signal.SIGSEGV):
    """Sends a signal to one thread of a process; 0 if that went well."""
    tgkill = 131 if os.uname().machine == "aarch64" else 234
    return ctypes.CDLL(None).syscall(tgkill, pid, task, int(number))


def eventually(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


def seeded():
    seed = int(os.environ.get("WEFT_STRESS_SEED", random.randrange(1 << 30)))
    print(f"seed {seed} (WEFT_STRESS_SEED)", file=sys.stderr)
    return random.Random(seed)


def kill_rounds(few=25):
    """A few rounds, or as many as fit into WEFT_STRESS_SECONDS."""
    seconds = os.environ.get("WEFT_STRESS_SECONDS")
    begin, rounds = time.monotonic(), 0
    while (time.monotonic() - begin < float(seconds)) if seconds else (rounds < few):
        rounds += 1
        yield rounds


class Job:
    """One run of weftrun, or of another launcher: `launcher` is how its command line begins. `at`: makes
    of a command one that runs it at some other place."""

    launcher = None

    def __init__(self, *arguments, env=None, at=lambda *command: list(command), **popen):
        self.marker = uuid.uuid4().hex
        self.temp = tempfile.mkdtemp(prefix="launcher-test-")
        environment = dict(os.environ, TMPDIR=self.temp, **{MARKER: self.marker})
        environment.update(env or {})
        popen.setdefault("stdin", subprocess.DEVNULL)
        popen.setdefault("stdout", subprocess.PIPE)
        popen.setdefault("stderr", subprocess.PIPE)
        command = [*(self.launcher or [WEFTRUN]), *map(str, arguments)]
        self.process = subprocess.Popen(at(*command), env=environment, **popen)

    def finish(self, text_in=None):
        out, err = self.process.communicate(text_in, timeout=WATCHDOG_S)
        self.out = out.decode(errors="replace") if out is not None else ""
        self.err = err.decode(errors="replace") if err is not None else ""
        self.code = self.process.returncode
        return self

    def pids(self):
        return processes_with(self.marker)

    def guardian(self):
        return [pid for pid in self.pids() if command_of(pid) == "weft-guardian"]

    def ranks(self, word):
        """Pids of the job's processes, weftrun and its guardian to be apart, that have `word` in
        their command line."""
        commands = {pid: command_of(pid).split() for pid in self.pids()}
        return [pid for pid, command in commands.items()
                if word in command and command[0] != WEFTRUN and pid != self.process.pid]

    def wait_for(self, count, word):
        """The pids of `count` processes whose command line holds `word`."""
        if not eventually(lambda: len(self.ranks(word)) >= count):
            raise AssertionError(f"no {count} processes '{word}': "
                                 f"{[command_of(pid) for pid in self.pids()]}")
        return self.ranks(word)

    def left_behind(self):
        """What is left some moments after the end, or nothing."""
        eventually(lambda: not self.pids() and not os.listdir(self.temp), 10)
        left = [f"process {pid}: {command_of(pid)}" for pid in self.pids()]
        left += [f"in TMPDIR: {name}" for name in os.listdir(self.temp)]
        left += [f"in /dev/shm: {name}" for name in os.listdir("/dev/shm")
                 if f"weft-{self.process.pid}-" in name]
        return left

    def cleanup(self):
        for pid in self.pids():
            kill_if_there(pid)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr, self.process.stdin):
            if stream is not None:
                stream.close()
        shutil.rmtree(self.temp, ignore_errors=True)


class JobTest(unittest.TestCase):
    job_type = Job

    def start(self, *arguments, **popen):
        job = self.job_type(*arguments, **popen)
        self.addCleanup(job.cleanup)
        return job

    def run_job(self, *arguments, text_in=None, **popen):
        if text_in is not None:
            popen["stdin"] = subprocess.PIPE
        job = self.start(*arguments, **popen).finish(text_in)
        self.assertEqual(job.left_behind(), [])
        return job

    def good(self, *arguments, **more):
        job = self.run_job(*arguments, **more)
        self.assertEqual((job.code, job.err), (0, ""), job.out)
        return job
