// The classical engine, for comparison: posted receives and unexpected messages, one lock (003 Alg.
// 1). Over a list it is what most MPI libraries have; over lists by source, what others have.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/matching/arrived.hpp"
#include "mpi/matching/store_channel.hpp"
#include "mpi/transfer.hpp"

namespace weft::mpi {

/// Invariant: no entry of `posted_` fits one of `arrived_`. Both under `lock_`.
template <class Store, class Lock>
class OneLockChannel final : public StoreChannel<Store> {
 public:
  Arrived* post(Transfer& receive) override {
    receive.is_receive = true;
    return static_cast<Arrived*>(meet(receive, arrived_, &posted_));
  }
  Transfer* take_receive(Rank source, int tag) override {
    Entry message = key_of(source, tag);
    return static_cast<Transfer*>(meet(message, posted_, nullptr));
  }
  Transfer* arrive(Arrived& message) override {
    return static_cast<Transfer*>(meet(message, posted_, &arrived_));
  }
  bool withdraw(Transfer& receive) override {
    const Guard hold(lock_);
    if (!receive.linked) return false;
    this->take(receive, posted_);
    return true;
  }
  bool find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) override {
    const Guard hold(lock_);
    Entry* const found = first(key_of(source, tag), arrived_);
    if (found != nullptr) look(argument, static_cast<const Arrived&>(*found));
    return found != nullptr;
  }
  Arrived* extract(Rank source, int tag) override {
    const Guard hold(lock_);
    Entry* const found = first(key_of(source, tag), arrived_);
    if (found != nullptr) this->take(*found, arrived_);
    return static_cast<Arrived*>(found);
  }
  Arrived* recall(Rank source, int tag, bool (*is_it)(void*, const Arrived&),
                  void* argument) override {
    const Guard hold(lock_);
    return this->recall_arrived(source, tag, is_it, argument);
  }
  void take_receives(bool (*wanted)(void*, const Transfer&), void* argument,
                     std::vector<Transfer*>& into) override {
    const Guard hold(lock_);
    this->take_posted(wanted, argument, into);
  }
  void take_messages(std::vector<Arrived*>& into) override {
    const Guard hold(lock_);
    this->take_arrived(into);
  }

 private:
  using Guard = typename Lock::Guard;

  /// The oldest of `among` that fits, taken out; else `entry` joins `otherwise`, if there is one.
  Entry* meet(Entry& entry, Store& among, Store* otherwise) {
    const Guard hold(lock_);
    Entry* const met = first(entry, among);
    if (met != nullptr) {
      this->take(*met, among);
    } else if (otherwise != nullptr) {
      this->add(entry, *otherwise);
    }
    return met;
  }
  Entry* first(const Entry& wanted, Store& among) {
    uint64_t passed = 0;
    Entry* const found = among.first(wanted, passed);
    this->note_passed(passed);
    return found;
  }

  using StoreChannel<Store>::posted_;
  using StoreChannel<Store>::arrived_;
  Lock lock_;
};

}  // namespace weft::mpi
