"""Programs over pretended nodes, by node and otherwise: every way gives the same answer.

  by_node_test.py WEFTRUN EXCHANGE WEFT_GRAPH
"""
import os
import re
import subprocess
import sys

WEFTRUN, EXCHANGE, GRAPH = sys.argv[1:]
WATCHDOG_S = 100


def run(transport, nodes, ranks, *command, **settings):
    """Its standard output; ends the test if it failed."""
    environment = {**os.environ, "WEFT_FABRIC_TRANSPORT": transport, **settings}
    done = subprocess.run(
        [WEFTRUN, "-n", str(ranks), "--fake-nodes", str(nodes), "--timeout", str(WATCHDOG_S),
         *command], env=environment, text=True, capture_output=True, timeout=2 * WATCHDOG_S)
    if done.returncode != 0:
        sys.exit(f"{transport}, {nodes} nodes, {ranks} ranks, {command}: exit "
                 f"{done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def found(pattern, text):
    match = re.search(pattern, text)
    if match is None:
        sys.exit(f"no '{pattern}' in:\n{text}")
    return match.group()


def same(what, answers):
    print(f"{what}: {answers}")
    if len(set(answers)) != 1:
        sys.exit(f"{what}: the answers differ")


exchange = [EXCHANGE, "2", "2"]
same("exchange of 4", [found(r"exchange: \d+ messages, 0 wrong, checksum \w+", run(*how, 4, *exchange))
                       for how in (("automatic", 1), ("by_node", 1), ("by_node", 2),
                                   ("by_node", 4), ("shm", 2))])
same("exchange of 3, files, no attach",
     [found(r"exchange: \d+ messages, 0 wrong, checksum \w+",
            run(*how, 3, *exchange, WEFT_FABRIC_SHM_BACKING="file", WEFT_FABRIC_CMA="off"))
      for how in (("automatic", 1), ("by_node", 2))])
graph = [GRAPH, "bfs", "--generate", "kron:12", "--threads", "2", "--verify"]
same("weft-graph of 4", [found(r"checksum +\w+", run(*how, 4, *graph))
                         for how in (("automatic", 1), ("by_node", 2), ("by_node", 4))])
