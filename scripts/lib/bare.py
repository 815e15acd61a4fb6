#!/usr/bin/env python3
"""libfabric's own ping-pong, fi_pingpong, between host0 and host1 of tests/jobs/hosts.py, as compare.cpp says it.

  hosts.py 2 bare.py latency|pingpong-bandwidth [--bytes N] [--seconds S]

What the provider does between two programs that do nothing else: half a round trip in us, or the bytes of one in
GB/s; the client's figure. BARE_PROVIDER in the environment names the provider. fi_pingpong counts round trips, not
time: a first run says how many make the time.
"""
import argparse
import json
import os
import subprocess
import sys
import time

FIRST = 200  # round trips
PATIENCE_S = 10


def enter(host, *command):
    return [os.path.join(os.environ["HOSTS_FOLDER"], "enter"), host, *command]


def listens(host, port=47592):
    """The server's control port, as the host's kernel has it."""
    table = subprocess.run(enter(host, "cat", "/proc/net/tcp"), capture_output=True, text=True)
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
               for line in table.stdout.splitlines()[1:])


def half_round_trip(given, rounds):
    """In us."""
    words = ["fi_pingpong", "-e", "rdm", "-p", os.environ.get("BARE_PROVIDER", "net"), "-d", "eth0", "-I",
             str(rounds), "-S", str(given.bytes)]
    server = subprocess.Popen(enter("host0", *words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + PATIENCE_S
        while not listens("host0"):
            if server.poll() is not None or time.monotonic() > until:
                sys.exit(f"fi_pingpong did not begin: {server.stderr.read() if server.poll() is not None else ''}")
            time.sleep(0.01)
        client = subprocess.run(enter("host1", *words, "host0"), capture_output=True, text=True)
    finally:
        server.terminate()
        server.wait()
        server.stderr.close()
    rows = [line.split() for line in client.stdout.splitlines()]
    if client.returncode or len(rows) < 2 or "usec/xfer" not in rows[0]:
        sys.exit(f"fi_pingpong ended with {client.returncode}: {client.stderr.strip() or client.stdout.strip()}")
    return float(rows[1][rows[0].index("usec/xfer")])


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("measure", choices=["latency", "pingpong-bandwidth"])
    options.add_argument("--bytes", type=int, default=8)
    options.add_argument("--seconds", type=float, default=1)
    given = options.parse_args()
    guess = half_round_trip(given, FIRST)
    half = half_round_trip(given, max(FIRST, int(given.seconds * 1e6 / (2 * guess))))
    value, unit = (half, "us") if given.measure == "latency" else (given.bytes / half / 1e3, "GB/s")
    print(json.dumps({"measure": given.measure, "bytes": given.bytes, "threads": 1, "value": value, "unit": unit,
                      "hosts": [1, 1]}))


if __name__ == "__main__":
    main()
