// Keepers: who polls which device of late (002 Alg. 2 looks at all of them).
//
// Purpose: to look at a device costs its lines, which whoever polls it all the time then misses. So
// a thread to whose own device nothing comes looks at those that nobody else keeps: one whose
// thread computes, ended or has not begun. Of several that would look, the first keeps it.
//
// Who may call: `note` under the device's lock; `is_anothers` any thread. Wait-free.
// Layout: the marks of eight devices share a line, written once in kNoteUs by each keeper. A wrong
// one costs time only: a device is looked at by two, or not for kStaleUs. Who comes by now and then
// (a task's worker between tasks, a consumer that works on each message) keeps nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::comm {

class Keepers {
 public:
  static constexpr uint64_t kNoteUs = 8;    ///< between two polls of a keeper at most; of its notes
  static constexpr uint64_t kStaleUs = 16;  ///< after its last one it keeps the device no more

  /// What a device has noted, in its own lines.
  struct Polls {
    uint64_t last = 0;
    uint64_t noted = 0;
  };

  Keepers(std::size_t devices, uint64_t ticks_per_us)
      : marks_(std::make_unique<Line[]>((devices + kPerLine - 1) / kPerLine)),
        note_((kNoteUs * ticks_per_us) << kSlotBits),
        stale_((kStaleUs * ticks_per_us) << kSlotBits) {}

  /// (the device's lock) The caller polls it.
  void note(uint32_t device, Polls& polls) noexcept {
    const uint64_t now = mark();
    if (!is_within(note_, now, std::exchange(polls.last, now)) ||
        is_within(note_, now, polls.noted)) {
      return;
    }
    polls.noted = now;
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

  /// Both by one thread.
  static bool is_within(uint64_t span, uint64_t now, uint64_t before) noexcept {
    return ((now ^ before) & kSlots) == 0 && now - before < span;
  }
  /// Now, by the calling thread. It wraps around after months, when a device may seem kept once.
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
