// The physical limits that figures are measured against, as functions that other benchmarks call
// in their own runs. Each file's head says what is measured.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/pair.hpp"

namespace weft::bench {

/// Page-aligned private memory, touched.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::byte* data_;
  std::size_t bytes_;
};

// cache_line.cpp ---------------------------------------------------------------------------------
/// ns from a store to the load that sees it on the other side: half of a round trip over two lines,
/// each written by one side. Both sides call it together with their number.
double cache_line_one_way_ns(std::atomic<uint64_t>& line0, std::atomic<uint64_t>& line1, int side,
                             unsigned round_trips);
/// The same between two threads of rank 0, bound to the two ranks' cores; rank 1 should sleep.
double thread_one_way_ns(Pair& pair, unsigned round_trips);

/// ns from the sender's first copying instruction to the receiver's last, half of a round trip:
/// copied into shared memory, a flag, and (if `read`) copied out again. bytes ≤ 1 MiB.
double copied_one_way_ns(Pair& pair, const Buffer& buffer, bool read, unsigned round_trips);

// ring.cpp ---------------------------------------------------------------------------------------
/// Items a second through a ring of `cells` 64-byte cells in shared memory, rank 0 producing, rank
/// 1 consuming; with a window: the producer waits for an acknowledgement after each `window` items.
double ring_rate(Pair& pair, std::size_t cells, unsigned window, double seconds);
/// The same through a ring without indices, whose cells are marked full and empty in place.
double flag_ring_rate(Pair& pair, std::size_t cells, double seconds);

// copy.cpp ---------------------------------------------------------------------------------------
/// memcpy between buffers of one process.
class CopyLimit {
 public:
  CopyLimit(std::size_t bytes, std::size_t slots);
  /// Bytes a second, going round the slots.
  double rate(double seconds);

 private:
  std::size_t bytes_, slots_;
  Buffer from_, to_;
};

/// Cross-memory attach: rank 1 reads buffers of rank 0's process with process_vm_readv.
class AttachLimit {
 public:
  AttachLimit(Pair& pair, std::size_t bytes, std::size_t slots);
  /// Bytes a second, one call per slot, going round. Both call; rank 1 measures, both know. 0: the
  /// kernel refuses.
  double rate(double seconds);
  /// ns from a flag to the reader's answer that it has read one slot, less the answer's way.
  double one_way_ns(unsigned round_trips);

 private:
  bool read_slot(std::size_t slot);
  Pair& pair_;
  std::size_t bytes_, slots_;
  Buffer mine_;
  uint64_t theirs_;
};

/// How hand_over_rate writes; it reads by copy_bytes, but for `c_library`.
enum class HandOverBy : uint8_t { c_library, cached, nontemporal };
/// Bytes a second that a core writes for another one and reads of what that wrote, in turns:
/// `bytes` over the time of both copies. Private memory lies 16 bytes behind a page, as malloc's
/// does; what is shared at a line, as packets do. bytes ≤ 1 MiB. Both call; each has its own
/// figure.
double hand_over_rate(Pair& pair, HandOverBy by, std::size_t bytes, double seconds);

// futex.cpp --------------------------------------------------------------------------------------
/// ns for two threads of this process to wake each other once each (wake and wait, both ways). The
/// partner is bound to `core`; negative: left where the caller is.
double futex_round_trip_ns(int core, double seconds);

// system.cpp -------------------------------------------------------------------------------------
double system_call_ns();
double yield_ns();
double clock_ns();

}  // namespace weft::bench
