// What the engines over stores have in common: two stores, and what is taken out of them.
#pragma once

#include <atomic>
#include <vector>

#include "mpi/matching/arrived.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/matching/stores.hpp"
#include "mpi/transfer.hpp"

namespace weft::mpi {

/// Not thread-safe: each store lies under a lock of the engine.
template <class Store>
class StoreChannel : public Channel {
 protected:
  void take(Entry& entry, Store& from) {
    from.remove(entry);
    taken(entry);
  }
  /// An entry left its store.
  void taken(Entry& entry) noexcept {
    entry.linked = false;
    // relaxed: a hint.
    if (!entry.is_receive) unexpected_.fetch_sub(1, std::memory_order_relaxed);
  }
  template <class Into>
  void add(Entry& entry, Into& to) {
    to.append(entry);
    entry.linked = true;
    if (!entry.is_receive) unexpected_.fetch_add(1, std::memory_order_relaxed);
  }
  void take_posted(bool (*wanted)(void*, const Transfer&), void* argument,
                   std::vector<Transfer*>& into) {
    posted_.for_each([&](Entry& each) {
      auto& receive = static_cast<Transfer&>(each);
      if (!wanted(argument, receive)) return;
      into.push_back(&receive);
      take(each, posted_);
    });
  }
  Arrived* recall_arrived(Rank source, int tag, bool (*is_it)(void*, const Arrived&),
                          void* argument) {
    Arrived* found = nullptr;
    arrived_.for_each([&](Entry& each) {
      auto& message = static_cast<Arrived&>(each);
      if (found != nullptr || message.process != source || message.tag != tag ||
          !is_it(argument, message)) {
        return;
      }
      found = &message;
      take(each, arrived_);
    });
    return found;
  }
  void take_arrived(std::vector<Arrived*>& into) {
    arrived_.for_each([&](Entry& each) {
      into.push_back(static_cast<Arrived*>(&each));
      take(each, arrived_);
    });
  }

  alignas(base::kCacheLine) Store posted_;
  alignas(base::kCacheLine) Store arrived_;
};

}  // namespace weft::mpi
