// A small dense number for each live thread, reused after it ends.
#pragma once

namespace weft::base {

inline constexpr unsigned kThreadSlots = 1024;
/// The one number that may be several threads' at a time; each other one is one live thread's.
inline constexpr unsigned kSharedThreadSlot = kThreadSlots - 1;

namespace detail {
inline constexpr unsigned kNoSlot = ~0U;
extern constinit thread_local unsigned my_slot;
/// The first call of a thread: out of line, so that the others are one load.
unsigned take_slot() noexcept;
}  // namespace detail

/// This thread's number, < kThreadSlots: the lowest that was free at the thread's first call, given
/// back when it ends. With more live threads than slots, the rest has kSharedThreadSlot: what is
/// indexed by slot must stay correct (only slower) when threads share that one. One thread_local
/// load.
inline unsigned this_thread_slot() noexcept {
  const unsigned slot = detail::my_slot;
  return slot != detail::kNoSlot ? slot : detail::take_slot();
}

/// The same, or a number above all slots where the thread has not called that yet.
inline unsigned this_thread_slot_if_any() noexcept { return detail::my_slot; }

/// One more than the highest slot ever given: how far a reader of per-slot things must look.
unsigned thread_slots_used() noexcept;

}  // namespace weft::base
