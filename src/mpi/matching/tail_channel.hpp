// Tail queues (003 §3, Alg. 2): posted receives and unexpected messages under a lock each, so that
// a receive that is posted and a message that arrives search at the same time; what is added goes
// into an inbox, the queue's tail, and the two tails have a lock of their own.
//
// Locks and what they guard: `posted_lock_` (PRQL): `posted_`; `arrived_lock_` (UMQL): `arrived_`;
// `tail_lock_` (TL): `posted_tail_`, `arrived_tail_`. Order: one of the first two, then the third;
// who needs both of the first takes `posted_lock_` first. Invariants
//  1. All of a queue's tail is younger than all of the queue.
//  2. Under the tail lock, no receive of `posted_tail_` fits a message of `arrived_` ∪
//  `arrived_tail_`
//     that its poster did not see: it searched `arrived_`, which it had locked since, and the tail.
//     The same the other way round. So two that fit never wait both.
#pragma once

#include <vector>

#include "mpi/matching/arrived.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/matching/stores.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/locks.hpp"

namespace weft::mpi {

template <class Store>
class TailChannel final : public Channel {
 public:
  Arrived* post(Transfer& receive) override {
    receive.is_receive = true;
    return static_cast<Arrived*>(
        meet(receive, {arrived_lock_, arrived_, arrived_tail_}, &posted_tail_));
  }
  Transfer* take_receive(Rank source, int tag) override {
    Entry message = pattern(source, tag);
    return static_cast<Transfer*>(meet(message, {posted_lock_, posted_, posted_tail_}, nullptr));
  }
  Transfer* arrive(Arrived& message) override {
    return static_cast<Transfer*>(
        meet(message, {posted_lock_, posted_, posted_tail_}, &arrived_tail_));
  }
  bool withdraw(Transfer& receive) override {
    const Hold queue(posted_lock_);
    const Hold tail(tail_lock_);
    if (!receive.linked) return false;
    empty_tail(posted_, posted_tail_);
    take(receive, posted_);
    return true;
  }
  bool find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) override {
    const Hold queue(arrived_lock_);
    Entry* const found = seek(source, tag);
    if (found != nullptr) look(argument, static_cast<const Arrived&>(*found));
    return found != nullptr;
  }
  Arrived* extract(Rank source, int tag) override {
    const Hold queue(arrived_lock_);
    Entry* const found = seek(source, tag);
    if (found != nullptr) take(*found, arrived_);
    return static_cast<Arrived*>(found);
  }
  void take_receives(bool (*wanted)(const Transfer&, Rank), Rank process,
                     std::vector<Transfer*>& into) override {
    const Hold queue(posted_lock_);
    const Hold tail(tail_lock_);
    empty_tail(posted_, posted_tail_);
    posted_.for_each([&](Entry& each) {
      auto& receive = static_cast<Transfer&>(each);
      if (!wanted(receive, process)) return;
      into.push_back(&receive);
      take(each, posted_);
    });
  }
  void take_messages(std::vector<Arrived*>& into) override {
    const Hold queue(arrived_lock_);
    const Hold tail(tail_lock_);
    empty_tail(arrived_, arrived_tail_);
    arrived_.for_each([&](Entry& each) {
      into.push_back(static_cast<Arrived*>(&each));
      take(each, arrived_);
    });
  }

 private:
  class Hold {
   public:
    explicit Hold(base::McsLock& lock) noexcept : lock_(lock) { lock_.lock(node_); }
    ~Hold() { lock_.unlock(node_); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    base::McsLock& lock_;
    base::McsLock::Node node_;
  };
  struct Side {
    base::McsLock& lock;
    Store& queue;
    ListStore& tail;
  };
  static Entry pattern(Rank source, int tag) noexcept {
    Entry wanted;
    wanted.process = source;
    wanted.tag = tag;
    return wanted;
  }
  void take(Entry& entry, Store& from) {
    from.remove(entry);
    entry.linked = false;
    if (!entry.is_receive) this->unexpected_.fetch_sub(1, std::memory_order_relaxed);
  }
  /// (both locks) The tail joins its queue.
  static void empty_tail(Store& queue, ListStore& tail) {
    while (Entry* const each = tail.pop()) queue.append(*each);
  }
  /// (both locks) The same, up to the first that fits, which is taken out instead. The rest waits
  /// in the tail, whose order it keeps.
  Entry* search_tail(const Entry& wanted, Store& queue, ListStore& tail) {
    while (Entry* const each = tail.pop()) {
      if (fit(*each, wanted)) {
        each->linked = false;
        if (!each->is_receive) this->unexpected_.fetch_sub(1, std::memory_order_relaxed);
        return each;
      }
      queue.append(*each);
    }
    return nullptr;
  }
  Entry* meet(Entry& entry, Side side, ListStore* otherwise) {
    const Hold queue(side.lock);
    if (Entry* const met = side.queue.first(entry); met != nullptr) {
      take(*met, side.queue);
      return met;
    }
    const Hold tails(tail_lock_);
    if (Entry* const met = search_tail(entry, side.queue, side.tail); met != nullptr) return met;
    if (otherwise != nullptr) {
      otherwise->append(entry);
      entry.linked = true;
      if (!entry.is_receive) this->unexpected_.fetch_add(1, std::memory_order_relaxed);
    }
    return nullptr;
  }
  /// (arrived_lock_) The message that a receive would meet.
  Entry* seek(Rank source, int tag) {
    const Entry wanted = pattern(source, tag);
    if (Entry* const found = arrived_.first(wanted); found != nullptr) return found;
    const Hold tails(tail_lock_);
    empty_tail(arrived_, arrived_tail_);
    return arrived_.first(wanted);
  }

  alignas(base::kCacheLine) base::McsLock posted_lock_;
  Store posted_;
  alignas(base::kCacheLine) base::McsLock arrived_lock_;
  Store arrived_;
  alignas(base::kCacheLine) base::McsLock tail_lock_;
  ListStore posted_tail_;
  ListStore arrived_tail_;
};

}  // namespace weft::mpi
