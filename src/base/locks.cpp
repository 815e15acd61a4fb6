// Ticket and MCS locks.
#include "weft/base/locks.hpp"

#include "weft/base/backoff.hpp"

namespace weft::base {

bool TicketLock::try_lock() noexcept {
  // acquire: pairs with unlock's release; if our ticket is the one served, the section before ours
  // is seen.
  const uint32_t serving = serving_.load(std::memory_order_acquire);
  uint32_t expected = serving;
  // relaxed: the ticket itself orders nothing; `serving_` does. It succeeds only if no ticket is
  // out, and while ours is the next no other thread can move `serving_`.
  return next_.compare_exchange_strong(expected, serving + 1, std::memory_order_relaxed);
}

void TicketLock::lock() noexcept {
  // relaxed: as above.
  const uint32_t mine = next_.fetch_add(1, std::memory_order_relaxed);
  // acquire: pairs with unlock's release.
  for (Backoff backoff; serving_.load(std::memory_order_acquire) != mine;) backoff.pause();
}

void TicketLock::unlock() noexcept {
  // relaxed load: only the holder writes it. release store: pairs with the acquires above.
  serving_.store(serving_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

bool McsLock::try_lock(Node& mine) noexcept {
  mine.next.store(nullptr, std::memory_order_relaxed);  // nobody sees the node yet
  Node* expected = nullptr;
  // acquire: pairs with unlock's release of the empty queue. release: pairs with the next locker's
  // exchange, which must see our cleared `next` before it links itself there.
  return tail_.compare_exchange_strong(expected, &mine, std::memory_order_acq_rel,
                                       std::memory_order_relaxed);
}

bool McsLock::enter(Node& mine) noexcept {
  mine.next.store(nullptr, std::memory_order_relaxed);  // nobody sees the node yet
  mine.turn.close();                                    // the same
  // acq_rel: as in try_lock.
  Node* before = tail_.exchange(&mine, std::memory_order_acq_rel);
  if (before == nullptr) return true;
  // release: pairs with unlock's acquire of `next`; our turn is seen closed before it is given.
  before->next.store(&mine, std::memory_order_release);
  return false;
}

void McsLock::lock(Node& mine) noexcept {
  if (!enter(mine)) mine.turn.wait();  // acquire: the section before ours is seen
}

void McsLock::lock_awake(Node& mine) noexcept {
  if (enter(mine)) return;
  // acquire: as in lock.
  for (Backoff backoff; !mine.turn.is_given();) backoff.pause();
}

void McsLock::unlock(Node& mine) noexcept {
  // acquire: pairs with the successor's release in lock.
  Node* after = mine.next.load(std::memory_order_acquire);
  if (after == nullptr) {
    Node* expected = &mine;
    // release: pairs with the acquire of whoever finds the queue empty.
    if (tail_.compare_exchange_strong(expected, nullptr, std::memory_order_release,
                                      std::memory_order_relaxed)) {
      return;
    }
    // A successor took its place in the queue and is about to link itself.
    for (Backoff backoff; (after = mine.next.load(std::memory_order_acquire)) == nullptr;) {
      backoff.pause();
    }
  }
  after->turn.give();  // release; the last touch of either node by us
}

}  // namespace weft::base
