// Every benchmark's entry: what `weft-bench NAME` calls. The answer is the process's exit code.
#pragma once

#include "harness/options.hpp"

namespace weft::bench {

// Between two ranks, started by weftrun.
int run_limits(const Options& options);
int run_latency(const Options& options);
int run_explain(const Options& options);
int run_rate(const Options& options);
int run_bandwidth(const Options& options);
int run_pingpong(const Options& options);
int run_talk(const Options& options);
int run_flood(const Options& options);
int run_idle(const Options& options);
int run_counters(const Options& options);
int run_receives(const Options& options);

// One process that starts jobs by itself.
int run_start(const Options& options);
int run_structures(const Options& options);
int run_locks(const Options& options);
int run_windows(const Options& options);
int run_matching(const Options& options);
int run_memory(const Options& options);
int run_quick(const Options& options);
int run_all(const Options& options);
int run_scaling(const Options& options);
int run_report(const Options& options);
int run_compare(const Options& options);

// What a rank of those jobs does.
int run_hello(const Options& options);
int run_resident(const Options& options);

}  // namespace weft::bench
