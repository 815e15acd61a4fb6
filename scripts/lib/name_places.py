#!/usr/bin/env python3
"""Passes on what comes, and names the places in it that stand there as a module and an offset, as
sanitizers print them with symbolize=0:

  #1 0x7f2a18c0  (/path/bin/some_test+0x1a2b3)   becomes   #1 0x7f2a18c0  some::function(int) at source.cpp:12

Ends with 1 if a sanitizer reported something in it: a test that fails so and passes when it is tried again has
found what it was made for.
"""
import functools
import os
import re
import signal
import subprocess
import sys

REPORT = re.compile(rb"WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|: runtime error: ")
PLACE = re.compile(rb"(#(\d+) 0x[0-9a-f]+) +\((/[^ ()]+)\+0x([0-9a-f]+)\)")


@functools.lru_cache(maxsize=4096)
def name(module, offset):
    """What addr2line says, functions that are inlined there included; None: nothing."""
    done = subprocess.run(["addr2line", "-Cfpis", "-e", module, hex(offset)], capture_output=True, check=False)
    said = b", inlined into ".join(line.replace(b"(inlined by) ", b"").strip() for line in done.stdout.splitlines())
    return None if done.returncode or not said or said.startswith(b"??") else said


def named(found):
    # All but the innermost place are where a call returns to: the call is before.
    offset = int(found[4], 16) - (found[2] != b"0")
    said = name(os.fsdecode(found[3]), offset)
    return found[0] if said is None else found[1] + b"  " + said


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever writes to us ends, and then we do
    reports = 0
    for line in iter(sys.stdin.buffer.readline, b""):
        reports += REPORT.search(line) is not None
        sys.stdout.buffer.write(PLACE.sub(named, line))
        sys.stdout.buffer.flush()
    if reports:
        print(f"sanitizers reported {reports} times: see above; it does not help to pass at the next try")
    return 1 if reports else 0


if __name__ == "__main__":
    sys.exit(main())
