// Places for the bytes of short messages that nobody has taken yet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/records.hpp"
#include "weft/base/slot_pool.hpp"

namespace weft::comm {

/// What came in a ring's cells and waits for its receive, its queue's turn or its endpoint, lies in
/// one of `count` places of `bytes` each. Apart from the packets, of which this rank sends: what
/// others send it never keeps it from sending. Memory where it was used. Thread-safe.
class KeptBytes {
 public:
  static constexpr uint32_t kNone = base::SlotPool::kNone;

  /// Throws Error(no_memory).
  KeptBytes(uint32_t count, std::size_t bytes)
      : bytes_(bytes),
        area_bytes_(count * bytes),
        free_(count),
        area_(base::map_records(area_bytes_)) {}
  ~KeptBytes() { base::unmap_records(area_, area_bytes_); }
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

  /// A place's number, or kNone if none is free.
  [[nodiscard]] uint32_t allocate() noexcept { return free_.alloc(); }
  void release(uint32_t place) noexcept { free_.free(place); }
  [[nodiscard]] std::byte* operator[](uint32_t place) const noexcept {
    return area_ + place * bytes_;
  }
  /// Of one place.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// All are taken; exact only when nothing moves.
  [[nodiscard]] bool are_out() const noexcept { return free_.available() == 0; }

 private:
  std::size_t bytes_;
  std::size_t area_bytes_;
  base::SlotPool free_;
  std::byte* area_;  // last, as in Records
};

}  // namespace weft::comm
