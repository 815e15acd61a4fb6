// Memory of an idle rank.
//
// Measured: VmRSS of each rank as the kernel counts it, in bytes, after it joined, exchanged 8
// bytes with its two neighbours, passed a barrier and then did nothing for 0.2 s: the median over
// the ranks of one job of 2 and of 64 ranks, with PSS, private and shared parts beside it. `growth`
// is the difference of the two medians over the 62 ranks between them.
// Limits: 16 MiB, and 64 KiB a rank.
// It lies where it counts the pages of shared libraries, code included, in every rank's VmRSS (PSS
// does not); neighbours are two, so per-peer state of an all-to-all program is not in it.
#include <fmt/format.h>

#include <sstream>

#include "comm/benches.hpp"
#include "comm/session.hpp"
#include "harness/process.hpp"
#include "harness/result.hpp"

namespace weft::bench {
namespace {

struct Sizes {
  Summary resident, anonymous, shared, proportional;
};

Sizes measure(unsigned ranks) {
  const auto run = run_program({program_folder() + "/weftrun", "-n", std::to_string(ranks),
                                "--bind", "none", program_path(), "resident"},
                               120);
  if (run.code != 0) {
    throw std::runtime_error(fmt::format("weftrun -n {} ended with {}", ranks, run.code));
  }
  std::vector<double> columns[4];
  std::istringstream lines(run.output);
  for (std::string word; lines >> word && word == "resident";) {
    for (auto& column : columns) lines >> column.emplace_back();
  }
  if (columns[0].size() != ranks) throw std::runtime_error("not every rank told its memory");
  return {summarize(columns[0]), summarize(columns[1]), summarize(columns[2]),
          summarize(columns[3])};
}

Result form(std::string mode, double limit, std::string limit_name) {
  Result result = figure("memory", std::move(mode), "B", Better::lower);
  result.limit_name = std::move(limit_name);
  result.limit = Summary{limit, limit, limit, 1};
  return result;
}

void finish(Result& result, const Summary& value, bool json) {
  const double limit = result.limit->median;
  result.value = value;
  result.ratio =
      Summary{value.median / limit, value.low / limit, value.high / limit, value.samples};
  print(result, json);
}

}  // namespace

int run_resident(const Options&) {
  {
    Runtime runtime;
    Endpoint endpoint(runtime, {});
    const int ranks = runtime.size();
    const int rank = runtime.rank().value;
    uint64_t word = 1;
    Synchronizer arrived(2);
    uint64_t in[2];
    const Rank left{(rank + ranks - 1) % ranks};
    const Rank right{(rank + 1) % ranks};
    const Rank from[2]{left, right};
    for (uint32_t side = 0; side < 2; ++side) {
      const Post answer = until_posted(runtime, [&] {
        return endpoint.recv(from[side], Tag{side}, std::as_writable_bytes(std::span(&in[side], 1)),
                             &arrived);
      });
      if (answer == Post::done) arrived.arrive();
    }
    (void)endpoint.send_wait(right, Tag{0}, std::as_bytes(std::span(&word, 1)));
    (void)endpoint.send_wait(left, Tag{1}, std::as_bytes(std::span(&word, 1)));
    runtime.wait(arrived);
    runtime.barrier();
    sleep_for_seconds(0.2);
    const ProcessMemory memory = process_memory();
    fmt::print("resident {} {} {} {}\n", memory.resident, memory.anonymous, memory.shared,
               memory.proportional);
    std::fflush(stdout);
    runtime.barrier();
  }
  return 0;
}

int run_memory(const Options& options) {
  const std::vector<unsigned> counts =
      options.ranks != 0 ? std::vector<unsigned>{options.ranks} : std::vector<unsigned>{2, 64};
  std::vector<Summary> resident;
  for (const unsigned ranks : counts) {
    const Sizes sizes = measure(ranks);
    Result result = form(fmt::format("idle_rank_of_{}", ranks), 16.0 * 1048576, "16_MiB");
    result.extra["anonymous"] = sizes.anonymous.median;
    result.extra["shared"] = sizes.shared.median;
    result.extra["proportional"] = sizes.proportional.median;
    finish(result, sizes.resident, options.json);
    resident.push_back(sizes.resident);
  }
  if (resident.size() < 2) return 0;
  const double between = counts[1] - counts[0];
  const double growth = (resident[1].median - resident[0].median) / between;
  const double noise = (resident[1].spread() + resident[0].spread()) / between;
  Result result = form("growth_per_rank", 65536, "64_KiB");
  finish(result, Summary{growth, growth - noise, growth + noise, resident[1].samples},
         options.json);
  return 0;
}

}  // namespace weft::bench
