"""scripts/lib/name_places.py names a place of a program, and passes on all else as it is.

  check_name_places.py PROGRAM
"""
import os
import subprocess
import sys

from house import ROOT, finish


def main():
    program = os.path.realpath(sys.argv[1])
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.splitlines()
    start = next(int(line.split()[0], 16) for line in symbols if line.endswith(" T main"))
    other = "    #2 0x7f00  (/nowhere/at/all+0x12)\n    #3 is no place (not+here)\nall else \u00e4\n"
    given = f"    #0 0x55aa  ({program}+{start:#x})\n    #1 0x55ab  ({program}+{start + 1:#x})\n" + other
    done = subprocess.run([os.path.join(ROOT, "scripts/lib/name_places.py")], input=given, capture_output=True,
                          text=True, check=True)
    lines = done.stdout.splitlines(keepends=True)
    right = all("  main" in line for line in lines[:2]) and "".join(lines[2:]) == other
    report = subprocess.run([os.path.join(ROOT, "scripts/lib/name_places.py")], capture_output=True, text=True,
                            input="WARNING: ThreadSanitizer: data race (pid=1)\n", check=False)
    right = right and report.returncode == 1 and "reported 1 times" in report.stdout
    finish([] if right else [f"said of\n{given}was\n{done.stdout}{done.stderr}"], "two places")


if __name__ == "__main__":
    main()
