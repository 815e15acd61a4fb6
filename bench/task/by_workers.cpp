#include "by_workers.hpp"

#include <fmt/format.h>

namespace weft::bench::tasks {

ByWorkers::ByWorkers(const Wanted& wanted, std::function<double(task::Scheduler&)> turn)
    : options_(wanted.options),
      counts_(wanted.workers_or_one_and_two()),
      contest_(counts_.back() > 1) {
  const auto enter = [&](const std::string& name, const task::Options& options) {
    schedulers_.push_back(std::make_unique<task::Scheduler>(options));
    return contest_.enter(name, [turn, at = schedulers_.back().get()] { return turn(*at); });
  };
  for (const unsigned workers : counts_) {
    entries_.push_back(enter(workers == 1 ? "one_worker" : fmt::format("{}_workers", workers),
                             {.workers = static_cast<int>(workers)}));
  }
  if (counts_.back() > 1) {
    entry_of_half_words_ = enter("half_words", {.workers = static_cast<int>(counts_.back()),
                                                .steal = task::Steal::half_word});
  }
}

void ByWorkers::print(const std::string& mode, const std::vector<std::size_t>& rivals,
                      const nlohmann::ordered_json& extra) const {
  const auto print_with = [&](std::vector<Result> results) {
    for (Result& result : results) result.extra.update(extra);
    print_all(results, options_);
  };
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    std::vector<std::size_t> who{entries_[i]};
    if (i != 0) who.push_back(entries_[0]);
    who.insert(who.end(), rivals.begin(), rivals.end());
    print_with(contest_.results(form(mode, counts_[i]), who));
  }
  if (entry_of_half_words_) {
    print_with(contest_.results(form(mode + "_half_words", counts_.back()),
                                {*entry_of_half_words_, entries_.back()}));
  }
  for (std::size_t i = 1; i < counts_.size() && counts_.front() == 1; ++i) {
    Result speedup =
        figure("task", fmt::format("{}_{}_over_1", mode, counts_[i]), "x", Better::higher);
    speedup.threads = counts_[i];
    print_with(contest_.speedups(speedup, entries_[i], entries_[0]));
  }
}

}  // namespace weft::bench::tasks
