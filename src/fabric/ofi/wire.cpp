#include "fabric/ofi/wire.hpp"

#include <cstring>

namespace weft::fabric::ofi {

namespace {

/// Bytes of the numbers that follow the body.
uint32_t along(const WireHeader& header) noexcept {
  return takes_along(header.kind) ? header.flags * uint32_t{sizeof(uint32_t)} : 0;
}

bool are_flags_right(const WireHeader& header) noexcept {
  if (takes_along(header.kind)) return header.flags <= kMostAlong && along(header) <= header.length;
  return header.flags <= (header.kind == WireKind::report ? kAsks | kAnswers : 0);
}

/// Whether so many bytes, of a packet so many, may follow a header of this kind.
bool is_length_right(const WireHeader& header, const WireLimits& limits) noexcept {
  if (header.kind != WireKind::packet && (header.bytes != 0 || header.index != 0)) return false;
  switch (header.kind) {
    case WireKind::message:
    case WireKind::control:
      return header.length <= limits.most_length;
    case WireKind::packet:
      return header.bytes <= limits.most_packet &&
             header.length + uint64_t{limits.packet_words} <= limits.most_length;
    case WireKind::returns:
      return header.length != 0 && header.length % sizeof(uint32_t) == 0 &&
             header.length <= limits.most_length;
    case WireKind::read:
      return header.length == sizeof(ReadBody);
    case WireKind::unread:
      return header.length == sizeof(uint64_t);
    case WireKind::leave:
      return header.length == 0;
    case WireKind::report:
      return header.length == sizeof(ReportBody);
  }
  return false;
}

}  // namespace

std::optional<Decoded> decode(std::span<const std::byte> bytes, const WireLimits& limits) noexcept {
  WireHeader header;
  if (bytes.size() < sizeof header + limits.tag_bytes) return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t rest = bytes.size() - sizeof header - limits.tag_bytes;
  if (header.stamp != limits.stamp || header.source >= limits.ranks ||
      header.source == limits.self || header.length > rest || header.bytes > rest - header.length)
    return std::nullopt;
  if (!are_flags_right(header) || !is_length_right(header, limits)) return std::nullopt;
  const auto head = bytes.first(sizeof header + header.length);
  const auto rest_of_head = head.subspan(sizeof header);
  const auto body = rest_of_head.first(header.length - along(header));
  const bool are_all = header.kind == WireKind::returns;
  const auto after = bytes.subspan(head.size());
  return Decoded{header,
                 head,
                 body,
                 are_all ? body : rest_of_head.subspan(body.size()),
                 after.first(limits.tag_bytes),
                 after.subspan(limits.tag_bytes, header.bytes),
                 head.size() + limits.tag_bytes + header.bytes};
}

}  // namespace weft::fabric::ofi
