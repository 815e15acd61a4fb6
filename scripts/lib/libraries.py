"""Weft and its rivals: where they are, how their jobs are started, and with which settings each is measured."""
import dataclasses
import os
import re
import shutil
import subprocess
import sys

from lib.runs import ROOT, say

HOSTS_FOLDER = "HOSTS_FOLDER"  # in the environment of what tests/jobs/hosts.py runs
RIVALS = {"mpich": "MPICH", "openmpi": "Open MPI", "impi-rt": "Intel MPI"}


@dataclasses.dataclass(eq=False)
class Setting:
    library: str
    name: str        # of the setting; weft's engines are settings
    launcher: list   # words before the program; with {n} for the number of ranks, and alike
    program: str
    environment: dict
    # For which measures: "single" or "crowded", by whether threads or ranks may outnumber cores; "named":
    # that name it; "levels": collectives of hosts with several ranks each; "bare": of which libfabric does
    # the same.
    when: str = "always"

    @property
    def title(self):
        return f"{self.library} {self.name}".strip()

    @property
    def is_rival(self):
        return self.library in RIVALS.values()

    def fits(self, measure):
        if measure.weft_only:
            return self.library == "weft" and not self.name
        return {"always": True, "single": not measure.crowded, "crowded": measure.crowded,
                "named": self.name in measure.engines, "levels": measure.per_host > 1,
                "bare": measure.bare}[self.when]


def install_rivals(folder, names):
    """A virtual environment for each that is not there; what cannot be installed is left out."""
    for name in names:
        place = os.path.join(folder, name)
        if os.path.exists(os.path.join(place, "bin", "mpiexec")):
            continue
        say(f"installing {RIVALS[name]} into {place}")
        for command in ([sys.executable, "-m", "venv", place],
                        [os.path.join(place, "bin", "pip"), "install", "--quiet", name]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:]
                say(f"no {RIVALS[name]}: {' '.join(last)}")
                shutil.rmtree(place, ignore_errors=True)
                break


def compile_program(command, what):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        say(f"{what}: {os.path.basename(command[-1])} does not compile:\n{done.stderr}")
    return done.returncode == 0


class Libraries:
    """Those that are there: weft in `build`, and the rivals of `names` in their virtual environments."""

    def __init__(self, build, rivals, names, bind="core"):
        self.build, self.rivals, self.bind = build, rivals, bind
        self.names = [name for name in ("weft", *RIVALS) if name in names]
        for name in [name for name in self.names if name != "weft"]:
            if not os.path.exists(os.path.join(rivals, name, "bin", "mpiexec")):
                say(f"without {RIVALS[name]}: no {rivals}/{name}/bin/mpiexec")
                self.names.remove(name)

    def place(self, name):
        return self.build if name == "weft" else os.path.join(self.rivals, name)

    def compile(self, source, work):
        """Compiles an MPI program; what it is for each library. Those for which it cannot be are left out."""
        stem = os.path.join(work, os.path.splitext(os.path.basename(source))[0])
        flags = ["-std=c++20", "-O2", "-pthread"]
        # With RUNPATH, not RPATH, LD_LIBRARY_PATH chooses the library.
        if not compile_program([os.path.join(self.build, "bin", "mpicxx"), *flags, "-o", f"{stem}-abi",
                                "-Wl,--enable-new-dtags", source], "weft"):
            sys.exit(1)
        programs = dict.fromkeys(self.names, f"{stem}-abi")
        if "openmpi" in self.names:
            place = self.place("openmpi")
            library = os.path.join(place, "lib")
            programs["openmpi"] = f"{stem}-openmpi"
            if not compile_program([os.environ.get("CXX", "g++"), *flags, "-o", programs["openmpi"],
                                    "-isystem", os.path.join(place, "include"), f"-L{library}",
                                    "-Wl,--enable-new-dtags,--no-as-needed", f"-Wl,-rpath,{library}", "-lmpi",
                                    source], RIVALS["openmpi"]):
                self.names.remove("openmpi")
                del programs["openmpi"]
        return programs

    def launcher(self, name, hosts):
        """What starts {n} ranks, on one machine or in blocks on hosts, and the environment for that. {hosts} and
        {slots} are hosts, the latter with the number of ranks that each takes, {per_host}."""
        binaries = os.path.join(self.place(name), "bin")
        ssh = os.path.join(os.environ.get(HOSTS_FOLDER, ""), "ssh")
        words = [os.path.join(binaries, "mpiexec"), "-n", "{n}"]
        environment = {"LD_LIBRARY_PATH": os.path.join(self.place(name), "lib")}
        if name == "weft":
            return words + (["--hosts", "{slots}"] if hosts else []), environment
        if name == "openmpi":
            words.append("--allow-run-as-root")
            words += ["--host", "{slots}", "--map-by", "ppr:{per_host}:node", "--prtemca", "plm_ssh_agent",
                      ssh] if hosts else ["--map-by", ":oversubscribe"]
            return words, {}
        how = "launcher" if name == "mpich" else "bootstrap"
        words += ["-hosts", "{hosts}", "-ppn", "{per_host}", f"-{how}", "ssh", f"-{how}-exec",
                  ssh] if hosts else []
        if name == "impi-rt":
            words[0] = os.path.join(binaries, "mpiexec.hydra")
            environment["I_MPI_ROOT"] = self.place(name)
            if self.bind == "share":  # whoever starts it has bound it
                environment["I_MPI_PIN"] = "0"
        return words, environment


def settings(libraries, engines, work, hosts):
    """Builds compare.cpp; every library that is there, with its settings. `hosts`: whether ranks are on several.
    On one machine two ranks are bound to a core each; hosts of namespaces have the same cores."""
    programs = libraries.compile(os.path.join(ROOT, "bench", "mpi", "compare.cpp"), work)
    found = []

    def add(name, setting, more, when="always"):
        words, environment = libraries.launcher(name, hosts)
        if not hosts:
            words += ["-bind-to" if name in ("mpich", "impi-rt") else "--bind-to", "{binding}"]
        elif name == "openmpi":
            words += ["--bind-to", "none"]
        found.append(Setting(RIVALS.get(name, name), setting, words, programs[name], environment | more,
                             when))

    for name in programs:
        if name == "weft":
            for engine, when in {"": "always", **engines}.items():
                add(name, engine, {"WEFT_MPI_MATCHING": engine} if engine else {}, when)
            add(name, "flat", {"WEFT_MPI_NODE_AWARE": "false"}, "levels")
        elif name == "mpich":
            add(name, "", {})
        elif name == "openmpi":
            add(name, "", {})
            add(name, "yield", {"OMPI_MCA_mpi_yield_when_idle": "1"}, "crowded")
        elif hosts:
            network = {"FI_PROVIDER": "tcp", "I_MPI_PIN": "0", "I_MPI_FABRICS": "ofi"}
            both = network | {"I_MPI_FABRICS": "shm:ofi"}
            add(name, "", network)
            add(name, "yield", network | {"I_MPI_THREAD_YIELD": "2"}, "crowded")
            add(name, "shm", both, "levels")
            add(name, "shm yield", both | {"I_MPI_THREAD_YIELD": "2"}, "levels")
        else:
            shm = {"I_MPI_FABRICS": "shm"}
            add(name, "", {})
            add(name, "shm", shm, "single")
            add(name, "yield", shm | {"I_MPI_THREAD_YIELD": "2"}, "crowded")
    return found


def versions_of(rivals):
    """The versions of the rivals' packages, as their folders name them."""
    found = {}
    for name, title in RIVALS.items():
        for path, folders, _ in os.walk(os.path.join(rivals, name, "lib")):
            for folder in folders:
                match = re.fullmatch(rf"{name.replace('-', '_')}-([\d.a-z]+)\.dist-info", folder)
                if match:
                    found[title] = match.group(1)
            if path.endswith("site-packages"):
                folders.clear()
    return found
