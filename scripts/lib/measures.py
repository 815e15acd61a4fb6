"""What scripts/compare measures: each measure's name, arguments of bench/mpi/compare.cpp, and what is to be
reached. What they are: docs/benchmarks.md.
"""
import dataclasses
import itertools
import os

CORES = len(os.sched_getaffinity(0))
# By size of what each rank gives to, or gets from, another.
COLLECTIVES = ("barrier", *(f"{name}-{size}" for size in ("8", "64K") for name in ("allreduce", "bcast")),
               *(f"{name}-8" for name in ("reduce", "gather", "gatherv", "scatter", "scatterv", "allgather",
                                          "alltoall", "alltoallv", "reduce-scatter")), "alltoall-1K")
# On one node long ones, too.
ON_A_NODE = (*COLLECTIVES, "allreduce-256K", "bcast-256K",
             *(f"{name}-{size}" for name in ("reduce", "gather", "scatter", "allgather", "alltoall", "reduce-scatter")
               for size in ("64K", "256K")))
# Measures between hosts, unless others are asked for; where a host has several ranks, collectives.
BETWEEN_HOSTS = ["latency", "rate", "pingpong-64K", "pingpong-1M", "pingpong-4M", "bandwidth-64K", "bandwidth-1M",
                 "bandwidth-4M", "bandwidth-mt", "pairwise", "pingpong", "latency-mt", *COLLECTIVES,
                 "latency-iprobe"]
# What is to be reached there, and nothing else: of the best rival, and of what libfabric does alone.
BETWEEN_HOSTS_REACH = {"latency": 0.9, "rate": 2, "pairwise T=64": 10}
BETWEEN_HOSTS_BARE = {"latency": 1.2, "pingpong-1M": 0.95}
COLLECTIVES_REACH = 1.5  # times as fast, where hosts have several ranks each


@dataclasses.dataclass
class Measure:
    name: str             # as --only names it
    arguments: list       # of compare.cpp
    unit: str
    threads: int = 1
    bytes: int = 8
    length: int = 0       # of the queue, for depth
    reach: float = None   # a factor of the best rival
    bound: float = None   # at most so much, whatever rivals do
    fairness: float = None
    ranks: int = 2
    yielding: bool = False  # of several threads, which may outnumber cores
    engines: tuple = ()     # of weft's matching that always run beside the default
    program: str = ""       # weft alone, by this program of its own instead of compare.cpp
    environment: dict = None  # weft alone, with these settings; what it counted is kept, too
    label: str = ""         # what they are
    bare: bool = False      # libfabric's own ping-pong does the same, between hosts
    bare_reach: float = None  # a factor of that
    hosts: int = 1
    per_host: int = 1       # ranks, in blocks

    @property
    def lower(self):
        return self.unit in ("us", "MiB")

    @property
    def key(self):
        parts = [self.name]
        parts += [f"Q={self.length}"] if self.name.startswith("depth") else []
        parts += [f"T={self.threads}"] if self.yielding or self.name == "processes" else []
        parts += [f"P={self.ranks}"] if self.name in ON_A_NODE else []
        parts += [self.label] if self.label else []
        return " ".join(parts)

    @property
    def crowded(self):
        """Threads, or ranks, may outnumber cores: settings that yield are tried."""
        return self.yielding or self.per_host > 1 or self.outnumbers

    @property
    def outnumbers(self):
        """More ranks on a machine than cores."""
        return self.hosts == 1 and self.ranks > CORES

    @property
    def weft_only(self):
        return self.name == "processes" or self.environment is not None or self.program != ""


def measures(threads):
    found = []

    def add(name, arguments, unit, size=8, **more):
        how = "--size" if "program" in more else "--bytes"
        found.append(Measure(name, [*arguments, how, str(size)], unit, bytes=size, **more))

    def with_threads(name, arguments, unit, counts, reach=None, **more):
        for count in counts:
            add(name, [*arguments, "--threads", str(count)], unit, threads=count, yielding=True,
                reach=(reach or {}).get(count), **more)

    add("latency", ["latency"], "us", reach=0.8, bare=True)
    add("rate", ["rate"], "M/s", reach=2)
    add("wildcard", ["wildcard"], "M/s")
    lengths = ((1 << 12, "4K"), (1 << 14, "16K"), (1 << 16, "64K"), (1 << 20, "1M"), (1 << 22, "4M"))
    for size, name in lengths:
        add(f"bandwidth-{name}", ["bandwidth"], "GB/s", size, reach=1 if size >= 1 << 16 else None)
    for size, name in lengths:
        add(f"pingpong-{name}", ["pingpong-bandwidth"], "GB/s", size, bare=True)
    with_threads("bandwidth-mt", ["bandwidth"], "GB/s", [count for count in threads if count <= 64],
                 size=1 << 16)
    with_threads("pairwise", ["pairwise"], "M/s", threads, {64: 8, 1024: 20})
    for measure in found:
        if measure.name == "pairwise" and measure.threads == 64:
            measure.fairness = 0.5
    with_threads("pairwise-own", ["pairwise", "--own-comms"], "M/s", threads, {64: 2})
    some = [count for count in threads if count in (64, 1024)] or threads[-1:]
    with_threads("pairwise-0B", ["pairwise"], "M/s", some, size=0)
    with_threads("pairwise-overtaking", ["pairwise", "--overtaking"], "M/s", some)
    with_threads("pingpong", ["pingpong"], "k/s", threads, {64: 1.2, 1024: 1.5})
    for measure in found:
        if measure.name == "pingpong" and measure.threads == 64:
            measure.fairness = 0.5
    with_threads("pingpong-tasks", ["pingpong", "--tasks"], "k/s", some, {64: 8, 1024: 15})
    add("latency-ssend", ["latency-ssend"], "us")
    with_threads("rounds", ["rounds", "--window", "10"], "us",
                 [count for count in threads if 1 < count <= 64])
    with_threads("rounds-1", ["rounds", "--window", "1"], "us",
                 [count for count in threads if 1 < count <= 64])
    with_threads("allreduce-mt", ["allreduce-mt"], "k/s", [count for count in threads if count <= 64])
    with_threads("latency-mt", ["latency-mt"], "us", threads, {64: 0.6, 1024: 0.6})
    with_threads("latency-mt-tasks", ["latency-mt", "--tasks"], "us", some)
    for length in (0, 1, 32, 1024, 8192):
        for count in (1, 2, 8):
            with_threads("depth", ["depth", "--length", str(length)], "M/s", [count],
                         {1: 40} if length == 1024 else None, length=length,
                         engines=("list", "tail"))
    for length in (0, 1, 32, 1024, 8192):
        with_threads("depth-both", ["depth", "--length", str(length), "--unexpected", str(length)],
                     "M/s", [1, 2, 8], length=length)
    for length in (0, 32, 1024):  # 003 Fig. 8
        add("depth-cold", ["depth", "--length", str(length), "--unexpected", str(length), "--cold"],
            "M/s", length=length, engines=("list", "tail"))
    for application, posted, unexpected in QUEUE_SHAPES:
        with_threads("shapes", ["depth", "--length", str(posted), "--unexpected", str(unexpected)],
                     "M/s", [1, 2], length=posted, label=application, engines=("list", "tail"))
    sizes = {"8": 8, "1K": 1 << 10, "64K": 1 << 16, "256K": 1 << 18}
    for ranks in dict.fromkeys((2, 8, max(8, CORES))):
        for each in ON_A_NODE:
            call, _, size = each.rpartition("-") if each != "barrier" else (each, "", "8")
            add(each, [call], "us", sizes[size], ranks=ranks)
    add("flood", ["flood"], "MiB", 1024, bound=256)
    for count in threads:
        if count in (1, 2, 8, 64):
            add("processes", ["rate"], "M/s", threads=count, ranks=2 * count)
    # Receivers that do not know what comes (000 Fig. 3.2), beside `latency` and `rate`.
    for how in ("iprobe", "improbe"):
        add(f"latency-{how}", [f"latency-{how}"], "us")
        add(f"rate-{how}", [f"rate-{how}"], "M/s")
    add("latency-queue", ["latency", "--mode", "queue"], "us", program="weft-bench")
    add("rate-queue", ["rate", "--mode", "queue"], "M/s", program="weft-bench")
    # The more threads, the fewer messages has each under way (000 Fig. 5.17; Table 5.3).
    for count in (1, 2, 4, 8, 16, 32, 64):
        if count > max(threads):
            break
        window = ["--exact", "--window", str(128 // count)]
        with_threads("shrinking", ["pairwise", *window], "M/s", [count], engines=("list", "hash"))
        with_threads("shrinking-tasks", ["pairwise", "--tasks", *window], "M/s", [count],
                     engines=("list", "hash"))
    return found + grid(GRID_THREADS)


# What applications' searches pass at most among posted receives and unexpected messages, with 4,096
# processes (003 Table 2).
QUEUE_SHAPES = [("miniMD", 1, 8), ("AMG", 543, 260), ("FDS", 24, 8073)]
GRID_THREADS = 16


def grid(threads):
    """Progress x communicators x devices x their assignment x wildcard (002 Figs 3, 4, Table II)."""
    found = []
    for progress, wildcard, comms, devices, assignment in itertools.product(
            ("serial", "concurrent"), ("", "any-tag"), ("", "own-comms"), (1, threads // 2, threads),
            ("round-robin", "dedicated")):
        if devices == 1 and assignment == "round-robin":
            continue  # the same
        words = [f"--{word}" for word in (wildcard, comms) if word]
        label = " ".join(filter(None, (progress, f"D={devices}", assignment, comms, wildcard)))
        found.append(Measure(
            "grid", ["pairwise", "--threads", str(threads), *words], "M/s", threads=threads,
            yielding=True, label=label,
            environment={"WEFT_COMM_SERIAL_PROGRESS": str(progress == "serial").lower(),
                         "WEFT_COMM_DEVICES": str(devices), "WEFT_MPI_DEVICES": assignment,
                         "WEFT_MPI_STATS": "1"}))
    return found


def between_hosts(measure, hosts, per_host):
    """The same between two ranks on hosts of their own, or, of collectives, with so many ranks on each of all
    hosts."""
    if measure.name not in ON_A_NODE:
        return dataclasses.replace(measure, reach=BETWEEN_HOSTS_REACH.get(measure.key), fairness=None,
                                   bare_reach=BETWEEN_HOSTS_BARE.get(measure.key), hosts=2)
    return dataclasses.replace(measure, ranks=hosts * per_host, hosts=hosts, per_host=per_host,
                               reach=1 / COLLECTIVES_REACH if per_host > 1 else None)


# Of weft's own figures: what it says, numerator, denominator (key and engine), and the factor to reach. (Two threads that
# match on two cores: `weft-bench matching`. Here a rank has one core.)
AMONG_OWN = [
    ("depth Q=1024: default / list", ("depth Q=1024 T=1", ""), ("depth Q=1024 T=1", "list"), 40),
    *((f"T={t}: threads / processes", (f"pairwise T={t}", ""), (f"processes T={t}", ""), 0.9)
      for t in (1, 2, 8, 64)),
    *((f"latency-mt: T=1 / {t} tasks", ("latency-mt T=1", ""), (f"latency-mt-tasks T={t}", ""), 0.5)
      for t in (64, 1024)),
]
