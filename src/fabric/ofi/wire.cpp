#include "fabric/ofi/wire.hpp"

#include <cstring>

namespace weft::fabric::ofi {

namespace {

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
  const bool is_report = header.kind == WireKind::report;
  if (header.flags > (is_report ? kAsks | kAnswers : 0) || !is_length_right(header, limits))
    return std::nullopt;
  const auto head = bytes.first(sizeof header + header.length);
  const auto after = bytes.subspan(head.size());
  return Decoded{header,
                 head,
                 head.subspan(sizeof header),
                 after.first(limits.tag_bytes),
                 after.subspan(limits.tag_bytes, header.bytes),
                 head.size() + limits.tag_bytes + header.bytes};
}

}  // namespace weft::fabric::ofi
