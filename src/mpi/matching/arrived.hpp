// The record of a message that came before its receive.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/entry.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/comm/matcher.hpp"

namespace weft::mpi {

class Channel;

/// Small payloads lie in the record, larger ones in memory of their own: packets, the sender's or
/// ours, would be missed by other messages. Of an announced one only the announcement is kept, and
/// its bytes if they came along.
/// What it costs is bounded per sender (messages/flow.cpp).
struct alignas(base::kCacheLine) Arrived : Entry {
  enum class Holds : uint8_t { inlined, heap, announced, brought };
  static constexpr std::size_t kInlineBytes = 64;

  Channel* channel = nullptr;
  uint64_t bytes = 0;     ///< of the message
  uint32_t sequence = 0;  ///< while it waits for an earlier one (messages/arriving.cpp)
  Holds holds = Holds::inlined;
  uint8_t kind = 0;
  std::byte* brought = nullptr;  ///< what came with the announcement
  union {
    std::byte inlined[kInlineBytes];
    std::byte* heap;
    Announcement announcement;
  };
  Arrived() noexcept : inlined{} {}
  [[nodiscard]] bool is_announced() const noexcept { return holds >= Holds::announced; }
};
static_assert(sizeof(Arrived) == 3 * base::kCacheLine);

}  // namespace weft::mpi
