"""Bad flags of the programs in examples/mpi are refused with a sentence, and exit code 2.

  examples_test.py WEFTRUN BIN
"""
import os
import subprocess
import sys

weftrun, bin_folder = sys.argv[1:]
findings = 0

HOW = (
    ("--bogus", "what is '--bogus'?"),
    ("7", "what is '7'?"),
    ("--threads", "--threads lacks its value"),
    ("--threads 0", "--threads takes a number from 1"),
    ("--threads 3x", "not '3x'"),
    ("--tasks -1", "--tasks takes a number from 1"),
    ("--tasks 99999999999", "--tasks takes a number from 1"),
    ("--units 2", "--units takes a number from 1 to 1"),
    ("--threads 2 --tasks 2", "exclude each other"),
    ("--workers 2", "--workers is for --tasks"),
    ("--threads 2 --threads 3", "what is '--threads'?"),
)
OWN = {
    "bfs": (("--scale 27", "--scale takes a number from 4 to 26"), ("--batch 0", "--batch takes"),
            ("--roots many", "--roots takes a number")),
    "uts": (("--tree T2", "--tree is T3 or T1, not 'T2'"), ("--slice 0", "--slice takes")),
    "hpccg": (("--size 1", "--size takes a number from 2"), ("--iterations 0", "--iterations takes")),
}
# Seen by all ranks together.
JOBS = (
    (2, "hpccg --size 8 --threads 5", "8 planes (--size) are too few for 2 ranks of 5 unit(s)"),
    (2, "hpccg --size 64 --iterations 2", ""),
)


def check(command, code, said):
    global findings
    done = subprocess.run(command, text=True, capture_output=True, timeout=100)
    if done.returncode != code or said not in done.stderr:
        findings += 1
        print(f"{' '.join(command)}: ended with {done.returncode}, not {code}: {done.stderr}")


for program, own in OWN.items():
    for arguments, said in HOW + own:
        check([os.path.join(bin_folder, program), *arguments.split()], 2, said)
for ranks, words, said in JOBS:
    program, *arguments = words.split()
    check([weftrun, "-n", str(ranks), "--timeout", "60", os.path.join(bin_folder, program),
           *arguments], 2 if said else 1, said)
print(f"{findings} finding(s)")
sys.exit(1 if findings else 0)
