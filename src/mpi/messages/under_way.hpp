// Blocking calls that are under way on a communicator.
#pragma once

#include "mpi/comm.hpp"
#include "mpi/matching/channel.hpp"

namespace weft::mpi {

/// A blocking call that waits, or may: as long as this exists the communicator stays, whoever
/// frees it (drop_when_unused). Costs two additions to counters of the thread's own, and no count
/// that threads share. May end on another thread than it began on, as tasks do.
///
/// Begins before anybody can know of the call: before what it sends goes, and before its receive is
/// posted, for whoever progresses may match that, which a synchronous sender is told. From then on
/// the communicator and the receive's type may be freed.
class UnderWay {
 public:
  explicit UnderWay(const Comm& comm) noexcept : counts_(counts_of(comm)) { counts_.begin_call(); }
  ~UnderWay() { end(counts_); }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  /// Whether one exists of this communicator.
  [[nodiscard]] static bool any_on(const Comm& comm) noexcept {
    return counts_of(comm).has_calls();
  }

 private:
  /// Out of line: its cell is that of the thread that ends the call, whose address must not be one
  /// that the same frame had before a task's switch.
  [[gnu::noinline]] static void end(ChannelCounts& counts) noexcept { counts.end_call(); }
  static ChannelCounts& counts_of(const Comm& comm) noexcept {
    return comm.channels[static_cast<std::size_t>(Plane::program)]->counts;
  }
  ChannelCounts& counts_;  ///< its channel's, which outlasts it
};

}  // namespace weft::mpi
