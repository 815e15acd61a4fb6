"""What goes between hosts of tests/jobs/hosts.py, counted by their kernels: the same for every library.

Counted are TCP segments with PSH, which Linux sets at the end of what a program writes at once: as a rule one for each
message of a network library, and none for a bare acknowledgement. What a library says beside its messages (credit, say)
counts, too; two messages written at once count as one, and large ones are written in several pieces.
"""
import json
import os
import subprocess

TABLE = "inet compare"
RULES = f"""add table {TABLE}
delete table {TABLE}
add table {TABLE}
add chain {TABLE} out {{ type filter hook output priority 0; }}
add rule {TABLE} out oifname eth0 tcp flags & psh == psh counter
"""


def nft(host, *words, text=None):
    enter = os.path.join(os.environ["HOSTS_FOLDER"], "enter")
    return subprocess.run([enter, host, "nft", *words], input=text, capture_output=True, text=True, check=True).stdout


class Counter:
    """Of all hosts, from now on; there is one at a time. It goes with the hosts."""

    def __init__(self, hosts):
        self.hosts = hosts
        for host in hosts:
            nft(host, "-f", "-", text=RULES)

    def sent(self):
        """Segments, by all of them."""
        counters = [part["counter"]["packets"] for host in self.hosts
                    for entry in json.loads(nft(host, "-j", "list", "table", *TABLE.split()))["nftables"]
                    for part in entry.get("rule", {}).get("expr", []) if "counter" in part]
        return sum(counters)
