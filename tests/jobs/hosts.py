#!/usr/bin/env python3
"""Hosts made of network namespaces, on one machine, to run and to disturb jobs of several hosts.

  hosts.py COUNT COMMAND…      makes hosts host0, host1 … and runs the command in host0; where that ends,
                               all of it ends. `weftrun --hosts host0,host1 …` works in there, and other
                               launchers do with $HOSTS_FOLDER/ssh for their ssh.
  hosts.py enter HOST COMMAND… runs a command in a host     } for COMMAND and what it starts
  hosts.py cut HOST [drop]     takes the host off the net   }
  hosts.py mend HOST           puts it back, whole          }
  hosts.py loss HOST PERCENT   loses packets, both ways     }
  hosts.py forget HOST PROGRAM [for_good]
                               its kernel forgets the connections of such processes to other hosts, and
                               what would tell these (FIN, RST), or for good make new ones (SYN), is lost
                               until it is mended         }
  hosts.py rate HOST MBIT      limits it, both ways         }
  hosts.py delay HOST MS [JITTER_MS [PERCENT]]
                               mends it, then delays packets, both ways, by so much and at random by up to
                               JITTER_MS more, so that they overtake each other, as PERCENT of them do by
                               not waiting at all           }
  hosts.py congestion HOST NAME…
                               its connections to come are controlled by the first of these (cubic, reno, bbr …)
                               that its kernel lets it use, which is printed  }

A host has namespaces of its own for network, host name, mounts and System V's memory: its address is
10.77.0.N, its name is found in its /etc/hosts, its /dev/shm is empty. Processes and other files are the
machine's. The hosts' cables (veth) lead to a bridge in a namespace that is no host's, so that nothing of
this touches the machine's own network.

Namespaces have no names; each lives as long as its keeper, a process of its own session that waits for
the end of a pipe from the owner of the hosts. However the owner ends, SIGKILL included, the keepers then
kill what runs in their hosts and end, and the kernel takes the namespaces and cables back.

Needs root, or a kernel that gives users namespaces of their own (see `as_root`); iproute2 and nftables.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FOLDER_VARIABLE = "HOSTS_FOLDER"
RELAY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "relay.py")
AGENT_VARIABLE = "WEFTRUN_LAUNCH_AGENT"
SWITCH = "switch"
# Until somebody there refuses what comes to a port that is closed; or five seconds.
REACH = """
import errno, socket, sys, time
end = time.monotonic() + 5
while time.monotonic() < end:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(0.2)
        try:
            one.connect((sys.argv[1], 9))
            one.send(b"")
            one.recv(1)
        except ConnectionRefusedError:
            break
        except TimeoutError:
            continue
        except OSError:
            time.sleep(0.02)
"""
KINDS = ("--net", "--uts", "--mount", "--ipc")
MOST_HOSTS = 250


class Unable(Exception):
    """What this machine or kernel cannot do."""


def processes_of(namespace):
    """Pids, other than the caller's, whose network namespace it is."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/{name}/ns/net") == namespace and int(name) != os.getpid():
                pids.append(int(name))
    return pids


def keep(folder, name):
    """A keeper's life: settles the host, says so, waits for the owner's end, kills what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    setup = "hostname \"$1\" && ip link set lo up && mount --bind \"$2/hosts\" /etc/hosts && " \
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm"
    done = subprocess.run(["sh", "-c", setup, "sh", name, folder], capture_output=True, text=True)
    print(done.stderr.replace("\n", " ") if done.returncode else "ready", flush=True)
    sys.stdin.read()
    namespace = os.readlink("/proc/self/ns/net")
    while pids := processes_of(namespace):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    if name == SWITCH:
        shutil.rmtree(folder, ignore_errors=True)


class Network:
    """The hosts, as their owner and those who run in them see them: found by their folder."""

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "network.json"), encoding="utf-8") as file:
            self.pids = json.load(file)
        self.names = [name for name in self.pids if name != SWITCH]
        self.agent = os.path.join(folder, "enter")

    def address(self, host):
        return address(self.names.index(host))

    def command(self, host, *words):
        """What runs `words` in the host, in the caller's working folder."""
        if host not in self.pids:
            raise Unable(f"no such host: {host} (there are {', '.join(self.names)})")
        return ["nsenter", "--target", str(self.pids[host]), *KINDS, "--",
                "env", "-C", os.getcwd(), *map(str, words)]

    def do(self, host, *words, text=None):
        """Runs a program that sets something up. Raises Unable with what it says if it fails."""
        done = subprocess.run(self.command(host, *words), input=text, capture_output=True, text=True)
        if done.returncode:
            raise Unable(f"on {host}: {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def cut(self, host, how="link"):
        """Takes it off the net: its cable is pulled, or (drop) silently carries nothing."""
        if how == "link":
            self.do(SWITCH, "ip", "link", "set", host, "down")
        elif how == "drop":
            self.loss(host, 100)
        else:
            raise Unable(f"cut {host} {how}: link or drop")

    def mend(self, host):
        """Puts it back: cable, losses, rate and delay. A cable that was put in carries after a while,
        and an address that nobody answered for is not asked for at once: waits until the first other
        host answers."""
        if self.has_relay(host):  # the process ends with its interfaces
            self.links(f"link del {host}\nlink set far.{host} down\nlink set far.{host} name {host}\n"
                       f"link set {host} master br0\n")
            self.do(host, sys.executable, RELAY, "offload", "eth0")
        self.do(SWITCH, "ip", "link", "set", host, "up")
        self.loss(host, 0)
        self.silence_ends(host, False)
        for place, device in ((SWITCH, host), (host, "eth0")):
            with contextlib.suppress(Unable):  # where there is none of ours
                self.do(place, "tc", "qdisc", "del", "dev", device, "root")
        other = next((name for name in self.names if name != host), None)
        if other is not None:
            self.do(host, sys.executable, "-c", REACH, self.address(other))

    def loss(self, host, percent):
        """Loses so much of what comes to it and of what it sends, questions for addresses included."""
        if not 0 <= percent <= 100:
            raise Unable(f"loss of {percent} %")
        rule = "drop" if percent == 100 else f"numgen random mod 10000 < {round(percent * 100)} drop"
        for place, device in ((SWITCH, host), (host, "eth0")):
            table = f"netdev loss_{device}"
            text = f"add table {table}\ndelete table {table}\n"
            if percent > 0:
                text += (f"add table {table}\nadd chain {table} in "
                         f"{{ type filter hook ingress device {device} priority 0; }}\n"
                         f"add rule {table} in {rule}\n")
            self.do(place, "nft", "-f", "-", text=text)

    def silence_ends(self, host, silent, begins=False):
        """Whether it is lost when the host says of a connection that it ends; or that it begins."""
        table = f"netdev ends_{host}"
        text = f"add table {table}\ndelete table {table}\n"
        flags = "fin | rst | syn" if begins else "fin | rst"
        if silent:
            text += (f"add table {table}\nadd chain {table} in "
                     f"{{ type filter hook ingress device {host} priority 1; }}\n"
                     f"add rule {table} in tcp flags & ({flags}) != 0 drop\n")
        self.do(SWITCH, "nft", "-f", "-", text=text)

    def forget(self, host, program, for_good=False):
        """Its kernel forgets the connections that processes of this name have with other hosts, which keep
        theirs: what would tell them is lost until `mend`; and `for_good`, what would make new ones. How many."""
        self.silence_ends(host, True, begins=for_good)
        own = self.address(host)
        ends = [line.split()[3:5] for line in
                self.do(host, "ss", "-Htnp", "state", "connected", "src", own).splitlines()
                if f'"{program}"' in line]
        for here, there in ends:
            self.do(host, "ss", "-Kt", "src", here, "dst", there)
        return len(ends)

    def rate(self, host, mbit):
        """So many million bits a second to it, and as many from it; with 50 ms of room to wait in."""
        for place, device in ((SWITCH, host), (host, "eth0")):
            self.do(place, "tc", "qdisc", "replace", "dev", device, "root", "tbf", "rate",
                    f"{mbit}mbit", "burst", str(max(16384, int(mbit * 1000))), "latency", "50ms")

    def delay(self, host, milliseconds, jitter=0, percent=0):
        """Mends it, then delays packets, both ways, by so much and at random by up to `jitter` more; so many
        percent of them do not wait. Its cable then leads through a process (relay.py), that no kernel has to
        know how."""
        if milliseconds < 0 or jitter < 0 or not 0 <= percent <= 100:
            raise Unable(f"delay of {milliseconds} ms and up to {jitter} more, but for {percent} %")
        self.mend(host)
        # The switch's end keeps its name, so that cutting, losing and limiting work as without.
        self.links(f"link set {host} down\nlink set {host} nomaster\nlink set {host} name far.{host}\n"
                   f"link add name {host} type veth peer name near.{host}\nlink set {host} master br0\n"
                   f"link set near.{host} up\nlink set far.{host} up\nlink set {host} up\n")
        for place, device in ((SWITCH, host), (host, "eth0")):
            self.do(place, sys.executable, RELAY, "whole", device)
        self.do(SWITCH, sys.executable, RELAY, "carry", f"near.{host}", f"far.{host}", milliseconds, jitter,
                percent)

    def congestion(self, host, *names):
        self.command(host)  # there is such a host
        for name in names:
            with contextlib.suppress(Unable):
                self.do(host, "sh", "-c", 'echo "$1" > /proc/sys/net/ipv4/tcp_congestion_control', "sh", name)
                return name
        raise Unable(f"congestion {host}: its kernel lets it use none of {', '.join(names)}")

    def has_relay(self, host):
        return f"near.{host}@" in self.do(SWITCH, "ip", "-brief", "link")

    def links(self, text):
        """Does to the switch's interfaces what `ip` is told so."""
        self.do(SWITCH, "ip", "-batch", "-", text=text)


def address(index):
    return f"10.77.0.{index + 1}"


class Hosts(Network):
    """Hosts of one's own, from here to `end`, or to the end of this process."""

    def __init__(self, count, prefix="host"):
        if not 1 <= count <= MOST_HOSTS:
            raise Unable(f"{count} hosts: from 1 to {MOST_HOSTS}")
        for program in "ip", "nft", "nsenter", "unshare":
            if shutil.which(program) is None:
                raise Unable(f"there is no program {program} here (scripts/bootstrap installs it)")
        self.keepers = {}
        names = [f"{prefix}{index}" for index in range(count)]
        folder = tempfile.mkdtemp(prefix=f"hosts-{os.getpid()}-")
        os.chmod(folder, 0o755)
        with open(os.path.join(folder, "hosts"), "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{address(index)} {name}\n" for index, name in enumerate(names))
        try:
            pids = {name: self.start_keeper(folder, name) for name in (SWITCH, *names)}
            for name, keeper in self.keepers.items():
                said = keeper.stdout.readline().strip()
                if said != "ready":
                    raise Unable(f"cannot make a host of namespaces: {said or 'no permission'}")
            with open(os.path.join(folder, "network.json"), "w", encoding="utf-8") as file:
                json.dump(pids, file)
            self.write_agent(folder, pids)
            super().__init__(folder)
            self.connect()
        except BaseException:
            self.end()
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def start_keeper(self, folder, name):
        self.keepers[name] = subprocess.Popen(
            ["unshare", *KINDS, "--", sys.executable, os.path.abspath(__file__), "keep", folder, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            start_new_session=True, cwd="/")
        return self.keepers[name].pid

    @staticmethod
    def write_agent(folder, pids):
        """A launch agent for weftrun: `enter HOST command…`, a shell's few words, quickly started."""
        with open(os.path.join(folder, "enter"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
            file.writelines(f"{name}) pid={pid} ;;\n" for name, pid in pids.items())
            file.write('*) echo "no such host: $host" >&2; exit 255 ;;\nesac\n'
                       f'exec nsenter --target "$pid" {" ".join(KINDS)} -- "$@"\n')
        # The same for launchers that know ssh alone: options before the host, a shell's words after it.
        with open(os.path.join(folder, "ssh"), "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nwhile :; do case $1 in\n'
                       "-[bcDEeFIiJLlmOopQRSWw]) shift 2 ;;\n-*) shift ;;\n*) break ;;\nesac; done\n"
                       f'host=$1\nshift\nexec "{folder}/enter" "$host" sh -c "$*"\n')
        for name in "enter", "ssh":
            os.chmod(os.path.join(folder, name), 0o755)

    def connect(self):
        """Cables from the switch to each host."""
        lines = ["link add name br0 type bridge", "link set br0 up"]
        for name in self.names:
            lines += [f"link add name {name} type veth peer name eth0 netns {self.pids[name]}",
                      f"link set {name} master br0", f"link set {name} up"]
        self.links("\n".join(lines) + "\n")
        for name in self.names:
            self.do(name, "ip", "-batch", "-",
                    text=f"addr add {self.address(name)}/16 dev eth0\nlink set eth0 up\n")

    def environment(self):
        """For processes that are to find the hosts."""
        return {FOLDER_VARIABLE: self.folder, AGENT_VARIABLE: self.agent}

    def run(self, host, *words, **more):
        """subprocess.run of a command in a host."""
        return subprocess.run(self.command(host, *words), **more)

    def end(self):
        """Kills what runs in the hosts, and takes them away."""
        for keeper in self.keepers.values():
            keeper.stdin.close()
        for keeper in self.keepers.values():
            keeper.wait()
            keeper.stdout.close()
        self.keepers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def as_root():
    """Starts this program again in a user namespace in which it is root, if it is not root here."""
    if os.geteuid() != 0:
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        os.execvp("unshare", ["unshare", "--user", "--map-root-user", "--", sys.executable, *sys.argv])


def main(words):
    if len(words) < 2:
        sys.exit(__doc__.strip())
    if words[0] == "keep":
        keep(*words[1:])
    elif words[0].isdigit():
        as_root()
        with Hosts(int(words[0])) as hosts:
            # What kills us by a signal that we can see still ends the hosts in order.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
            done = hosts.run(hosts.names[0], *words[1:], env=os.environ | hosts.environment())
        sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
    elif words[0] in ("enter", "cut", "mend", "loss", "forget", "rate", "delay", "congestion"):
        if FOLDER_VARIABLE not in os.environ:
            raise Unable(f"{words[0]}: only for what was started by `hosts.py COUNT COMMAND…`")
        network = Network(os.environ[FOLDER_VARIABLE])
        if words[0] == "enter":
            command = network.command(words[1], *words[2:])
            os.execvp(command[0], command)
        numbers = words[0] in ("loss", "rate", "delay")
        said = getattr(network, words[0])(words[1], *(map(float, words[2:]) if numbers else words[2:]))
        if isinstance(said, str):
            print(said)
    else:
        raise Unable(f"{words[0]}: neither a number of hosts nor a command (see the head of {__file__})")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Unable as error:
        sys.exit(f"hosts: {error}")
