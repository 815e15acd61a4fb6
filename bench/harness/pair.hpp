// The two ranks that a benchmark runs between: joining, or starting, the job they are.
#pragma once

#include <memory>

#include "harness/yard.hpp"
#include "weft/fabric/job.hpp"

namespace weft::bench {

/// This process as one of two ranks. One per process.
class Pair {
 public:
  /// Joins the job of this process; throws if it is not one of two ranks on one node.
  Pair();

  [[nodiscard]] fabric::Job& job() const noexcept { return *job_; }
  [[nodiscard]] Yard& yard() noexcept { return *yard_; }
  [[nodiscard]] int rank() const noexcept { return yard_->side(); }
  [[nodiscard]] Rank peer() const noexcept { return Rank{1 - yard_->side()}; }
  [[nodiscard]] bool leads() const noexcept { return rank() == 0; }
  void meet() noexcept { yard_->meet(); }

  /// The first of the processors that this rank, or the other, may run on.
  [[nodiscard]] int core() const noexcept { return core_; }
  [[nodiscard]] int peer_core() const noexcept { return peer_core_; }
  /// The other rank's process number.
  [[nodiscard]] int peer_pid() const noexcept { return peer_pid_; }
  /// Each rank has processors of its own: one, or its share of them.
  [[nodiscard]] bool bound_apart() const noexcept { return core_ != peer_core_; }

 private:
  std::unique_ptr<fabric::Job> job_;
  std::unique_ptr<Yard> yard_;
  int core_ = -1;
  int peer_core_ = -1;
  int peer_pid_ = 0;
};

/// True if a launcher started this process as a rank.
bool started_by_launcher();

/// What weftrun binds a rank to: one processor, or its share of all.
enum class Bound { core, share };

/// Replaces this process by `weftrun -n ranks --bind bound <this program> <same arguments>`, with
/// the weftrun that lies beside it. Returns only on failure, having said why.
void start_under_weftrun(int ranks, Bound bound, char** arguments);

/// Folder of the running program.
std::string program_folder();
std::string program_path();

}  // namespace weft::bench
