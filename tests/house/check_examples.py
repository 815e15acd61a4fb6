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
ways = os.path.join(bin_folder, "ways")
for ranks in 1, 2, 3:
    printed = lines_of(weftrun, "-n", str(ranks), "--timeout", "60", ways)
    expected = [f"100 bytes handled, a key from rank {rank}, signal 7" for rank in range(ranks)]
    if printed != expected:
        findings.append(f"ways with {ranks} rank(s) printed {printed}, not {expected}")
for arguments, start in (((), "100000 conversations, 10 questions each: "),
                         (("3000", "3"), "3000 conversations, 3 questions each: ")):
    printed = lines_of(weftrun, "-n", "2", "--timeout", "60",
                       os.path.join(bin_folder, "conversations"), *arguments)
    if len(printed) != 1 or not printed[0].startswith(start):
        findings.append(f"conversations {arguments} printed {printed}")
for ranks in 1, 2, 4:
    expected = f"{4 * ranks} threads added 500 times each: all of it is there"
    # Once with so few cells that answers find no room.
    for cells in "", "WEFT_FABRIC_LANE_CELLS=8":
        printed = lines_of(weftrun, "-n", str(ranks), "--timeout", "60", "env", *cells.split(),
                           os.path.join(bin_folder, "table"), "500")
        if printed != [expected]:
            findings.append(f"table with {ranks} rank(s) printed {printed}, not {expected}")


def heat_on_average(size, steps):
    """The same as the example, without tasks, ranks or strips."""
    now = [[100.0] * (size + 2)] + [[0.0] * (size + 2) for _ in range(size + 1)]
    for _ in range(steps):
        rows = [[0.0] + [(now[r - 1][c] + now[r + 1][c] + now[r][c - 1] + now[r][c + 1]) / 4
                         for c in range(1, size + 1)] + [0.0] for r in range(1, size + 1)]
        now = [now[0], *rows, now[-1]]
    return sum(map(sum, now[1:-1])) / size / size


heat = os.path.join(bin_folder, "heat")
expected = f"50 steps on a plate of 30 x 30: {heat_on_average(30, 50):.6f} degrees on average"
for ranks in 1, 2, 3, 30:
    printed = lines_of(weftrun, "-n", str(ranks), "--timeout", "60", heat, "30", "50")
    if printed != [expected]:
        findings.append(f"heat with {ranks} rank(s) printed {printed}, not {expected}")

# Rows that are longer than comm.eager_bytes, which go only once their receiver waits for them.
expected = f"3 steps on a plate of 40 x 40: {heat_on_average(40, 3):.6f} degrees on average"
for ranks in 2, 4:
    printed = lines_of(weftrun, "-n", str(ranks), "--timeout", "60",
                       "env", "WEFT_COMM_EAGER_BYTES=256", heat, "40", "3")
    if printed != [expected]:
        findings.append(f"heat with long rows and {ranks} ranks printed {printed}, not {expected}")

# Bad arguments are refused with a sentence that says what good ones are.
for program in "heat", "conversations", "table":
    for arguments in ("0",), ("30", "many"), ("30", "50", "7"), ("-3",), ("99999999999",), ("3x",):
        done = subprocess.run([os.path.join(bin_folder, program), *arguments], text=True,
                              capture_output=True)
        if done.returncode != 2 or not done.stderr.startswith(f"{program} ["):
            findings.append(f"{program} {arguments}: ended with {done.returncode}: {done.stderr}")
alone = subprocess.run([os.path.join(bin_folder, "conversations")], text=True, capture_output=True)
if alone.returncode != 2 or "weftrun -n 2" not in alone.stderr:
    findings.append(f"conversations alone: ended with {alone.returncode}: {alone.stderr}")
finish(findings, "5 examples")
