// The classical engine, for comparison: posted receives and unexpected messages, one lock (003 Alg.
// 1). Over a list it is what most MPI libraries have; over lists by source, what others have.
#pragma once

#include <mutex>
#include <vector>

#include "mpi/matching/arrived.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/matching/stores.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/locks.hpp"

namespace weft::mpi {

/// Invariant: no entry of `posted_` fits one of `arrived_`. Both under `lock_`, which waiters sleep
/// on.
template <class Store>
class OneLockChannel final : public Channel {
 public:
  Arrived* post(Transfer& receive) override {
    receive.is_receive = true;
    return static_cast<Arrived*>(meet(receive, arrived_, &posted_));
  }
  Transfer* take_receive(Rank source, int tag) override {
    Entry message;
    message.process = source;
    message.tag = tag;
    return static_cast<Transfer*>(meet(message, posted_, nullptr));
  }
  Transfer* arrive(Arrived& message) override {
    return static_cast<Transfer*>(meet(message, posted_, &arrived_));
  }
  bool withdraw(Transfer& receive) override {
    const Hold hold(lock_);
    if (!receive.linked) return false;
    take(receive, posted_);
    return true;
  }
  bool find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) override {
    const Hold hold(lock_);
    Entry* const found = arrived_.first(pattern(source, tag));
    if (found != nullptr) look(argument, static_cast<const Arrived&>(*found));
    return found != nullptr;
  }
  Arrived* extract(Rank source, int tag) override {
    const Hold hold(lock_);
    Entry* const found = arrived_.first(pattern(source, tag));
    if (found != nullptr) take(*found, arrived_);
    return static_cast<Arrived*>(found);
  }
  void take_receives(bool (*wanted)(const Transfer&, Rank), Rank process,
                     std::vector<Transfer*>& into) override {
    const Hold hold(lock_);
    posted_.for_each([&](Entry& each) {
      auto& receive = static_cast<Transfer&>(each);
      if (!wanted(receive, process)) return;
      into.push_back(&receive);
      take(each, posted_);
    });
  }
  void take_messages(std::vector<Arrived*>& into) override {
    const Hold hold(lock_);
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
  /// The oldest of `among` that fits, taken out; else `entry` joins `otherwise`, if there is one.
  Entry* meet(Entry& entry, Store& among, Store* otherwise) {
    const Hold hold(lock_);
    Entry* const met = among.first(entry);
    if (met != nullptr) {
      take(*met, among);
    } else if (otherwise != nullptr) {
      otherwise->append(entry);
      entry.linked = true;
      if (!entry.is_receive) this->unexpected_.fetch_add(1, std::memory_order_relaxed);
    }
    return met;
  }

  base::McsLock lock_;
  Store posted_;
  Store arrived_;
};

}  // namespace weft::mpi
