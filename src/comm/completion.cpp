// The five ways in which an operation's end is told.
#include "weft/comm/completion.hpp"

#include "comm/bounded_queue.hpp"

namespace weft {

// --- CompletionQueue -----------------------------------------------------------------------------

struct CompletionQueue::Ring {
  explicit Ring(std::size_t capacity) : queue(capacity) {}
  comm::BoundedQueue<Event> queue;
};
static_assert(sizeof(Event) <= 56, "an event and its sequence number share one cache line");

CompletionQueue::CompletionQueue(std::size_t capacity) : ring_(std::make_unique<Ring>(capacity)) {}
CompletionQueue::~CompletionQueue() = default;

bool CompletionQueue::try_complete(const Event& event) noexcept {
  return ring_->queue.try_push_with([&](Event& cell) { assign(cell, event); });
}

bool CompletionQueue::pop(Event& event) noexcept {
  return ring_->queue.try_pop_with([&](const Event& cell) { assign(event, cell); });
}

// --- Synchronizer --------------------------------------------------------------------------------

bool Synchronizer::try_complete(const Event& event) noexcept {
  if (event.error != Errc::ok) [[unlikely]] {
    // acq_rel: only one completer may write event_ after a failure.
    if (!failed_.exchange(true, std::memory_order_acq_rel)) assign(event_, event);
  }
  complete_many(event, 1);
  return true;
}

void Synchronizer::complete_many(const Event& last, uint32_t n) noexcept {
  // The last completer alone may write the event of a success: until then `left_` says that others
  // are still to come. acquire: pairs with the release of the others' fetch_sub; what they wrote
  // is visible before we announce that all is ready.
  if (left_.load(std::memory_order_acquire) == n ||
      left_.fetch_sub(n, std::memory_order_acq_rel) == n) {
    // relaxed: a failure's exchange came before its owner's fetch_sub, which we have acquired.
    if (!failed_.load(std::memory_order_relaxed)) assign(event_, last);
    finish();
  }
}

void Synchronizer::arrive(uint32_t n) noexcept {
  if (n != 0 && left_.fetch_sub(n, std::memory_order_acq_rel) == n) finish();
}

void Synchronizer::finish() noexcept {
  // acq_rel: release what was written, to ready()'s acquire; acquire the waiter's parker. This is
  // the last access: the owner may be gone right after it. A parker outlives its thread.
  base::Parker* waiter = waiter_.exchange(kReady, std::memory_order_acq_rel);
  if (waiter != nullptr) waiter->unpark();
}

void Synchronizer::reset(uint32_t expected) noexcept {
  left_.store(expected, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  event_ = {};
  // release: whoever completes got this object from us after this.
  waiter_.store(expected == 0 ? kReady : nullptr, std::memory_order_release);
}

bool Synchronizer::set_waiter(base::Parker& parker) noexcept {
  base::Parker* nobody = nullptr;
  // acq_rel: release our parker to finish()'s exchange; acquire what completed if it is ready.
  return waiter_.compare_exchange_strong(nobody, &parker, std::memory_order_acq_rel,
                                         std::memory_order_acquire) ||
         nobody == &parker;
}

void Synchronizer::withdraw_waiter() noexcept {
  base::Parker* mine = waiter_.load(std::memory_order_relaxed);
  // relaxed: taking a name back publishes nothing.
  while (mine != kReady && mine != nullptr &&
         !waiter_.compare_exchange_weak(mine, nullptr, std::memory_order_relaxed)) {
  }
}

// --- Counter, Flag -------------------------------------------------------------------------------

bool Counter::try_complete(const Event& event) noexcept {
  // release: pairs with the acquire of value() and errors().
  if (event.error != Errc::ok) errors_.fetch_add(1, std::memory_order_release);
  value_.fetch_add(1, std::memory_order_release);
  return true;
}

void Counter::complete_many(const Event& /*last*/, uint32_t n) noexcept {
  value_.fetch_add(n, std::memory_order_release);  // as above
}

bool Flag::try_complete(const Event& event) noexcept {
  assign(event_, event);
  set_.store(true, std::memory_order_release);  // pairs with is_set()
  return true;
}

}  // namespace weft
