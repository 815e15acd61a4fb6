// What a channel counts of its messages and receives (002 §IV).
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread_counters.hpp"

namespace weft::mpi {

/// Sums, since the channel was made. `posted` and the three after it tell how many receives wait.
enum class ChannelCount : uint8_t {
  sent,
  sent_bytes,
  received,
  received_bytes,
  announced,        ///< sent by rendezvous
  stalls,           ///< sends that found no room
  out_of_sequence,  ///< messages that overtook an earlier one between devices
  posted,           ///< receives that began to wait
  met_posted,       ///< messages that met a receive that waited
  withdrawn,        ///< receives that waited and were taken back, or whose sender died
  unexpected,       ///< messages that began to wait
  met_unexpected,   ///< receives, and probes that take, that met a message that waited
  passed,           ///< entries that searches looked at and that did not fit
  match_ns,         ///< time in searches (mpi.match_times)
  combined,         ///< messages whose elements were combined as they came
  calls_begun,      ///< blocking calls that had to wait, or might have
  calls_over,       ///< those of them that need the communicator no more
  kCount
};

/// Owner: a channel, whose communicators come one after the other: each counts from `restart` on.
/// Who may call: `add`, `note_peak`, reads: any thread; `restart` whoever closes the channel.
/// Cost: an addition is a load and a store in a line of the calling thread's own.
class ChannelCounts {
 public:
  void add(ChannelCount what, uint64_t n = 1) noexcept { cells_.add(index(what), n); }
  /// A message of so many bytes.
  void add(ChannelCount messages, ChannelCount bytes, uint64_t n) noexcept {
    auto mine = cells_.mine();
    mine.add(index(messages));
    mine.add(index(bytes), n);
  }
  /// Messages of so many bytes in all came to their receives, which `waited` for them.
  void note_received(uint64_t messages, uint64_t bytes, bool waited) noexcept {
    auto mine = cells_.mine();
    mine.add(index(ChannelCount::received), messages);
    mine.add(index(ChannelCount::received_bytes), bytes);
    if (waited) mine.add(index(ChannelCount::met_posted), messages);
  }
  /// Since the channel was made.
  [[nodiscard]] uint64_t total(ChannelCount what) const noexcept {
    return cells_.read(index(what));
  }
  /// Since its communicator got it.
  [[nodiscard]] uint64_t now(ChannelCount what) const noexcept {
    // relaxed, here and below: counters order nothing.
    return total(what) - before_[index(what)].load(std::memory_order_relaxed);
  }
  /// Receives that wait, or into which a message is just being put.
  [[nodiscard]] uint64_t posted() const noexcept {
    const auto length =
        static_cast<int64_t>(total(ChannelCount::posted) - total(ChannelCount::met_posted) -
                             total(ChannelCount::withdrawn));
    return length > 0 ? static_cast<uint64_t>(length) : 0;  // sums of different moments
  }
  /// Since the channel was made, or since its communicator got it.
  [[nodiscard]] uint64_t most_posted(bool whole_life) const noexcept {
    return read(most_posted_, whole_life);
  }
  [[nodiscard]] uint64_t most_unexpected(bool whole_life) const noexcept {
    return read(most_unexpected_, whole_life);
  }
  /// A blocking call begins to rely on the communicator, and is done with it.
  void begin_call() noexcept { add(ChannelCount::calls_begun); }
  void end_call() noexcept {
    // release: pairs with has_calls' acquire: the communicator may go.
    cells_.mine().add(index(ChannelCount::calls_over), 1, std::memory_order_release);
  }
  /// Whether there is such a call that began before this one.
  [[nodiscard]] bool has_calls() const noexcept {
    // Those that are over first: one that begins and ends meanwhile counts as if it went on.
    const uint64_t over = cells_.read(index(ChannelCount::calls_over), std::memory_order_acquire);
    return total(ChannelCount::calls_begun) != over;
  }
  void note_posted(uint64_t length) noexcept { raise(most_posted_.now, length); }
  void note_unexpected(uint64_t length) noexcept { raise(most_unexpected_.now, length); }

  /// The next communicator begins at 0.
  void restart() noexcept {
    for (std::size_t i = 0; i < kCounts; ++i) {
      before_[i].store(cells_.read(i), std::memory_order_relaxed);
    }
    for (Most* most : {&most_posted_, &most_unexpected_}) {
      raise(most->before, most->now.load(std::memory_order_relaxed));
      most->now.store(0, std::memory_order_relaxed);
    }
  }

 private:
  struct Most {
    std::atomic<uint64_t> now{0};
    std::atomic<uint64_t> before{0};  ///< of earlier communicators
  };
  static uint64_t read(const Most& most, bool whole_life) noexcept {
    const uint64_t now = most.now.load(std::memory_order_relaxed);
    return whole_life ? std::max(now, most.before.load(std::memory_order_relaxed)) : now;
  }
  static constexpr std::size_t kCounts = static_cast<std::size_t>(ChannelCount::kCount);
  static constexpr std::size_t index(ChannelCount what) noexcept {
    return static_cast<std::size_t>(what);
  }
  static void raise(std::atomic<uint64_t>& most, uint64_t length) noexcept {
    uint64_t seen = most.load(std::memory_order_relaxed);
    while (seen < length && !most.compare_exchange_weak(seen, length, std::memory_order_relaxed)) {
    }
  }

  base::MappedThreadCounters<kCounts> cells_;
  std::array<std::atomic<uint64_t>, kCounts> before_{};
  Most most_posted_;
  Most most_unexpected_;
};

}  // namespace weft::mpi
