// The right of one thread to enter sections without an atomic read-modify-write.
//
// Purpose: what one thread uses for long at a time costs that thread two plain stores and three
// loads for a section, where an atomic exchange would also wait for every earlier store to leave
// the store buffer, and with it for the cache lines of the ring.
// Owner and lifetime: part of what it guards, which has another way for everybody else: under that
// one's lock the favour is given and taken away. Where the others have no lock in common, they mark
// their sections, too (`join`), for the favour to wait for. Process-private.
// Who may call: `enter` any thread; what says (owner's lock), whoever holds that. Sections do not
// wait, or at most for sections of deeper levels.
// Progress: the favoured thread enters without waiting. Taking the favour away costs one heavy
// fence, and waits for the section that is under way.
// Layout: the favour is the number of a thread; what section a thread is in stands in a line of
// its own, by its number (kThreadSlots lines in all).
//
// Invariants
//  1. favour_ is changed only under the owner's lock. `take_away` stores kNobody, executes the
//     heavy fence, and says whether the thread that had it is inside; while it is, `draining_`
//     names it, for the next to look again.
//  2. The favoured thread marks that it is inside and then looks at favour_ again. Either the
//     heavy fence finds the mark, so that the other waits, or this second look sees that the favour
//     is gone (Dekker).
//  3. A thread's marks are written by that thread alone. One that was preempted between its two
//     looks marks and unmarks itself, when it goes on, and nobody else.
//  4. The owner announces that somebody will be favoured, calls `wait_for_all`, and gives the
//     favour; who joins marks itself, then looks for the announcement. One sees the other.
//
// Source: biased locks as known from Java runtimes; here revoked by membarrier(2) instead of by
// stopping the thread.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::base {

/// See the head of this file.
class Favour {
 public:
  /// A thread may be inside one section of each level at a time by favour; a second one of the same
  /// level it enters as anybody.
  enum class Level : uint8_t { outer, middle, inner };
  explicit Favour(Level level) noexcept : level_(level) {}
  Favour(const Favour&) = delete;
  Favour& operator=(const Favour&) = delete;

  /// The caller's mark, for `leave`; nullptr: not inside by favour.
  using Mark = std::atomic<const Favour*>*;

  /// Enters if the caller is the favoured thread. `inside`, if given, is set when it is inside
  /// already.
  [[nodiscard, gnu::always_inline]] Mark enter(bool* inside = nullptr) noexcept {
    // A thread that has no number yet is nobody's favourite.
    const unsigned slot = this_thread_slot_if_any();
    // relaxed: a thread's own number can only have been stored by itself (or by an ended thread
    // that had it, which this_thread_slot orders); others' do not matter.
    if (favour_.load(std::memory_order_relaxed) != slot) [[unlikely]]
      return nullptr;
    const Mark mark = &marks[slot].of_level[static_cast<unsigned>(level_)];
    if (const Favour* in = mark->load(std::memory_order_relaxed); in != nullptr) [[unlikely]] {
      if (inside != nullptr) *inside = in == this;
      return nullptr;
    }
    // Ordered by the other's membarrier. release: who reads this instead of the nullptr before it
    // sees the section before, too.
    mark->store(this, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // relaxed: the section behind it meets no other thread's writes but those that came before the
    // favour was given.
    if (favour_.load(std::memory_order_relaxed) == slot) [[likely]]
      return mark;
    leave(mark);
    return nullptr;
  }
  // release: pairs with take_away's acquire.
  static void leave(Mark mark) noexcept { mark->store(nullptr, std::memory_order_release); }

  /// Marks the caller's section as one beside others', who is not inside any of this level; it then
  /// looks whether the favour is announced, and if so, leaves. nullptr: the caller cannot be
  /// marked.
  [[nodiscard]] Mark join() noexcept {
    const unsigned slot = this_thread_slot();
    if (slot == kSharedThreadSlot) [[unlikely]]
      return nullptr;
    const Mark mark = &marks[slot].of_level[static_cast<unsigned>(level_)];
    mark->store(as_joined(), std::memory_order_release);  // as in enter; the fences order it
    light_fence();
    return mark;
  }
  /// (owner's lock) After the announcement: nobody who did not see it is inside any more.
  void wait_for_all() noexcept;

  /// How hard it should be to earn: grows by four with each grant, up to 256. What threads really
  /// share pays for heavy fences less and less often. Without the owner's lock a hint.
  [[nodiscard]] uint32_t patience() const noexcept {
    return 1U << 2 * given_.load(std::memory_order_relaxed);
  }
  /// False where the kernel has no fence for others, and for threads beyond kThreadSlots.
  [[nodiscard]] static bool may_be_callers() noexcept {
    return detail::has_heavy_fence && this_thread_slot() != kSharedThreadSlot;
  }
  /// (owner's lock) Nobody has it, and `may_be_callers`.
  void give_to_caller() noexcept {
    const uint8_t given = given_.load(std::memory_order_relaxed);
    given_.store(std::min<uint8_t>(given + 1, kMostPatience), std::memory_order_relaxed);
    favour_.store(this_thread_slot(),
                  std::memory_order_relaxed);  // relaxed: only the caller acts on it
  }
  /// (owner's lock) Nobody has it afterwards; true once nobody is inside by it either.
  bool take_away() noexcept {
    if (revoke()) heavy_fence();
    if (draining_ == kNobody) return true;
    const Mark mark = &marks[draining_].of_level[static_cast<unsigned>(level_)];
    // acquire: pairs with leave; the favoured thread's section is over and seen.
    if (mark->load(std::memory_order_acquire) == this) return false;
    draining_ = kNobody;
    return true;
  }
  /// (owner's lock) The first half of `take_away`, for who takes many away: true: before the second
  /// half, which is `take_away`, a heavy fence is due, one for all of them.
  [[nodiscard]] bool revoke() noexcept {
    // relaxed: changed under the lock only.
    const uint32_t favoured = favour_.load(std::memory_order_relaxed);
    if (favoured == kNobody) return false;
    favour_.store(kNobody, std::memory_order_relaxed);  // relaxed: the fence orders it
    draining_ = favoured;
    return true;
  }
  /// (owner's lock) Nobody has it, or is still inside by it: nothing to take away.
  [[nodiscard]] bool is_free() const noexcept { return !is_given() && draining_ == kNobody; }
  /// Without the owner's lock a hint.
  [[nodiscard]] bool is_given() const noexcept {
    return favour_.load(std::memory_order_relaxed) != kNobody;
  }

 private:
  static constexpr uint32_t kNobody = kThreadSlots;
  static constexpr uint8_t kMostPatience = 4;

  /// Unlike any favour's address.
  [[nodiscard]] const Favour* as_joined() const noexcept {
    return reinterpret_cast<const Favour*>(reinterpret_cast<uintptr_t>(this) + 1);
  }

  // Two lines apart: neighbours are fetched in pairs.
  struct alignas(2 * kCacheLine) Marks {
    std::atomic<const Favour*> of_level[3];
  };
  static std::array<Marks, kThreadSlots> marks;

  std::atomic<uint32_t> favour_{kNobody};  ///< the thread's slot
  uint32_t draining_ = kNobody;            ///< (owner's lock) who had it, and may still be inside
  std::atomic<uint8_t> given_{0};          ///< how often; written under the owner's lock
  const Level level_;
};

}  // namespace weft::base
