// structures [seconds [only]]: the structure benchmarks by themselves, as a table.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "structures.hpp"

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.3;
  for (const auto& one : weft::bench::measure_structures(seconds, argc > 2 ? argv[2] : "")) {
    double low = 1e9, high = 0;
    for (const auto& round : one.rounds) {
      low = std::min({low, round.one_way_before_ns, round.one_way_after_ns});
      high = std::max({high, round.one_way_before_ns, round.one_way_after_ns});
    }
    std::printf("%s/%s, %u threads: %s (%zu rounds, line one-way %.0f-%.0f ns)\n",
                one.structure.c_str(), one.mode.c_str(), one.threads, one.what.c_str(),
                one.rounds.size(), low, high);
    for (std::size_t at = 0; at < one.contestants.size(); ++at) {
      double best = 1e18;
      for (const auto& round : one.rounds) best = std::min(best, round.values[at]);
      std::printf("  %-28s %8.1f ns  best %8.1f  %5.2f x\n", one.contestants[at].c_str(),
                  one.median(at), best, one.ratio(at));
    }
  }
}
