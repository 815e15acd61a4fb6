"""scripts/bench: results of a committed tree are stored in bench/results, all others are not. Runs a
copy of it in a folder of its own, with stand-ins for the programs. Nothing is measured.
"""
import os
import shutil
import subprocess
import tempfile

from house import ROOT, finish

findings = []


def bench(commit):
    """What is stored in bench/results, and what in the build folder, and what was said."""
    with tempfile.TemporaryDirectory() as place:
        def stand_in(path, script):
            path = os.path.join(place, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(path, 0o755)

        os.makedirs(os.path.join(place, "scripts"))
        shutil.copy(os.path.join(ROOT, "scripts", "bench"), os.path.join(place, "scripts"))
        stand_in("build/bin/weft-bench", '[ "$1" != all ] || echo figures >"$3"; echo "$1"')
        if commit is not None:
            stand_in("build/bin/weft-info", f"""echo '{{"version": {{"commit": "{commit}"}}}}'""")
        stand_in("build/rivals/bin/mpiexec", "exit 1")
        done = subprocess.run([os.path.join(place, "scripts", "bench")], text=True,
                              stdin=subprocess.DEVNULL, capture_output=True)
        stored = [os.listdir(folder) if os.path.isdir(folder) else []
                  for folder in (os.path.join(place, "bench", "results"),
                                 os.path.join(place, "build", "results"))]
        return done.returncode, *stored, done.stdout + done.stderr


def expect(what, condition, got):
    if not condition:
        findings.append(f"{what}: {got}")


code, kept, aside, said = got = bench("0123456789ab")
expect("a committed tree's results are stored",
       code == 0 and len(kept) == 1 and not aside and "uncommitted" not in kept[0]
       and f"stored in bench/results/{kept[0]}" in said, got)
for commit in ("0123456789ab-dirty", "unknown", None):
    code, kept, aside, said = got = bench(commit)
    expect(f"results of {commit} are not",
           code == 0 and not kept and len(aside) == 1 and "uncommitted" in aside[0]
           and "not stored in bench/results" in said, got)
finish(findings, "scripts/bench")
