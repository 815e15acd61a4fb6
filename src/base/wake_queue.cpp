// The queue of put-off wakes: an intrusive list of thread parkers.
//
// Invariants
//  1. A parker is linked, under the lock, iff its `queued_` says so; it is in one queue at most.
//  2. Who is taken out is woken only if he still sleeps on his permit, or waits in turn. A parker
//     may be linked though its owner is awake (he went on between his permit and his being put in):
//     such a one is passed over, so that each `wake` that answers true gave a core to somebody.
//  3. Who leaves his sleep in wait_in_turn takes himself out, if he is in still (a signal ended it,
//     or somebody nudged him); after park_patiently the caller does, who knows the queue.
#include "weft/base/wake_queue.hpp"

#include <utility>

#include "base/thread_parker.hpp"

namespace weft::base {
namespace {

constinit thread_local WakeQueue* my_queue = nullptr;

}  // namespace

void WakeQueue::enter(WakeQueue*& before) noexcept { before = std::exchange(my_queue, this); }

void WakeQueue::leave(WakeQueue* before) noexcept { my_queue = before; }

bool WakeQueue::puts_off(ThreadParker& parker) noexcept {
  return my_queue != nullptr && my_queue->push(parker, false);
}

WakeQueue::~WakeQueue() {
  while (wake(End::oldest)) {
  }
}

bool WakeQueue::push(ThreadParker& parker, bool in_turn) noexcept {
  lock_.lock();
  // Queued already: a wake was put off, and the owner went on by himself and sleeps again.
  WakeQueue* in = nullptr;
  // relaxed, here and below: what is linked is guarded by the lock of the queue that it is in.
  if (parker.queued_.compare_exchange_strong(in, this, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
    in = this;
    parker.older_ = newest_;
    parker.newer_ = nullptr;
    if (newest_ != nullptr) {
      newest_->newer_ = &parker;
    } else {
      // release: pairs with oldest's acquire, who then finds it made.
      oldest_.store(&parker, std::memory_order_release);
    }
    newest_ = &parker;
    // relaxed, here and below: written under the lock, read without as hints.
    size_.store(size_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    grew_.store(true, std::memory_order_relaxed);
  }
  if (in == this && in_turn) parker.in_turn_.store(true, std::memory_order_relaxed);
  lock_.unlock();
  return in == this;
}

void WakeQueue::erase(ThreadParker& parker) noexcept {
  if (parker.older_ != nullptr) {
    parker.older_->newer_ = parker.newer_;
  } else {
    oldest_.store(parker.newer_, std::memory_order_release);  // as in push
    ++taken_;
  }
  (parker.newer_ != nullptr ? parker.newer_->older_ : newest_) = parker.older_;
  size_.store(size_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  parker.queued_.store(nullptr, std::memory_order_release);  // the last: another queue may have it
}

bool WakeQueue::wake(End end) noexcept {
  for (;;) {
    lock_.lock();
    grew_.store(false, std::memory_order_relaxed);
    ThreadParker* const parker =
        end == End::oldest ? oldest_.load(std::memory_order_relaxed) : newest_;
    bool in_turn = false;
    if (parker != nullptr) {
      in_turn = parker->in_turn_.exchange(false, std::memory_order_relaxed);
      erase(*parker);
    }
    lock_.unlock();
    if (parker == nullptr) return false;
    if (in_turn || parker->has_permit()) {
      parker->wake();
      return true;
    }
  }
}

Parker* WakeQueue::oldest() const noexcept {
  // acquire: pairs with push's release. It is never unmapped; and whoever is nudged in vain goes on
  // sleeping, so what is read of it are hints: relaxed.
  ThreadParker* const parker = oldest_.load(std::memory_order_acquire);
  const bool sleeps = parker != nullptr &&
                      (parker->in_turn_.load(std::memory_order_relaxed) || parker->has_permit());
  return sleeps ? parker : nullptr;
}

void WakeQueue::take_me_out() noexcept {
  ThreadParker& mine = ThreadParker::of_this_thread();
  if (mine.queued_.load(std::memory_order_relaxed) != this) return;
  lock_.lock();
  if (mine.queued_.load(std::memory_order_relaxed) == this) {
    mine.in_turn_.store(false, std::memory_order_relaxed);
    erase(mine);
  }
  lock_.unlock();
}

void WakeQueue::wake_stale() noexcept {
  lock_.lock();
  const bool stale = !empty() && !was_empty_ && taken_ == taken_before_;
  lock_.unlock();
  if (stale) wake(End::oldest);
  lock_.lock();
  was_empty_ = empty();
  taken_before_ = taken_;
  lock_.unlock();
}

void WakeQueue::wait_in_turn() noexcept {
  ThreadParker& mine = ThreadParker::of_this_thread();
  if (!push(mine, true)) return;
  wake(End::oldest);
  mine.park_patiently();
  take_me_out();
}

}  // namespace weft::base
