// The record of a message that arrived before its receive was posted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/wire.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/slot_pool.hpp"
#include "weft/base/types.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

/// Small payloads lie in the record; larger inline ones in a place of their own (kept_bytes.hpp);
/// those that came by reference stay in the sender's packet; of a large message only the
/// announcement is kept. So the memory of a flood is bounded by the tables' sizes, and the sender's
/// `retry`.
struct alignas(base::kCacheLine) Unexpected {
  enum class Holds : uint8_t { inlined, kept, loan, rendezvous };
  static constexpr uint32_t kInlineBytes = 80;

  Rank source{};
  Tag tag{};
  uint32_t bytes = 0;
  uint16_t endpoint = 0;
  uint16_t reply_port = 0;
  Holds holds = Holds::inlined;
  bool wide = false;           // early frames: it brought several packets
  uint32_t kept = 0;           // kept, and early frames: the number of the place
  Unexpected* next = nullptr;  // early frames: in the runtime's list
  union {
    std::byte inlined[kInlineBytes];
    struct {
      const std::byte* place;
      fabric::Loan loan;
    } lent;
    RendezvousBody rendezvous;
  };
  Unexpected() noexcept : inlined{} {}
};
static_assert(sizeof(Unexpected) == 2 * base::kCacheLine);

}  // namespace weft::comm
