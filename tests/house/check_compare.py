"""scripts/compare: names its measures without any rival, each of them is explained, and what it does
not know is refused. Nothing is measured.
"""
import os
import subprocess
import sys

from house import ROOT, finish, read

findings = []


def compare(*arguments):
    return subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "compare"), *arguments],
                          text=True, stdin=subprocess.DEVNULL, capture_output=True)


listed = compare("--list")
names = listed.stdout.split()
if listed.returncode or len(names) < 10 or len(set(names)) != len(names):
    findings.append(f"scripts/compare --list: exit code {listed.returncode}, {names}")
page = read("docs", "benchmarks.md")
for name in names:
    if f"`{name}`" not in page and f"`{name.rpartition('-')[0]}-…`" not in page:
        findings.append(f"docs/benchmarks.md does not say what `{name}` measures")
if compare("--only", "speed", "--list").returncode != 2:
    findings.append("scripts/compare --only speed: not refused")
if compare("--build", "/nonexistent").returncode != 1:
    findings.append("scripts/compare --build /nonexistent: not refused")
finish(findings, f"scripts/compare, {len(names)} measures")
