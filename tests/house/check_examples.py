"""Runs the examples and sees that they print what the documents say they print.

  check_examples.py BIN
"""
import os
import subprocess
import sys

from house import finish

bin_folder = sys.argv[1]
findings = []


def lines_of(*command):
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode:
        findings.append(f"{' '.join(command)}: ended with {done.returncode}\n{done.stderr}")
    return sorted(done.stdout.splitlines())


hello = os.path.join(bin_folder, "hello")
weftrun = os.path.join(bin_folder, "weftrun")
for ranks in 1, 2:
    printed = lines_of(hello) if ranks == 1 else lines_of(weftrun, "-n", "2", "--timeout", "60", hello)
    expected = [f"rank {rank} thread {thread} says hello"
                for rank in range(ranks) for thread in range(4)]
    if printed != expected:
        findings.append(f"hello with {ranks} rank(s) printed {printed}")
printed = lines_of(weftrun, "-n", "2", "--timeout", "60", os.path.join(bin_folder, "conversations"),
                   "3000", "3")
if len(printed) != 1 or not printed[0].startswith("3000 conversations, 3 questions each: "):
    findings.append(f"conversations printed {printed}")
finish(findings, "2 examples")
