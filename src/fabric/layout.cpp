#include "fabric/layout.hpp"

#include <fmt/format.h>

#include <bit>

#include "fabric/packet_ref.hpp"

namespace weft::fabric {

namespace {

constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept {
  return (n + to - 1) / to * to;
}

/// Whether a geometry makes sense; the sentence if not.
std::string_view geometry_fault(const Geometry& g, uint32_t inline_cells) noexcept {
  if (g.ports == 0 || g.ports > kMaxPorts) return "ports must be 1 to 4096";
  if (!std::has_single_bit(g.lane_cells) || !std::has_single_bit(g.control_cells))
    return "lane_cells and control_cells must be powers of two";
  if (inline_cells == 0 || inline_cells > 64) return "inline_cells must be 1 to 64";
  // A frame and the padding before it must fit an empty ring.
  if (g.lane_cells < 2 * inline_cells || g.control_cells < 2 * inline_cells)
    return "lane_cells and control_cells must be at least twice inline_cells";
  if (g.lane_cells > (1u << 24) || g.control_cells > (1u << 24)) return "rings are too long";
  if (g.packet_bytes == 0 || g.packet_bytes % base::kCacheLine != 0 ||
      g.packet_bytes > PacketRef::kMostBytes)
    return "packet_bytes must be a multiple of 64, and 4 MiB at most";
  if (g.packets == 0 || g.packets > PacketRef::kMostPackets) return "packets must be 1 to 2^24";
  return {};
}

}  // namespace

Layout::Layout(const Geometry& geometry, uint32_t lanes, uint32_t exposures) noexcept {
  const auto line = [](std::size_t n) { return round_up(n, base::kCacheLine); };
  active_words = line(round_up(lanes, 64) / 8) / 8;
  ports = kPage;
  active = ports + sizeof(PortControl) * geometry.ports;
  links = active + sizeof(uint64_t) * active_words * geometry.ports;
  generations = line(links + sizeof(uint32_t) * (geometry.packets + kTickets));
  shared = line(generations + sizeof(uint32_t) * exposures);
  lanes_begin = round_up(shared + sizeof(SharedRow) * kSharedRows, kPage);
  lane_bytes = sizeof(LaneHeads) +
               sizeof(Cell) * (std::size_t{geometry.lane_cells} + geometry.control_cells);
  port_lanes_bytes = round_up(lane_bytes * lanes, kPage);
  written = lanes_begin + port_lanes_bytes * geometry.ports;
  packets = round_up(written + sizeof(WrittenLine) * geometry.packets, kPage);
  total = round_up(packets + std::size_t{geometry.packets} * geometry.packet_bytes, kPage);
}

void check_geometry(const Geometry& geometry, uint32_t inline_cells) {
  const std::string_view fault = geometry_fault(geometry, inline_cells);
  if (!fault.empty()) throw Error(Errc::bad_config, fmt::format("fabric: {}", fault));
}

std::string_view header_fault(const SegmentHeader& header, uint64_t job_hash, uint64_t key_hash,
                              int32_t rank, std::size_t bytes) noexcept {
  if (bytes < kPage) return "it is too short";
  // acquire: pairs with the owner's release after it filled the header in.
  if (header.magic.load(std::memory_order_acquire) != kSegmentMagic) return "it is not a segment";
  if (header.version != kSegmentVersion) return "it is of another version";
  if (header.job_hash != job_hash || header.key_hash != key_hash) return "it is of another job";
  if (header.rank != rank) return "it is of another rank";
  if (!geometry_fault(header.geometry, header.inline_cells).empty() || header.lanes == 0 ||
      header.lanes > (1u << 20) || header.exposures > (1u << 24))
    return "its sizes make no sense";
  const Layout layout(header.geometry, header.lanes, header.exposures);
  if (layout.total != header.total_bytes || layout.total > bytes) return "it is too short";
  return {};
}

uint64_t text_hash(std::string_view text) noexcept {
  uint64_t hash = 0x9e3779b97f4a7c15u + text.size();
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  hash *= 0xbf58476d1ce4e5b9u;
  return hash ^ (hash >> 32);
}

}  // namespace weft::fabric
