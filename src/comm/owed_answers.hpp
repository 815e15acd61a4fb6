// Answers for which the control ring had no room, in order for each peer.
//
// Purpose: a put's signal is told once that put and those before it are answered, so that whoever
// gets it need not progress for their sender's sake. Hence no answer overtakes another to its peer.
//
// Who may call: the holder of the device's lock; `empty` anybody. Records: the device's, while they
// are here (docs/design/protocols.md, *Who owns an operation record*).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "comm/operation.hpp"

namespace weft::comm {

class OwedAnswers {
 public:
  [[nodiscard]] bool empty() const noexcept {
    return !some_.load(std::memory_order_relaxed);  // relaxed: a hint, but for who holds the lock
  }
  [[nodiscard]] bool any_to(Rank peer) const noexcept {
    return !empty() && std::any_of(peers_.begin(), peers_.end(),
                                   [peer](const Peer& each) { return each.rank == peer; });
  }
  /// Behind those to the same peer. False: there is no memory, and nothing happened.
  [[nodiscard]] bool add(Operation& op) noexcept {
    op.next = nullptr;
    const auto known = std::find_if(peers_.begin(), peers_.end(),
                                    [&op](const Peer& each) { return each.rank == op.peer; });
    if (known != peers_.end()) {
      known->last->next = &op;
      known->last = &op;
      return true;
    }
    try {
      peers_.push_back({op.peer, &op, &op});
    } catch (const std::bad_alloc&) {
      return false;
    }
    some_.store(true, std::memory_order_relaxed);
    return true;
  }
  /// Calls `pay(op)`, which adds none, for those to each peer until it answers false; how many it
  /// did not. Those leave, and are not touched any more.
  template <class Pay>
  uint32_t pay_all(Pay pay) noexcept {
    uint32_t paid = 0;
    for (std::size_t i = 0; i < peers_.size();) {
      Operation*& first = peers_[i].first;
      while (first != nullptr) {
        Operation* const next = first->next;
        if (!pay(*first)) break;
        first = next;
        ++paid;
      }
      if (first != nullptr) {
        ++i;
      } else {
        peers_[i] = peers_.back();
        peers_.pop_back();
      }
    }
    some_.store(!peers_.empty(), std::memory_order_relaxed);
    return paid;
  }

 private:
  struct Peer {
    Rank rank;
    Operation* first;
    Operation* last;
  };
  std::vector<Peer> peers_;  ///< that do not take answers now
  std::atomic<bool> some_{false};
};

}  // namespace weft::comm
