// One benchmark by schedulers of one worker and of more, and how much faster more are.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rounds.hpp"
#include "task.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks {

/// A contest of schedulers that do the same. Rivals are entered into `contest()`. With several
/// workers there is one more whose thieves take half a word instead of a whole one.
class ByWorkers {
 public:
  ByWorkers(const Wanted& wanted, std::function<double(task::Scheduler&)> turn);

  [[nodiscard]] Contest& contest() noexcept { return contest_; }
  /// The fewest workers beside `rivals`, the first of them their limit; more workers beside the
  /// fewest, their limit, and `rivals`; more over one as figures of their own; half words
  /// beside whole ones. `extra` goes to each.
  void print(const std::string& mode, const std::vector<std::size_t>& rivals,
             const nlohmann::ordered_json& extra) const;

 private:
  const Options& options_;
  const std::vector<unsigned> counts_;
  Contest contest_;
  std::vector<std::unique_ptr<task::Scheduler>> schedulers_;
  std::vector<std::size_t> entries_;                ///< in the order of counts_
  std::optional<std::size_t> entry_of_half_words_;  ///< with the most workers
};

}  // namespace weft::bench::tasks
