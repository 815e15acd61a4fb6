// Answers for which a peer's control ring had no room, in order for each of its ports.
//
// Purpose: a put's signal is told once that put and those before it are answered, so that whoever
// gets it need not progress for their sender's sake. Hence none of a device's answers overtakes
// another to the same port (but Endpoint::took, which tells of no put).
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
  [[nodiscard]] bool any_to(Rank peer, uint16_t port) const noexcept {
    return !empty() && std::any_of(lines_.begin(), lines_.end(), [&](const Line& each) {
      return each.peer == peer && each.port == port;
    });
  }
  /// Behind those to the same port. False: there is no memory, and nothing happened.
  [[nodiscard]] bool add(Operation& op) noexcept {
    op.next = nullptr;
    const auto known = std::find_if(lines_.begin(), lines_.end(), [&op](const Line& each) {
      return each.peer == op.peer && each.port == op.reply_port;
    });
    if (known != lines_.end()) {
      known->last->next = &op;
      known->last = &op;
      return true;
    }
    try {
      lines_.push_back({op.peer, op.reply_port, &op, &op});
    } catch (const std::bad_alloc&) {
      return false;
    }
    some_.store(true, std::memory_order_relaxed);
    return true;
  }
  /// Calls `pay(op)`, which adds none, for those to each port until it answers false; how many it
  /// did not. Those leave, and are not touched any more.
  template <class Pay>
  uint32_t pay_all(Pay pay) noexcept {
    uint32_t paid = 0;
    for (std::size_t i = 0; i < lines_.size();) {
      Operation*& first = lines_[i].first;
      while (first != nullptr) {
        Operation* const next = first->next;
        if (!pay(*first)) break;
        first = next;
        ++paid;
      }
      if (first != nullptr) {
        ++i;
      } else {
        lines_[i] = lines_.back();
        lines_.pop_back();
      }
    }
    some_.store(!lines_.empty(), std::memory_order_relaxed);
    return paid;
  }

 private:
  struct Line {
    Rank peer;
    uint16_t port;
    Operation* first;
    Operation* last;
  };
  std::vector<Line> lines_;  ///< to ports that do not take answers now
  std::atomic<bool> some_{false};
};

}  // namespace weft::comm
