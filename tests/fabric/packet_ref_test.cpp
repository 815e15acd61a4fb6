// What of a packet a frame lends: there and back in one word, and nothing that its owner has not.
#include "fabric/packet_ref.hpp"

#include <gtest/gtest.h>

#include <bit>

#include "fabric/layout.hpp"
#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

Geometry of_packets(uint32_t packets, uint32_t bytes) {
  Geometry geometry;
  geometry.packets = packets;
  geometry.packet_bytes = bytes;
  return geometry;
}

TEST(PacketRef, NamesAnyPartThatThereMayBe) {
  for (const Geometry& owners : {of_packets(1, 64), of_packets(256, 64 << 10),
                                 of_packets(PacketRef::kMostPackets, PacketRef::kMostBytes)}) {
    EXPECT_NO_THROW(check_geometry(owners, 1));
    const uint32_t last = owners.packets - 1;
    const uint32_t whole = owners.packet_bytes;
    for (const PacketPart part :
         {PacketPart{0, 0, 0}, PacketPart{last, whole, 0}, PacketPart{last, 64, whole - 64},
          PacketPart{0, 0, whole - 64}, PacketPart{last, whole / 2, whole / 128 * 64}}) {
      const auto got = PacketRef(part).part(owners);
      ASSERT_TRUE(got.has_value());
      EXPECT_EQ(*got, part) << part.index << ' ' << part.bytes << ' ' << part.offset;
    }
  }
}

TEST(PacketRef, NamesNothingElse) {
  const Geometry owners = of_packets(256, 64 << 10);
  for (const PacketPart part :
       {PacketPart{256, 1, 0}, PacketPart{0, (64 << 10) + 1, 0}, PacketPart{0, 1, 64 << 10},
        PacketPart{0, 65, (64 << 10) - 64}, PacketPart{255, 64 << 10, 64}}) {
    EXPECT_FALSE(PacketRef(part).part(owners).has_value())
        << part.index << ' ' << part.bytes << ' ' << part.offset;
  }
  // Whatever a stranger writes.
  uint64_t random = 0x9e3779b97f4a7c15;
  int named = 0;
  for (int time = 0; time < 100'000; ++time) {
    random ^= random << 13U;
    random ^= random >> 7U;
    random ^= random << 17U;
    constexpr uint64_t kLikely = 0x03ff'00ffff'0001ff;  // these bits alone: it may well be one
    const uint64_t word = time % 2 == 0 ? random & kLikely : random;
    if (const auto part = std::bit_cast<PacketRef>(word).part(owners)) {
      ++named;
      EXPECT_LT(part->index, owners.packets);
      EXPECT_LE(uint64_t{part->offset} + part->bytes, owners.packet_bytes);
    }
  }
  EXPECT_GT(named, 1'000);
  EXPECT_LT(named, 49'000);
}

TEST(PacketRef, LongerPacketsAreRefused) {
  EXPECT_THROW(check_geometry(of_packets(16, PacketRef::kMostBytes + 64), 1), Error);
  EXPECT_THROW(check_geometry(of_packets(PacketRef::kMostPackets + 1, 64), 1), Error);
}

}  // namespace
}  // namespace weft::fabric
