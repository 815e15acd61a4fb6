"""scripts/bootstrap: silent where everything is there; else it installs what is missing, and only
that, or says how. Runs it with a PATH of its own, in which `apt-get`, `sudo` and `id` are stand-ins
that write down how they were called. Nothing is installed.
"""
import os
import shutil
import subprocess
import tempfile

from house import ROOT, finish

TOOLS = ("sh", "cat", "dirname", "mktemp", "rm", "tail", "uname", "env", "gcc", "g++", "cmake",
         "ninja", "make", "python3", "pkg-config", "ip", "nft", "ssh", "sshd")
findings = []


def bootstrap(lacking=(), user=0, sudo=False, apt=True, apt_fails=False, python_lacks=None):
    with tempfile.TemporaryDirectory() as place:
        calls = os.path.join(place, "calls")

        def stand_in(name, script):
            path = os.path.join(place, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(path, 0o755)

        for tool in TOOLS:
            found = shutil.which(tool)
            if tool == "python3" and python_lacks:
                stand_in(tool, f'case "$*" in *"import {python_lacks}"*) exit 1 ;; esac; '
                         + f'exec {found} "$@"')
            elif tool not in lacking and found:
                os.symlink(found, os.path.join(place, tool))
        stand_in("id", f"echo {user}")
        if apt:
            stand_in("apt-get", f'echo "apt-get $*" >>{calls}; echo chatter'
                     + ("; exit 100" if apt_fails else ""))
        if sudo:
            stand_in("sudo", f'echo "sudo $*" >>{calls}; [ "$1" != -n ] || shift; exec "$@"')
        done = subprocess.run([os.path.join(ROOT, "scripts", "bootstrap")], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              env={"PATH": place, "HOME": place})
        made = []
        if os.path.exists(calls):
            with open(calls, encoding="utf-8") as file:
                made = file.read().splitlines()
        return done.returncode, done.stdout + done.stderr, made


def expect(what, condition, got):
    if not condition:
        findings.append(f"{what}: {got}")


got = bootstrap()
expect("everything there: silent, and nothing called", got == (0, "", []), got)

code, said, calls = got = bootstrap(lacking=("ninja",))
installs = [call for call in calls if " install " in call]
expect("root installs what is missing and only that",
       code == 0 and len(installs) == 1 and installs[0].endswith("--no-install-recommends ninja-build"),
       got)
expect("it says so in one line", said == "bootstrap: installing ninja-build\n", got)

code, said, calls = got = bootstrap(lacking=("python3",))
expect("virtual environments come with Python, for scripts/bench",
       code == 0 and said == "bootstrap: installing python3 python3-venv\n", got)

code, said, calls = got = bootstrap(python_lacks="ensurepip")
expect("and where Debian's Python lacks them",
       code == 0 and said == "bootstrap: installing python3-venv\n", got)

code, said, calls = got = bootstrap(lacking=("ninja", "cmake"), user=1000)
expect("neither root nor sudo: nothing is called, and it says what to do",
       code != 0 and not calls and "apt-get install cmake ninja-build" in said and "sudo" in said,
       got)

code, said, calls = got = bootstrap(lacking=("ninja",), user=1000, sudo=True)
expect("a user with sudo installs by it",
       code == 0 and any(c.startswith("sudo") and c.endswith(" ninja-build") for c in calls), got)

code, said, calls = got = bootstrap(lacking=("ninja",), apt=False)
expect("no apt-get: it names what is missing", code != 0 and "ninja-build" in said, got)

code, said, calls = got = bootstrap(lacking=("ninja",), apt_fails=True)
expect("apt-get that fails is shown and is a failure",
       code != 0 and "chatter" in said and "ninja-build" in said, got)
finish(findings, "scripts/bootstrap")
