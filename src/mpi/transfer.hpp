// One message under way: a send or a receive, and who waits for its end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mpi/datatype.hpp"
#include "mpi/entry.hpp"
#include "mpi/op.hpp"
#include "mpi/status.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/parker.hpp"
#include "weft/base/types.hpp"
#include "weft/comm/completion.hpp"
#include "weft/comm/matcher.hpp"

namespace weft::mpi {

class Channel;
class Comm;
struct Transfer;

/// How a receive combines the elements that come with others instead of putting them down: its
/// buffer becomes what comes combined with `base`, or with what lies there. For reductions; as they
/// come, so that nothing is copied only to be read again.
///
/// Plain data of who posts the receive, until that has ended. The loop runs where messages arrive,
/// under the lock of a device: predefined operations only, and for what is not long.
struct Combining {
  ReduceLoop loop = nullptr;
  const std::byte* base = nullptr;  ///< nullptr: what lies at the buffer
  std::size_t element = 0;          ///< bytes; divides kPieceUnit
};

/// Told of a transfer's end, once, from whichever thread progresses or posts. Must not block nor
/// wait, and posts nothing (to go on with other messages: Runtime::defer). It may end the waiter,
/// and the transfer: nothing of either is touched afterwards.
class Waiter {
 public:
  virtual void on_end(Transfer& transfer) noexcept = 0;

 protected:
  ~Waiter() = default;
};

/// A send or a receive.
///
/// Owner and lifetime: whoever posts it, until it has ended; then it may be posted again. Must not
/// move. `state` goes kEnded → (posted) kPending → kEnded, or kPending → a Waiter, or the Parker of
/// who waits for this one alone (marked by kParker) → kEnded. Results are valid once ended. The
/// entry is the channel's while a receive is posted there.
struct Transfer : Entry {
  static constexpr uintptr_t kPending = 0;
  static constexpr uintptr_t kEnded = 1;
  static constexpr uintptr_t kParker = 2;  ///< a bit
  static constexpr uint8_t kCombines = 1;  ///< `kind` of receives that have a Combining

  // Not defaulted: compilers then begin with clearing all of it, what is set next, too, by an
  // instruction that takes as long as fifty others.
  Transfer() noexcept {}  // NOLINT(modernize-use-equals-default)
  // The rest of the first line, if it begins with one: matching has touched that already.
  uint8_t kind = 0;       ///< sends: the envelope's (messages/); receives: whether they combine
  uint32_t sequence = 0;  ///< sends: the envelope's
  std::atomic<uintptr_t> state{kEnded};

  // The second: what an eager message needs beside that.
  Outcome outcome;  ///< results
  std::byte* buffer = nullptr;
  int64_t capacity = 0;  ///< bytes
  const Datatype* type = nullptr;
  int64_t count = 0;
  Channel* channel = nullptr;  ///< where it is posted

  std::byte* packed = nullptr;  ///< a copy in packed form, for layouts with holes (take_buffer)
  union {
    AnnouncementName name{};     ///< sends that were announced or wait in the backlog
    const Combining* combining;  ///< receives that combine
  };

  /// Describes a message, but for its `kind`, and the source that a receive's outcome begins with.
  void prepare(Channel& on, Rank peer, int with_tag, void* place, int64_t elements,
               const Datatype& of) noexcept {
    outcome = {};
    channel = &on;
    process = peer;
    tag = with_tag;
    buffer = static_cast<std::byte*>(place);
    count = elements;
    type = &of;
    packed = nullptr;
    capacity = elements * of.size();
    state.store(kPending, std::memory_order_relaxed);  // nobody else knows it yet
  }
  [[nodiscard]] bool ended() const noexcept {
    // acquire: pairs with end()'s release; results and buffer are visible.
    return state.load(std::memory_order_acquire) == kEnded;
  }
  /// `waiter` is told of the end; false: it has ended already and nobody is told. One waiter at a
  /// time.
  [[nodiscard]] bool set_waiter(Waiter& waiter) noexcept {
    uintptr_t expected = kPending;
    // acq_rel: release: end() sees the waiter whole; acquire: as ended().
    return state.compare_exchange_strong(expected, reinterpret_cast<uintptr_t>(&waiter),
                                         std::memory_order_acq_rel, std::memory_order_acquire);
  }
  /// Takes a waiter's name back; false: it is being told, or was.
  [[nodiscard]] bool withdraw_waiter(Waiter& waiter) noexcept {
    auto expected = reinterpret_cast<uintptr_t>(&waiter);
    return state.compare_exchange_strong(expected, kPending, std::memory_order_acq_rel,
                                         std::memory_order_acquire);
  }
  /// For who waits for nothing else: the parker is unparked at the end, which is a wake-up less in
  /// between than a waiter. False: it has ended. May be called again with the same.
  [[nodiscard]] bool set_parker(base::Parker& parker) noexcept {
    const uintptr_t mark = reinterpret_cast<uintptr_t>(&parker) | kParker;
    uintptr_t expected = kPending;
    // As set_waiter.
    return state.compare_exchange_strong(expected, mark, std::memory_order_acq_rel,
                                         std::memory_order_acquire) ||
           expected == mark;
  }
  /// Takes it back, if it is there; the parker may just be being unparked.
  void withdraw_parker() noexcept {
    uintptr_t was = state.load(std::memory_order_acquire);
    if ((was & kParker) != 0) {
      state.compare_exchange_strong(was, kPending, std::memory_order_acq_rel,
                                    std::memory_order_acquire);
    }
  }
  /// Ends it. Called once, by whoever serves it, after `outcome` was filled in.
  void end() noexcept {
    // acq_rel: release: see ended(); acquire: pairs with set_waiter. A transfer that nobody but its
    // owner waits for may be gone after that; a parker outlives its owner.
    const uintptr_t was = state.exchange(kEnded, std::memory_order_acq_rel);
    if ((was & kParker) != 0) {
      reinterpret_cast<base::Parker*>(was & ~kParker)->unpark();
    } else if (was > kEnded) {
      reinterpret_cast<Waiter*>(was)->on_end(*this);
    }
  }
};

static_assert(sizeof(Transfer) == 2 * base::kCacheLine + 3 * sizeof(std::byte*));

}  // namespace weft::mpi
