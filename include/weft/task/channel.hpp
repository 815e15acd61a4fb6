// Channels: bounded queues on which tasks and threads wait. One for two ends, one for many.
#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/backoff.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/error.hpp"
#include "weft/base/locks.hpp"
#include "weft/task/wait_list.hpp"

namespace weft::task {

namespace detail {

/// Throws Error(bad_argument).
std::size_t checked_capacity(std::size_t capacity);

/// Room for values that come and go at their places. Who uses it knows which are there.
template <class T>
class Places {
  static_assert(std::is_object_v<T>, "wrap a reference in std::reference_wrapper");
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>,
                "values of a channel are moved where nothing may be thrown");

 public:
  explicit Places(std::size_t count) : places_(new Place[count]) {}
  void put(std::size_t at, T& value) noexcept {
    ::new (static_cast<void*>(places_[at].bytes)) T(std::move(value));
  }
  void take(std::size_t at, std::optional<T>& value) noexcept {
    T* const here = std::launder(reinterpret_cast<T*>(places_[at].bytes));
    value.emplace(std::move(*here));
    std::destroy_at(here);
  }

 private:
  struct Place {
    alignas(T) std::byte bytes[sizeof(T)];
  };
  const std::unique_ptr<Place[]> places_;
};

template <class Channel>
class ToReceive : public Awaited {
 public:
  explicit ToReceive(Channel& channel) noexcept : channel_(channel) {}
  Attempt attempt(WaitEntry* waiter) noexcept override {
    return channel_.attempt_receive(value, waiter);
  }
  void leave(WaitEntry& waiter) noexcept override { channel_.leave_receivers(waiter); }

  std::optional<typename Channel::Value> value;

 private:
  Channel& channel_;
};

template <class Channel>
class ToSend : public Awaited {
 public:
  ToSend(Channel& channel, typename Channel::Value& value) noexcept
      : channel_(channel), value_(value) {}
  Attempt attempt(WaitEntry* waiter) noexcept override {
    return channel_.attempt_send(value_, waiter);
  }
  void leave(WaitEntry& waiter) noexcept override { channel_.leave_senders(waiter); }

 private:
  Channel& channel_;
  typename Channel::Value& value_;
};

/// The calls that both kinds of channel have. `send` takes a T, which is moved from only if it was
/// sent, or anything that a T is made of. Deadlines are times of `now_ns()`.
template <class Self, class T>
class ChannelCalls {
 public:
  using Value = T;

  /// Waits while the channel is full. False: it is closed.
  template <class U = T>
  bool send(U&& value) {
    return send_until(std::forward<U>(value), kNoDeadline);
  }
  /// Never waits. False: full or closed.
  template <class U = T>
  [[nodiscard]] bool try_send(U&& value) {
    return send_until(std::forward<U>(value), 0);
  }
  /// False: closed, or the deadline came first.
  template <class U = T>
  [[nodiscard]] bool send_until(U&& value, uint64_t deadline_ns) {
    if constexpr (std::is_same_v<U&&, T&&>) {
      return send_own(value, deadline_ns);
    } else {
      T own(std::forward<U>(value));
      return send_own(own, deadline_ns);
    }
  }
  template <class U = T, class Rep, class Period>
  [[nodiscard]] bool send_for(U&& value, const std::chrono::duration<Rep, Period>& time) {
    return send_until(std::forward<U>(value), task::deadline_after(time));
  }

  /// Waits while the channel is empty. Nothing: it is closed, and all was received.
  [[nodiscard]] std::optional<T> receive() noexcept { return receive_until(kNoDeadline); }
  /// Never waits. Nothing: empty.
  [[nodiscard]] std::optional<T> try_receive() noexcept { return receive_until(0); }
  /// Nothing: closed and empty, or the deadline came first.
  [[nodiscard]] std::optional<T> receive_until(uint64_t deadline_ns) noexcept {
    std::optional<T> value;
    if (self().attempt_receive(value, nullptr) == Attempt::not_now && deadline_ns != 0)
        [[unlikely]] {
      ToReceive<Self> wait(self());
      (void)wait_for_one(wait, deadline_ns);
      return std::move(wait.value);
    }
    return value;
  }
  template <class Rep, class Period>
  [[nodiscard]] std::optional<T> receive_for(
      const std::chrono::duration<Rep, Period>& time) noexcept {
    return receive_until(task::deadline_after(time));
  }

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }
  bool send_own(T& value, uint64_t deadline_ns) noexcept {
    Attempt sent = self().attempt_send(value, nullptr);
    if (sent == Attempt::not_now && deadline_ns != 0) [[unlikely]] {
      ToSend<Self> wait(self(), value);
      sent = wait_for_one(wait, deadline_ns);
    }
    return sent == Attempt::done;
  }
};

}  // namespace detail

/// Purpose: values from one context to one other, in order, without a lock.
///
/// Owner and lifetime: any. It may end as soon as nobody waits and none of its functions is to be
/// called any more: who has received the last value may end it though `send` has not returned.
/// What was sent and not received ends with it.
/// Who may call: the sending functions one context at a time, the receiving ones one context at a
/// time, `close` anyone. Tasks and threads alike; who waits suspends a task, or its thread.
/// Progress: sending and receiving are wait-free while there is room, or a value.
/// Layout: what one side writes and the other reads is on a line of its own for each side, as is
/// what a side keeps to itself.
/// Invariants
///  1. head_ ≤ tail_ ≤ head_ + capacity. Values head_ … tail_ - 1 are in their places; only the
///     receiver touches those, only the sender the others.
///  2. limit of a side is the other's counter as last seen (for the sender, plus capacity): never
///     ahead of it, so what is below is surely there.
///  3. A side is busy from before others can see what it did until it touches the channel no more.
///     The channel's end waits for that.
template <class T>
class SpscChannel : public detail::ChannelCalls<SpscChannel<T>, T> {
 public:
  /// Room for `capacity` values, at least one. Error(bad_argument).
  explicit SpscChannel(std::size_t capacity)
      : capacity_(detail::checked_capacity(capacity)),
        mask_(std::bit_ceil(capacity) - 1),
        places_(mask_ + 1) {
    sender_.limit = capacity_;
  }
  ~SpscChannel() {
    // acquire: pairs with the release that ended the work; its last touch is done.
    for (base::Backoff backoff; sender_.busy.load(std::memory_order_acquire) ||
                                receiver_.busy.load(std::memory_order_acquire) ||
                                closers_.load(std::memory_order_acquire) != 0;) {
      backoff.pause();
    }
    for (std::optional<T> rest; has_value();) take(rest);
  }
  SpscChannel(const SpscChannel&) = delete;
  SpscChannel& operator=(const SpscChannel&) = delete;

  /// Nothing more can be sent; what was, can still be received. Idempotent. (A value that is being
  /// sent while another than its sender closes may be sent and never received.)
  void close() noexcept {
    closers_.fetch_add(1, std::memory_order_relaxed);  // published by what follows
    // release: pairs with is_closed's acquire; what we sent before is seen.
    closed_.store(true, std::memory_order_release);
    filled_.wake();
    emptied_.wake();
    closers_.fetch_sub(1, std::memory_order_release);  // pairs with the end's acquire
  }
  [[nodiscard]] bool is_closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  // What `select` and the waiting calls are made of: see Awaited.
  Attempt attempt_send(T& value, WaitEntry* waiter) noexcept {
    for (;;) {
      if (is_closed()) [[unlikely]] {
        if (waiter != nullptr) emptied_.leave(*waiter);
        return Attempt::closed;
      }
      if (has_room()) [[likely]] {
        if (waiter != nullptr) emptied_.leave(*waiter);  // before: `put` is the last touch
        put(value);
        return Attempt::done;
      }
      if (waiter == nullptr || waiter->waits()) return Attempt::not_now;
      if (!emptied_.add(*waiter)) return Attempt::not_now;
    }
  }
  Attempt attempt_receive(std::optional<T>& value, WaitEntry* waiter) noexcept {
    for (;;) {
      // Closed, then empty: in this order.
      const bool closed = !has_value() && is_closed();
      if (has_value()) [[likely]] {
        if (waiter != nullptr) filled_.leave(*waiter);  // before: `take` is the last touch
        take(value);
        return Attempt::done;
      }
      if (closed) {
        if (waiter != nullptr) filled_.leave(*waiter);
        return Attempt::closed;
      }
      if (waiter == nullptr || waiter->waits()) return Attempt::not_now;
      if (!filled_.add(*waiter)) return Attempt::not_now;
    }
  }
  void leave_senders(WaitEntry& waiter) noexcept { emptied_.leave(waiter); }
  void leave_receivers(WaitEntry& waiter) noexcept { filled_.leave(waiter); }

 private:
  /// What a side keeps to itself.
  struct alignas(base::kCacheLine) Side {
    uint64_t at = 0;                ///< its own counter
    uint64_t limit = 0;             ///< invariant 2
    std::atomic<bool> busy{false};  ///< invariant 3
  };

  bool has_room() noexcept {
    if (sender_.at != sender_.limit) [[likely]]
      return true;
    // acquire: pairs with take's release; the receiver is done with the place.
    sender_.limit = head_.load(std::memory_order_acquire) + capacity_;
    return sender_.at != sender_.limit;
  }
  void put(T& value) noexcept {
    const uint64_t at = sender_.at++;
    sender_.busy.store(true, std::memory_order_relaxed);  // published by tail_
    places_.put(at & mask_, value);
    // release: pairs with has_value's acquire; the value is seen.
    tail_.store(at + 1, std::memory_order_release);
    filled_.ring();
    sender_.busy.store(false, std::memory_order_release);  // pairs with the end's acquire
  }
  bool has_value() noexcept {
    if (receiver_.at != receiver_.limit) [[likely]]
      return true;
    // acquire: pairs with put's release.
    receiver_.limit = tail_.load(std::memory_order_acquire);
    return receiver_.at != receiver_.limit;
  }
  void take(std::optional<T>& value) noexcept {
    const uint64_t at = receiver_.at++;
    receiver_.busy.store(true, std::memory_order_relaxed);  // published by head_
    places_.take(at & mask_, value);
    // release: pairs with has_room's acquire; we are done with the place.
    head_.store(at + 1, std::memory_order_release);
    emptied_.ring();
    receiver_.busy.store(false, std::memory_order_release);  // pairs with the end's acquire
  }

  // Seldom written.
  const std::size_t capacity_;
  const std::size_t mask_;
  detail::Places<T> places_;
  std::atomic<bool> closed_{false};
  std::atomic<uint32_t> closers_{0};
  // The sender's, and where the receiver waits for it.
  alignas(base::kCacheLine) std::atomic<uint64_t> tail_{0};
  WaitSlot filled_;
  Side sender_;
  // The receiver's, and where the sender waits for it.
  alignas(base::kCacheLine) std::atomic<uint64_t> head_{0};
  WaitSlot emptied_;
  Side receiver_;
};

/// Purpose: values from many to many, each received by one, first in, first out.
///
/// Owner and lifetime: any. It may end as soon as nobody waits and none of its functions is to be
/// called any more: who has received the last value may end it though `send` has not returned.
/// What was sent and not received ends with it.
/// Who may call: any function, any number of tasks and threads. Who waits suspends a task, or its
/// thread. Values are moved under a short lock: their move constructor must not wait.
/// Progress: each call is one short section under a spin lock. Who was woken competes with whoever
/// comes just then, and if it is too late, goes to the end of the list.
/// Invariants
///  1. Who finds the channel empty (or full) goes into the list under the same lock.
///  2. Each value put takes one waiting receiver out of the list, to be told; each value taken, one
///     sender; `close`, all.
///  3. Who was told, and leaves without a value (or room), takes out the next, if there is one.
template <class T>
class Channel : public detail::ChannelCalls<Channel<T>, T> {
 public:
  /// Room for `capacity` values, at least one. Error(bad_argument).
  explicit Channel(std::size_t capacity)
      : capacity_(detail::checked_capacity(capacity)), places_(capacity) {}
  ~Channel() {
    for (std::optional<T> rest; count_ != 0;) take(rest);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Nothing more can be sent; what was, can still be received. Idempotent.
  void close() noexcept {
    WaitEntry* receivers = nullptr;
    WaitEntry* senders = nullptr;
    {
      const std::lock_guard hold(lock_);
      closed_ = true;
      receivers = receivers_.take_all();
      senders = senders_.take_all();
    }
    WaitList::tell(receivers);
    WaitList::tell(senders);
  }
  [[nodiscard]] bool is_closed() const noexcept {
    const std::lock_guard hold(lock_);
    return closed_;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  // What `select` and the waiting calls are made of: see Awaited.
  Attempt attempt_send(T& value, WaitEntry* waiter) noexcept {
    if (waiter != nullptr && waiter->waits()) return Attempt::not_now;
    WaitEntry* receiver = nullptr;
    {
      const std::lock_guard hold(lock_);
      if (closed_) {
        if (waiter != nullptr) waiter->forget();
        return Attempt::closed;
      }
      if (count_ == capacity_) {
        if (waiter != nullptr) senders_.add(*waiter);
        return Attempt::not_now;
      }
      put(value);
      receiver = receivers_.take_first();
    }
    WaitList::tell(receiver);
    return Attempt::done;
  }
  Attempt attempt_receive(std::optional<T>& value, WaitEntry* waiter) noexcept {
    if (waiter != nullptr && waiter->waits()) return Attempt::not_now;
    WaitEntry* sender = nullptr;
    {
      const std::lock_guard hold(lock_);
      if (count_ == 0) {
        if (closed_) {
          if (waiter != nullptr) waiter->forget();
          return Attempt::closed;
        }
        if (waiter != nullptr) receivers_.add(*waiter);
        return Attempt::not_now;
      }
      take(value);
      sender = senders_.take_first();
    }
    WaitList::tell(sender);
    return Attempt::done;
  }
  void leave_senders(WaitEntry& waiter) noexcept {
    leave(senders_, waiter, [this] { return count_ != capacity_; });
  }
  void leave_receivers(WaitEntry& waiter) noexcept {
    leave(receivers_, waiter, [this] { return count_ != 0; });
  }

 private:
  template <class F>
  void leave(WaitList& list, WaitEntry& waiter, F&& is_for_another) noexcept {
    if (!waiter.is_enlisted()) return;
    WaitEntry* next = nullptr;
    bool was_taken = false;
    {
      const std::lock_guard hold(lock_);
      was_taken = !list.remove(waiter);
      if (was_taken && is_for_another()) next = list.take_first();
    }
    WaitList::tell(next);
    if (was_taken) waiter.await_told();
    waiter.forget();
  }
  // (lock_)
  void put(T& value) noexcept {
    const std::size_t at = first_ + count_;
    places_.put(at < capacity_ ? at : at - capacity_, value);
    ++count_;
  }
  void take(std::optional<T>& value) noexcept {
    places_.take(first_, value);
    first_ = first_ + 1 < capacity_ ? first_ + 1 : 0;
    --count_;
  }

  mutable base::SpinLock lock_;
  bool closed_ = false;  ///< this and all below: under the lock
  const std::size_t capacity_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  detail::Places<T> places_;
  WaitList receivers_;
  WaitList senders_;
};

}  // namespace weft::task
