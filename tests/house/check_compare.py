"""scripts/compare and scripts/startup: they name their measures without any rival, each of them is explained,
what they do not know is refused, and their lines say with which security. Nothing is measured.
"""
import os
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader

from house import ROOT, finish, read

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "scripts"))
from lib.figures import Series  # noqa: E402
from lib.libraries import RIVALS, Setting  # noqa: E402
from lib.measures import measures  # noqa: E402

findings = []
page = read("docs", "benchmarks.md")
checked = 0


def run(script, *arguments):
    return subprocess.run([sys.executable, os.path.join(ROOT, "scripts", script), *arguments],
                          text=True, stdin=subprocess.DEVNULL, capture_output=True)


for script, at_least in (("compare", 10), ("startup", 4)):
    listed = run(script, "--list")
    names = listed.stdout.split()
    checked += len(names)
    if listed.returncode or len(names) < at_least or len(set(names)) != len(names):
        findings.append(f"scripts/{script} --list: exit code {listed.returncode}, {names}")
    for name in names:
        if f"`{name}`" not in page and f"`{name.rpartition('-')[0]}-…`" not in page:
            findings.append(f"docs/benchmarks.md does not say what `{name}` measures")
    if run(script, "--only", "speed", "--list").returncode != 2:
        findings.append(f"scripts/{script} --only speed: not refused")
    if run(script, "--build", "/nonexistent").returncode != 1:
        findings.append(f"scripts/{script} --build /nonexistent: not refused")
if run("compare", "--per-host", "2", "--list").returncode != 2:
    findings.append("scripts/compare --per-host 2 without hosts: not refused")

# Each line of weft's says how what goes between hosts was protected; of rivals that is not known.
loader = SourceFileLoader("compare", os.path.join(ROOT, "scripts", "compare"))
compare = module_from_spec(spec_from_loader("compare", loader))
loader.exec_module(compare)
settings = [Setting(library, "", [], "", {}) for library in ("weft", *RIVALS.values())]
everything = {"one": (measures([1])[0], {setting: Series([1.0]) for setting in settings})}
told = {line["library"]: line.get("security") for line in compare.lines_of(everything, {}, "mac")}
if told != {"weft": "mac", **dict.fromkeys(RIVALS.values())}:
    findings.append(f"scripts/compare: its lines say of fabric.security {told}")
finish(findings, f"scripts/compare and scripts/startup, {checked} measures")
