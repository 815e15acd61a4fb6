// Tail queues (003 §3, Alg. 2): posted receives and unexpected messages under locks of their own,
// so that a receive that is posted and a message that arrives search at the same time; what is
// added goes into an inbox, the queue's tail, and the two tails have one lock of their own.
//
// Locks and what they guard: those of `posted_` (PRQL) and of `arrived_` (UMQL), which are the
// queues' own (queues.hpp); `tail_lock_` (TL): `posted_tail_`, `arrived_tail_`. Order: those of one
// queue, then the tails'. Invariants
//
// 1. All of a queue's tail is younger than all of the queue.
// 2. Two that fit never wait both: no receive of `posted_tail_` fits a message that waits and that
//    its poster did not see, since it searched `arrived_`, whose end it had locked, and then the
//    tail, under the lock under which it joined its own. The same the other way round.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/matching/arrived.hpp"
#include "mpi/matching/queues.hpp"
#include "mpi/matching/store_channel.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::mpi {

template <class Queue>
class TailChannel final : public StoreChannel<Queue> {
 public:
  Arrived* post(Transfer& receive) override {
    receive.is_receive = true;
    return static_cast<Arrived*>(meet(receive, arrived_, arrived_tail_, &posted_tail_));
  }
  Transfer* take_receive(Rank source, int tag) override {
    Entry message = key_of(source, tag);
    return static_cast<Transfer*>(meet(message, posted_, posted_tail_, nullptr));
  }
  Transfer* arrive(Arrived& message) override {
    return static_cast<Transfer*>(meet(message, posted_, posted_tail_, &arrived_tail_));
  }
  bool withdraw(Transfer& receive) override {
    const HoldAll queue(posted_);
    const Guard tail(tail_lock_);
    if (!receive.linked) return false;
    empty_tail(posted_, posted_tail_);
    this->take(receive, posted_);
    return true;
  }
  bool find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) override {
    const auto look_at = [&](Entry& found) {
      look(argument, static_cast<const Arrived&>(found));
      return false;
    };
    return seek(key_of(source, tag), look_at) != nullptr;
  }
  Arrived* extract(Rank source, int tag) override {
    return static_cast<Arrived*>(seek(key_of(source, tag), [&](Entry& found) {
      this->taken(found);
      return true;
    }));
  }
  Arrived* recall(Rank source, int tag, bool (*is_it)(void*, const Arrived&),
                  void* argument) override {
    const HoldAll queue(arrived_);
    const Guard tail(tail_lock_);
    empty_tail(arrived_, arrived_tail_);
    return this->recall_arrived(source, tag, is_it, argument);
  }
  void take_receives(bool (*wanted)(void*, const Transfer&), void* argument,
                     std::vector<Transfer*>& into) override {
    const HoldAll queue(posted_);
    const Guard tail(tail_lock_);
    empty_tail(posted_, posted_tail_);
    this->take_posted(wanted, argument, into);
  }
  void take_messages(std::vector<Arrived*>& into) override {
    const HoldAll queue(arrived_);
    const Guard tail(tail_lock_);
    empty_tail(arrived_, arrived_tail_);
    this->take_arrived(into);
  }

 private:
  using Guard = typename Queue::Lock::Guard;
  using HoldAll = typename Queue::HoldAll;

  /// (the queue's end, the tails) The tail joins its queue.
  static void empty_tail(Queue& queue, ListStore& tail) {
    while (Entry* const each = tail.pop()) queue.append(*each);
  }
  /// (the same) Up to the first that fits, which is taken out instead. The rest waits in the tail,
  /// whose order it keeps.
  Entry* search_tail(const Entry& wanted, uint64_t& passed, Queue& queue, ListStore& tail) {
    while (Entry* const each = tail.pop()) {
      if (fit(*each, wanted)) {
        this->taken(*each);
        return each;
      }
      queue.append(*each);
      ++passed;
    }
    return nullptr;
  }
  /// The oldest of a queue and its tail that fits, taken out; else `entry` joins `otherwise`, if
  /// there is one.
  Entry* meet(Entry& entry, Queue& queue, ListStore& tail, ListStore* otherwise) {
    const auto take = [&](Entry& met) {
      this->taken(met);
      return true;
    };
    uint64_t passed = 0;
    Entry* const met = queue.search(entry, passed, take, [&]() -> Entry* {
      const Guard tails(tail_lock_);
      Entry* const in_tail = search_tail(entry, passed, queue, tail);
      if (in_tail == nullptr && otherwise != nullptr) this->add(entry, *otherwise);
      return in_tail;
    });
    this->note_passed(passed);
    return met;
  }
  /// The message that a receive would meet, of which `met` is told.
  template <class Met>
  Entry* seek(const Entry& wanted, Met met) {
    uint64_t passed = 0;
    Entry* const found = arrived_.search(wanted, passed, met, [&]() -> Entry* {
      const Guard tails(tail_lock_);
      while (Entry* const each = arrived_tail_.pop()) {
        arrived_.append(*each);
        ++passed;
        if (!fit(*each, wanted)) continue;
        if (met(*each)) arrived_.remove(*each);
        return each;
      }
      return nullptr;
    });
    this->note_passed(passed);
    return found;
  }

  using StoreChannel<Queue>::posted_;
  using StoreChannel<Queue>::arrived_;
  alignas(base::kCacheLine) typename Queue::Lock tail_lock_;
  ListStore posted_tail_;
  ListStore arrived_tail_;
};

}  // namespace weft::mpi
