"""Jobs as a script starts them: one that does not end is ended, and nothing that it started is left behind."""
import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# A mark in the environment of all that is started, by which what a launcher left behind is found.
MARK = "COMPARE_RUN"
# How the rivals name their segments; what is killed leaves them behind.
SEGMENTS = re.compile(r"mpich_shm_|shm-ofi|Intel_MPI|sm_segment|vader_segment|psm3_shm|efa_shm|ofi_")


def say(text):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr, flush=True)


def warn_if_busy():
    busy = os.getloadavg()[0]
    if busy > 0.5:
        say(f"something else is running (load {busy:.1f}): the figures will suffer")


class Interrupted:
    """Whether a run was; what it measured until then counts."""
    yes = False


@contextlib.contextmanager
def until_interrupted():
    run = Interrupted()
    try:
        yield run
    except KeyboardInterrupt:
        run.yes = True
        say("interrupted: what is missing was not measured")


def marked_processes(mark):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    yield int(pid)
        except OSError:
            pass  # it ended, or is another user's


def segments():
    return {name for name in os.listdir("/dev/shm") if SEGMENTS.match(name)}


class Run:
    """A launcher and its job, from here to the end of the `with`, which leaves nothing of them."""

    def __init__(self, command, environment):
        """In this process's environment, but for what the settings of the library say, and for its
        libraries: the launchers' own come along with them."""
        mark = str(uuid.uuid4())
        self.mark = f"{MARK}={mark}"
        self.segments = segments()
        around = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        self.out, self.errors = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        self.begin = time.monotonic()
        self.process = subprocess.Popen(command, env=around | environment | {MARK: mark},
                                        stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.errors, start_new_session=True)

    def wait(self, timeout):
        """Seconds from its start to its end; None if it does not end in time."""
        if self.process.returncode is not None:  # somebody looked meanwhile
            return time.monotonic() - self.begin
        end = os.pidfd_open(self.process.pid)
        try:
            watch = select.poll()  # of which, unlike Popen.wait's, the clock is not coarse
            watch.register(end, select.POLLIN)
            ended = bool(watch.poll(max(0, timeout - (time.monotonic() - self.begin)) * 1000))
            took = time.monotonic() - self.begin
        finally:
            os.close(end)
        if ended:
            self.process.wait()
        return took if ended else None

    @property
    def code(self):
        return self.process.returncode

    def lines(self, file):
        file.seek(0)
        return file.read().strip().splitlines()

    def why(self):
        """Of one that failed: its exit code, and the last it said."""
        said = self.lines(self.errors)[-1:]
        return f"exit code {self.code}" + "".join(f": {line[:200]}" for line in said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(3)
        self.end_all()
        for name in segments() - self.segments:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join("/dev/shm", name))
        self.out.close()
        self.errors.close()

    def end_all(self):
        """Ends what is left: of a launcher that has ended, too."""
        for _ in range(20):
            left = list(marked_processes(self.mark))
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not left:
                break
            time.sleep(0.1)
        self.process.wait()
