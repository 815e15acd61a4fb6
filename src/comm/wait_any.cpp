// Waits that end with whichever comes first: of several completions, or of a queue's events.
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"

namespace weft {

namespace comm {
namespace {

/// Each of them knows the one who waits; whichever is first wakes him. Late ones give him a permit
/// that he did not ask for, which any wait expects.
class AwaitAny final : public Awaited {
 public:
  AwaitAny(std::span<Synchronizer* const> any, uint64_t deadline_ns) noexcept
      : any_(any), deadline_ns_(deadline_ns) {}
  bool ready() noexcept override {
    return first().has_value() ||
           (deadline_ns_ != base::kNoDeadline && base::now_ns() >= deadline_ns_);
  }
  /// If one is ready those before it know the parker all the same: `withdraw` follows.
  bool enroll(base::Parker& parker) noexcept override {
    for (Synchronizer* const each : any_) {
      if (!each->set_waiter(parker)) return false;
    }
    return true;
  }
  void withdraw() noexcept override {
    for (Synchronizer* const each : any_) each->withdraw_waiter();
  }
  [[nodiscard]] uint64_t deadline_ns() const noexcept override { return deadline_ns_; }

  [[nodiscard]] std::optional<std::size_t> first() const noexcept {
    for (std::size_t at = 0; at < any_.size(); ++at) {
      if (any_[at]->ready()) return at;
    }
    return std::nullopt;
  }

 private:
  std::span<Synchronizer* const> any_;
  const uint64_t deadline_ns_;
};

}  // namespace
}  // namespace comm

std::size_t Runtime::wait_any(std::span<Synchronizer* const> any) {
  if (any.empty()) comm::refuse("wait_any of no completions would never end");
  comm::AwaitAny awaited(any, base::kNoDeadline);
  std::optional<std::size_t> first = awaited.first();
  if (!first) {
    impl_->wait(awaited);
    first = awaited.first();
  }
  return *first;
}

std::optional<std::size_t> Runtime::wait_any_until(std::span<Synchronizer* const> any,
                                                   uint64_t deadline_ns) {
  if (any.empty()) comm::refuse("wait_any_until of no completions would find none");
  comm::AwaitAny awaited(any, deadline_ns);
  // As wait_until: there is progress however short the time.
  if (!awaited.first()) progress();
  if (!awaited.first()) impl_->wait(awaited);
  return awaited.first();
}

Event Runtime::pop_wait(CompletionQueue& queue) {
  Event event;
  if (!queue.pop(event)) wait_until([&] { return queue.pop(event); });
  return event;
}

bool Runtime::pop_until(CompletionQueue& queue, Event& event, uint64_t deadline_ns) {
  if (queue.pop(event)) return true;
  progress();  // as above
  if (queue.pop(event)) return true;
  struct Wanted {
    CompletionQueue& queue;
    Event& event;
  } wanted{queue, event};
  return impl_->wait_for(
      impl_->watchers,
      [](void* argument) {
        auto& want = *static_cast<Wanted*>(argument);
        return want.queue.pop(want.event);
      },
      &wanted, deadline_ns);
}

}  // namespace weft
