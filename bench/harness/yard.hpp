// The yard: a page range that two ranks share beside the library under test, so that the
// benchmark's own coordination, and the physical limits, never pass through it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "weft/base/cache_line.hpp"

namespace weft::fabric {
class Job;
}

namespace weft::bench {

/// A cell of the limit ring: what one cache line can carry.
struct alignas(base::kCacheLine) RingCell {
  std::atomic<uint64_t> full;  // of the flag ring only
  uint64_t payload[7];
};
static_assert(sizeof(RingCell) == base::kCacheLine);

/// What lies in the shared memory. Zeroed when made; every field that one side writes and the
/// other reads stands on a line of its own.
struct YardMemory {
  static constexpr std::size_t kRingCells = 4096;
  static constexpr std::size_t kBulkBytes = std::size_t{1} << 20;
  static constexpr std::size_t kEntries = 256;
  struct alignas(base::kCacheLine) Side {
    std::atomic<uint32_t> arrived;  // meetings this side has come to; the other's futex word
    std::atomic<uint32_t> asleep;   // this side sleeps on the other's `arrived`
    uint64_t words[30];             // published by `meet`
  };
  struct alignas(base::kCacheLine) Line {
    std::atomic<uint64_t> value;
  };
  struct Entry {
    char key[64];
    char value[1984];
  };
  Side side[2];
  Line ping[2];
  Line stop;
  Line ring_written;  // items that the producer has put
  Line ring_emptied;  // items that the consumer has read
  Line note[4];       // free for the running benchmark
  std::atomic<uint32_t> entries;
  Entry entry[kEntries];
  alignas(4096) RingCell ring[kRingCells];
  alignas(4096) RingCell flag_ring[kRingCells];  // empty between turns
  alignas(4096) std::byte bulk[2][kBulkBytes];
};

/// One side's view of the yard. Made collectively by the two ranks of a job on one node. Nothing
/// of it has a name in the file system.
class Yard {
 public:
  explicit Yard(fabric::Job& job);
  ~Yard();
  Yard(const Yard&) = delete;
  Yard& operator=(const Yard&) = delete;

  [[nodiscard]] int side() const noexcept { return side_; }
  [[nodiscard]] YardMemory& memory() const noexcept { return *memory_; }

  /// Both sides have called it; what either wrote before is visible to the other. Spins for about
  /// 100 µs and then sleeps, so that one side may work alone for long without a rival for caches.
  void meet() noexcept;

  /// meet, with words: publishes `mine` as word `index` of this side and returns the other's.
  uint64_t trade(uint64_t mine, std::size_t index = 0) noexcept;

 private:
  int side_ = 0;
  YardMemory* memory_ = nullptr;
  uint32_t meetings_ = 0;
};

/// A job of the same two ranks whose wire is the yard: so that a benchmark can make transports of
/// its own, as often as it likes, beside a runtime's.
std::unique_ptr<fabric::Job> make_yard_job(Yard& yard, fabric::Job& original);

/// Waits until `ready()`: polls, and gives the core away now and then in case both sides share it.
template <class Ready>
void spin_until(Ready ready) noexcept;

void yield_core() noexcept;

template <class Ready>
void spin_until(Ready ready) noexcept {
  constexpr unsigned kPolls = 20000;
  for (unsigned polls = 0; !ready(); ++polls) {
    if (polls == kPolls) {
      yield_core();
      polls = 0;
    }
  }
}

}  // namespace weft::bench
