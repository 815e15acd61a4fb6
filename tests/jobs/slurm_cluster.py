"""A Slurm for a test, of one node, this machine, or of several, hosts made of namespaces: munge, the
controller and each node's daemon, with a configuration, a key, state and logs of their own in a temporary
folder, which goes with them.

As another user than root, Slurm serves that user alone, which is enough; but its daemons may not start
everywhere (a container without a /proc of its own, a host name that resolves to nothing).
"""

import ctypes
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from weftrun_job import processes_in

PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
START_S = 30
TRIES = 3

CONFIGURATION = """\
ClusterName=weft
SlurmctldHost={host}({address})
SlurmctldPort={controller_port}
SlurmdPort={node_port}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
TmpFS={folder}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""


class CannotStart(Exception):
    """A sentence that says what is missing or which daemon refused, and its log."""


def free_ports(count):
    """Ports that nobody listened on a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def program(name):
    found = shutil.which(name, path=PATH)
    if found is None:
        raise CannotStart(f"there is no {name} here: run scripts/bootstrap test, which installs it")
    return found


class Cluster:
    def __init__(self, network=None):
        """`network`: the hosts (hosts.py) that are its nodes; the controller and who asks it are on the first."""
        programs = [program(name) for name in ("munged", "slurmctld", "slurmd", "srun", "sinfo")]
        self.munged, self.slurmctld, self.slurmd, self.srun, self.sinfo = programs
        self.daemons = []
        self.network = network
        self.nodes = ({name: network.address(name) for name in network.names} if network else
                      {socket.gethostname().split(".")[0]: "127.0.0.1"})
        self.first = next(iter(self.nodes))
        self.folder = tempfile.mkdtemp(prefix="launcher-test-slurm-")
        # The path is unlike any other: what has it in its environment is of this cluster.
        self.environment = {"SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        try:
            self.start()
        except BaseException:
            self.end()
            raise

    def path(self, name):
        return os.path.join(self.folder, name)

    def at(self, node, *command):
        """What runs the command on that node."""
        return self.network.command(node, *command) if self.network else list(command)

    def daemon(self, name, *command):
        """In the foreground: it ends with a signal to its own process, and is ours to wait for. It
        ends with this process, too, should the watchdog kill that."""
        with open(self.path(f"{name}.out"), "wb") as out:
            started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                       env=dict(os.environ, **self.environment),
                                       preexec_fn=end_with_parent)
        self.daemons.append((name, started))
        return started

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.folder)):
            if name.endswith((".log", ".out")):
                with open(self.path(name), encoding="utf-8", errors="replace") as file:
                    lines = file.read().splitlines()[-10:]
                text += f"\n{name}:\n" + "\n".join(lines)
        return text

    def wait_until(self, what, condition):
        end = time.monotonic() + START_S
        while not condition():
            for name, daemon in self.daemons:
                if daemon.poll() is not None:
                    raise CannotStart(f"{name} ended with {daemon.returncode} at its start as user "
                                      f"{getpass.getuser()}{self.logs()}")
            if time.monotonic() > end:
                raise CannotStart(f"{what} in {START_S} s as user {getpass.getuser()}{self.logs()}")
            time.sleep(0.05)

    def start(self):
        for name in "state", *(f"tmp-{node}" for node in self.nodes):
            os.mkdir(self.path(name))
        with open(self.path("munge.key"), "wb", opener=lambda p, f: os.open(p, f, 0o600)) as key:
            key.write(os.urandom(128))
        self.daemon("munged", self.munged, "--foreground", "--force",
                    f"--key-file={self.path('munge.key')}", f"--socket={self.path('munge.socket')}",
                    f"--pid-file={self.path('munged.pid')}", f"--log-file={self.path('munged.log')}",
                    f"--seed-file={self.path('munge.seed')}")
        self.wait_until("munged made no socket", lambda: os.path.exists(self.path("munge.socket")))
        with open(self.path("cgroup.conf"), "w", encoding="ascii"):
            pass
        for attempt in range(TRIES):
            ports = free_ports(2)
            with open(self.environment["SLURM_CONF"], "w", encoding="ascii") as file:
                file.write(CONFIGURATION.format(
                    host=self.first, address=self.nodes[self.first], user=getpass.getuser(),
                    folder=self.folder, controller_port=ports[0], node_port=ports[1],
                    nodes="\n".join(f"NodeName={name} NodeAddr={address} CPUs=16"
                                    for name, address in self.nodes.items())))
            try:
                self.daemon("slurmctld", *self.at(self.first, self.slurmctld, "-D", "-c"))
                for node in self.nodes:
                    self.daemon(f"slurmd-{node}", *self.at(node, self.slurmd, "-D"))
                self.wait_until("the nodes did not become idle", self.is_idle)
                return
            except CannotStart:
                # Somebody may have taken a port in between.
                if attempt + 1 == TRIES:
                    raise
                self.end_daemons(keep=1)

    def is_idle(self):
        done = subprocess.run(self.at(self.first, self.sinfo, "--noheader", "--format=%T"), capture_output=True,
                              env=dict(os.environ, **self.environment), check=False)
        return done.stdout.strip() == b"idle"

    def end_daemons(self, keep=0):
        while len(self.daemons) > keep:
            _, daemon = self.daemons.pop()
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def processes(self):
        """Pids of all that runs here, the daemons that each step has among them."""
        return processes_in("SLURM_CONF={SLURM_CONF}".format(**self.environment))

    def end(self):
        self.end_daemons()
        # Slurm's PMIx plugin sometimes stands still in the daemon of a step that was aborted.
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        shutil.rmtree(self.folder, ignore_errors=True)
