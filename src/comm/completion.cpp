// The five ways in which an operation's end is told.
#include "weft/comm/completion.hpp"

#include "comm/bounded_queue.hpp"
#include "comm/users_code.hpp"

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
  // The last completer alone may write the event of a success.
  if (!left_.count(n)) return;
  // relaxed: a failure's exchange came before its owner's count, which we have acquired.
  if (!failed_.load(std::memory_order_relaxed)) assign(event_, last);
  left_.finish();  // the owner may be gone right after it
}

void Synchronizer::arrive(uint32_t n) noexcept {
  if (n == 0) return;
  WEFT_CHECK(!left_.ready(), "more operations arrive at a synchronizer than it expects");
  left_.signal(n);
}

void Synchronizer::reset(uint32_t expected) noexcept {
  failed_.store(false, std::memory_order_relaxed);
  event_ = {};
  left_.reset(expected);
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

// --- HandlerCompletion ---------------------------------------------------------------------------

bool HandlerCompletion::try_complete(const Event& event) noexcept {
  const comm::UsersCode here(comm::kCompletionsFunction);
  try {
    function_(argument_, event);
  } catch (...) {
    comm::users_code_threw(comm::kCompletionsFunction);
  }
  return true;
}

}  // namespace weft
