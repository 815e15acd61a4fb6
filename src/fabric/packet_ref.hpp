// How a frame says what of a packet it lends: number, length and place in one word.
#pragma once

#include <cstdint>
#include <optional>

#include "weft/base/cache_line.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

/// A PacketPart as it travels. Parts begin at a line.
class PacketRef {
 public:
  static constexpr uint32_t kMostPackets = 1U << 24;
  static constexpr uint32_t kMostBytes = 1U << 22;  ///< of a packet

  PacketRef() = default;
  explicit PacketRef(PacketPart part) noexcept
      : word_(uint64_t{part.index} | uint64_t{part.bytes} << kBytesAt |
              uint64_t{part.offset / kLine} << kLineAt) {}

  /// What it names of a rank whose packets are such; nothing, if it has no such packet, or it is
  /// longer or elsewhere. The word may come from anybody.
  [[nodiscard]] std::optional<PacketPart> part(const Geometry& owners) const noexcept {
    const PacketPart part{static_cast<uint32_t>(word_ & (kMostPackets - 1)),
                          static_cast<uint32_t>(word_ >> kBytesAt & ((1U << kBytesBits) - 1)),
                          static_cast<uint32_t>(word_ >> kLineAt) * kLine};
    if (part.index >= owners.packets || !is_within(part.offset, part.bytes, owners)) return {};
    return part;
  }
  [[nodiscard]] static bool is_within(uint32_t offset, uint32_t bytes,
                                      const Geometry& owners) noexcept {
    return bytes <= owners.packet_bytes && offset <= owners.packet_bytes - bytes;
  }

 private:
  static constexpr uint32_t kLine = base::kCacheLine;
  static constexpr unsigned kBytesAt = 24;
  static constexpr unsigned kBytesBits = 24;
  static constexpr unsigned kLineAt = kBytesAt + kBytesBits;
  static_assert(kMostPackets == 1U << kBytesAt && kMostBytes / kLine == 1U << (64 - kLineAt));

  uint64_t word_ = 0;
};
static_assert(sizeof(PacketRef) == 8);

}  // namespace weft::fabric
