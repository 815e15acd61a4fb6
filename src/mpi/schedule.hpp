// Collectives and other sequences of messages, as coroutines: written once, run blocking, in the
// background, or again and again.
//
// docs/design/mpi-schedules.md.
#pragma once

#include <coroutine>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "mpi/comm.hpp"
#include "mpi/request.hpp"
#include "mpi/transfer.hpp"

namespace weft::mpi {

/// A sequence of steps. Lazy: nothing runs before it is given to `run`, `launch` or awaited by
/// another schedule. Throws out of `co_await` what a step threw; a step whose transfers failed
/// throws Failure with the first one's error class.
class [[nodiscard]] Schedule {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;
  explicit Schedule(Handle handle) noexcept : handle_(handle) {}
  Schedule(Schedule&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Schedule& operator=(Schedule&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Schedule();
  [[nodiscard]] Handle handle() const noexcept { return handle_; }

 private:
  Handle handle_;
};

/// Runs it to its end in the calling thread (or task), which waits in each step. Throws Failure.
void run(Schedule schedule);
/// Runs it up to its first wait, and from then on wherever progress finds it (Runtime::defer):
/// `request.transfer` ends with it. `comm` is held until then. A failure's sentence goes to `why`,
/// which must live as long as the request.
void launch(Schedule schedule, Request& request, Comm& comm, std::string& why);

/// What requests of launched schedules have in common: neither MPI_Cancel nor, before the end,
/// MPI_Request_free is allowed (MPI 6.12).
class ScheduleWork : public RequestWork {
 public:
  void cancel(Request& request) override;
  void before_report(Request& request) override;
  bool detach(Request& request) override;

 protected:
  std::string why_;  ///< what failed
};

}  // namespace weft::mpi
