"""docs/mpi-coverage.md: what there is of each MPI function."""
import glob
import os
import re

from tables import HERE, STATES, functions

PROGRAMS = os.path.join(HERE, "..", "..", "..", "tests", "mpi", "programs", "*")

TOP = """\
# MPI functions

Which functions of MPI 5.0 weft has, from the table `src/mpi/abi/functions.txt` by `make docs`.

- **tested**: works, and a test program of `tests/mpi/programs` calls it.
- **implemented**: works; no test calls it by its own name.
- **unsupported**: is there, so that programs load, and answers `MPI_ERR_UNSUPPORTED_OPERATION`.

"(+_c)": with its large-count twin. All have their `PMPI_` name, too.

"""


def page():
    table = functions()
    out = [TOP.rstrip(), "", "| state | functions, twins counted |", "|---|---|"]
    for state in STATES.values():
        out.append(f"| {state} | {sum(len(f.names()) for f in table if f.state == state)} |")
    out.append(f"| all | {sum(len(f.names()) for f in table)} |")
    for group in dict.fromkeys(f.group for f in table):
        out += ["", f"## {group[0].upper()}{group[1:]}", ""]
        for state in STATES.values():
            names = [f"`MPI_{f.name}`{' (+_c)' if f.twin else ''}{' (deprecated)' if f.old else ''}"
                     for f in table if f.group == group and f.state == state]
            if names:
                out += [f"**{state}**: {', '.join(names)}.", ""]
        out.pop()
    return "\n".join(out) + "\n"


def called():
    """The functions that the test programs call, without prefix and _c."""
    names = set()
    for path in glob.glob(PROGRAMS):
        with open(path, encoding="utf-8") as file:
            names |= set(re.findall(r"\bMPI_(\w+?)(?:_c)?\b\s*[(,)]", file.read()))
    return names


def marked():
    """functions.txt with its states `t` and `i` as the test programs are."""
    names = called()
    lines = []
    with open(os.path.join(HERE, "functions.txt"), encoding="utf-8") as table:
        for line in table:
            row = re.match(r"[ti] (\w+) \S+ \S+:", line)
            if row:
                name = re.sub(r"_c$", "", row[1])
                line = ("t" if name in names else "i") + line[1:]
            lines.append(line)
    return "".join(lines)
