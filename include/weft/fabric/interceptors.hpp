// Trouble on purpose: wrappers that can be stacked on any transport, for tests.
//
// Each takes a transport and gives one back that behaves as the contract allows but as a lucky run
// never would. Random ones are seeded: the same seed makes the same decisions in the same order of
// calls. A wrapped port that keeps something back keeps its bell ringing, so that nobody sleeps
// over it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "weft/base/types.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

/// Answers `retry` to a share of the sends, 0 ≤ `share` < 1, without asking the transport.
std::unique_ptr<Transport> refuse(std::unique_ptr<Transport> inner, double share, uint64_t seed);

/// Offers frames only after 0 to `most_polls` further polls. Order within a lane stays; lanes are
/// delayed apart from each other, and control frames apart from messages.
std::unique_ptr<Transport> delay(std::unique_ptr<Transport> inner, uint32_t most_polls,
                                 uint64_t seed);

/// Lets a port rest for 0 to `most_polls` polls, again and again, so that frames sent to different
/// ports overtake each other.
std::unique_ptr<Transport> reorder_ports(std::unique_ptr<Transport> inner, uint32_t most_polls,
                                         uint64_t seed);

/// Stops ranks as SIGSTOP would, and lets them go on. Shared by the wrappers of all ranks of a
/// process. Any thread may call.
class StopSwitch {
 public:
  void stop(Rank rank);
  void resume(Rank rank);
  [[nodiscard]] bool is_stopped(Rank rank) const;

 private:
  friend class StoppedPort;
  void join(Port* port);
  void leave(Port* port);
  mutable std::mutex lock_;
  std::set<int32_t> stopped_;
  std::set<Port*> ports_;  // to be woken by resume
};

/// While `self` is stopped, its sends answer retry and its polls bring nothing; while a peer is
/// stopped, what it sent before waits.
std::unique_ptr<Transport> stoppable(std::unique_ptr<Transport> inner, Rank self,
                                     std::shared_ptr<StopSwitch> stops);

}  // namespace weft::fabric
