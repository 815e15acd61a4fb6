// Small dense thread numbers: a bitmap of the numbers in use.
//
// Who may call: any thread. Lock-free, so that a fork at any moment leaves nothing locked.
// Invariants:
//  1. A set bit belongs to exactly one live thread, which clears it when it ends.
//  2. `used` never falls and exceeds every number ever answered.
//  3. The last number's bit is never claimed: it is for all threads that found no other, and they
//     give nothing back.
#include "weft/base/thread_slot.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "base/at_thread_exit.hpp"

namespace weft::base {

constinit thread_local unsigned detail::my_slot = detail::kNoSlot;

namespace {

using detail::my_slot;
constexpr unsigned kNone = detail::kNoSlot;
constexpr unsigned kWordBits = 64;
static_assert(kThreadSlots % kWordBits == 0);

constexpr uint64_t kShared = uint64_t{1} << (kSharedThreadSlot % kWordBits);
constinit std::array<std::atomic<uint64_t>, kThreadSlots / kWordBits> in_use{};
static_assert(kSharedThreadSlot / kWordBits == in_use.size() - 1);
constinit std::atomic<unsigned> used{0};

/// The lowest clear bit, now set; kNone if all but the shared one are set.
unsigned claim() noexcept {
  for (unsigned word = 0; word < in_use.size(); ++word) {
    // relaxed: the exchange below decides.
    uint64_t bits = in_use[word].load(std::memory_order_relaxed);
    const uint64_t all = word == in_use.size() - 1 ? ~kShared : ~uint64_t{0};
    while (bits != all) {
      const unsigned bit = static_cast<unsigned>(std::countr_one(bits));
      // acquire: pairs with release_slot's release; what the number's last thread did through it
      // is seen by its new one.
      if (in_use[word].compare_exchange_weak(bits, bits | uint64_t{1} << bit,
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
        return word * kWordBits + bit;
      }
    }
  }
  return kNone;
}

void release_slot(void* slot_plus_one) noexcept {
  const auto slot = static_cast<unsigned>(reinterpret_cast<uintptr_t>(slot_plus_one) - 1);
  my_slot = kNone;
  // release: pairs with claim's acquire.
  in_use[slot / kWordBits].fetch_and(~(uint64_t{1} << (slot % kWordBits)),
                                     std::memory_order_release);
}

}  // namespace

unsigned detail::take_slot() noexcept {
  unsigned slot = claim();
  if (slot != kNone) {
    AtThreadExit<release_slot>::arm(reinterpret_cast<void*>(uintptr_t{slot} + 1));
  } else {
    slot = kSharedThreadSlot;
  }
  my_slot = slot;
  unsigned seen = used.load(std::memory_order_relaxed);
  // release: pairs with thread_slots_used's acquire.
  while (seen <= slot && !used.compare_exchange_weak(seen, slot + 1, std::memory_order_release,
                                                     std::memory_order_relaxed)) {
  }
  return slot;
}

unsigned thread_slots_used() noexcept {
  // acquire: pairs with take_slot's release.
  return used.load(std::memory_order_acquire);
}

}  // namespace weft::base
