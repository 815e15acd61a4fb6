"""scripts/compare and scripts/startup: they name their measures without any rival, each of them is explained,
and what they do not know is refused. Nothing is measured.
"""
import os
import subprocess
import sys

from house import ROOT, finish, read

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
finish(findings, f"scripts/compare and scripts/startup, {checked} measures")
