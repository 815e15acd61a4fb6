// The PMIx server inside weftrun: what the ranks join, fence and publish through.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "weftrun/spawn.hpp"

namespace weft::run {

/// Lifetime: one per process, made after the guardian because it starts threads; lives until the
/// process ends, because the library cannot always be ended.
/// Who may call: the main thread. PMIx's own thread only leaves Events behind, and rings `fd`.
class PmixServer {
 public:
  struct Plan {
    int ranks = 1;
    int fake_nodes = 1;
    std::string temp_dir;
    std::string host;
  };
  /// Throws std::runtime_error.
  explicit PmixServer(const Plan& plan);
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  /// What every rank needs in its environment, PMIX_RANK apart.
  [[nodiscard]] std::vector<std::string> environment() const;

  struct Event {
    enum Kind { finalized, aborted };
    Kind kind = finalized;
    int rank = 0;
    int code = 0;                   ///< aborted
    std::string text;               ///< aborted: why
    std::function<void()> release;  ///< aborted: lets the rank, which waits for it, exit
  };
  /// Readable when there are events.
  [[nodiscard]] int fd() const noexcept { return bell_.get(); }
  std::optional<Event> next_event();

  /// Tells the ranks that are left that `rank` died, and how (a wait(2) status).
  void tell_death(int rank, int status, const std::string& how);
  /// Tells them that it left the job in order: no fence can end any more.
  void tell_left(int rank);

 private:
  struct Callbacks;

  void notify(int code, int rank, const std::string& text);
  void push(Event event);

  std::string nspace_;
  std::mutex lock_;
  std::deque<Event> events_;  ///< under lock_
  Fd bell_;
};

}  // namespace weft::run
