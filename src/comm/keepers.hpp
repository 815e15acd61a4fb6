// Keepers: who polls which device of late (002 Alg. 2 looks at all of them).
//
// Purpose: to look at a device costs its lines, which whoever polls it all the time then misses. So
// a thread to whose own device nothing comes looks at those that nobody else keeps: one whose
// thread computes, ended or has not begun. Of several that would look, the first keeps it.
//
// Who may call: `note` under the device's lock; `is_anothers` any thread. Wait-free.
// Layout: the marks of eight devices share a line, written once in kNoteUs by each keeper. A wrong
// one costs time only: a device is looked at by two, or not for kStaleUs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::comm {

class Keepers {
 public:
  static constexpr uint64_t kNoteUs = 8;    ///< between two notes of a keeper
  static constexpr uint64_t kStaleUs = 32;  ///< after its last one it keeps the device no more

  Keepers(std::size_t devices, uint64_t ticks_per_us)
      : marks_(std::make_unique<Line[]>((devices + kPerLine - 1) / kPerLine)),
        note_((kNoteUs * ticks_per_us) << kSlotBits),
        stale_((kStaleUs * ticks_per_us) << kSlotBits) {}

  /// (the device's lock) The caller polls it; `last`: the device's copy of its mark.
  void note(uint32_t device, uint64_t& last) noexcept {
    const uint64_t now = mark();
    if (((now ^ last) & kSlots) == 0 && now - last < note_) [[likely]]
      return;
    last = now;
    of(device).store(now, std::memory_order_relaxed);  // relaxed, here and below: hints
  }
  /// Somebody else polls it.
  [[nodiscard]] bool is_anothers(uint32_t device) const noexcept {
    const uint64_t noted = of(device).load(std::memory_order_relaxed);
    const uint64_t now = mark();
    return ((now ^ noted) & kSlots) != 0 && now - noted < stale_;
  }

 private:
  static constexpr unsigned kSlotBits = 10;
  static constexpr uint64_t kSlots = (uint64_t{1} << kSlotBits) - 1;
  static constexpr std::size_t kPerLine = base::kCacheLine / sizeof(uint64_t);
  struct alignas(base::kCacheLine) Line {
    std::atomic<uint64_t> of[kPerLine];
  };

  /// Now, by the calling thread; ticks wrap around after years.
  static uint64_t mark() noexcept {
    return base::ticks() << kSlotBits | (base::this_thread_slot() & kSlots);
  }
  [[nodiscard]] std::atomic<uint64_t>& of(uint32_t device) const noexcept {
    return marks_[device / kPerLine].of[device % kPerLine];
  }

  std::unique_ptr<Line[]> marks_;
  const uint64_t note_;
  const uint64_t stale_;
};

}  // namespace weft::comm
