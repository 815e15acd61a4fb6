// What a rank's segment contains and where: the bytes that processes of one node agree on.
//
//   header | port controls | active-lane bitmaps | return links | exposure generations |
//   shared-allocation rows | lanes of port 0, 1, … | how far packets are written | packets
//
// Lanes and packets begin on pages of their own and are not touched before they are used, so they
// are address space, not memory. Lane l of every port belongs to the l-th rank of the node: no
// claim can be lost, and a lane's owner is known by its number.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/base/cache_line.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

inline constexpr uint64_t kSegmentMagic = 0x31304d4853544657;  // "WFTSHM01"
inline constexpr uint32_t kSegmentVersion = 4;
inline constexpr uint32_t kMaxPorts = 4096;   ///< a frame's control word has 12 bits for it
inline constexpr uint32_t kSharedRows = 256;  ///< shared allocations of a rank at one time
inline constexpr std::size_t kPage = 4096;

/// The first page of a segment. Written by its owner before the job's fence, then read only, but
/// for `left`.
struct alignas(base::kCacheLine) SegmentHeader {
  std::atomic<uint64_t> magic;  ///< stored last, release; whoever attaches loads it with acquire
  uint32_t version;
  uint32_t lanes;        ///< per port: the ranks of the node
  uint64_t job_hash;     ///< of the job's id
  uint64_t key_hash;     ///< of the job's secret
  uint64_t total_bytes;  ///< of the segment
  int32_t rank;
  uint32_t inline_cells;    ///< most cells of a frame on this rank's lanes
  Geometry geometry;        ///< ports, rings and packets of this rank
  uint32_t exposures;       ///< rows of the exposure table
  uint32_t has_membarrier;  ///< 0: senders fence between publishing and looking for a sleeper
  uint64_t self_address;    ///< of this header in its owner's process: what a CMA probe reads
  int64_t pid;
  uint64_t start_time;  ///< of that process, so that a reused pid is noticed
  /// Not 0: the owner ended its transport. release; pairs with acquire in Peer::left().
  alignas(base::kCacheLine) std::atomic<uint32_t> left;
};
static_assert(sizeof(SegmentHeader) <= kPage);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

/// What senders and the poller of a port share besides rings.
struct alignas(base::kCacheLine) PortControl {
  enum State : uint32_t { closed = 0, open = 1 };

  // This line is read by every sender for each message and written only around sleep and set-up.
  std::atomic<uint32_t> asleep;       ///< 0: awake; else the number of this sleep (doorbell.hpp)
  std::atomic<uint32_t> state;        ///< release by the owner, acquire by senders' first use
  std::atomic<uint32_t> activations;  ///< how many bits were set in the port's active bitmap
  int32_t bell_fd;                    ///< the pipe's number in the owner's process
  uint64_t bell_inode;                ///< of that pipe, so that a reused number is noticed

  /// Packets that came back: number + 1 of the last one pushed, 0 for none (returns.hpp).
  alignas(base::kCacheLine) std::atomic<uint32_t> returned;
};
static_assert(sizeof(PortControl) == 2 * base::kCacheLine);

/// Where a peer finds one shared allocation of this rank.
struct SharedRow {
  std::atomic<uint32_t> segment;  ///< its number, 0 for a free row; stored last, release
  int32_t fd;                     ///< in the owner's process (memfd backing)
  uint64_t inode;
  uint64_t bytes;
  uint64_t address;  ///< in the owner's process
};
static_assert(sizeof(SharedRow) == 32);

/// One cell of a ring: a cache line.
struct alignas(base::kCacheLine) Cell {
  std::byte bytes[base::kCacheLine];
};

/// Begins a lane; its rings follow. Written by the consumer, read by the producer when its copy
/// says that the ring is full.
struct alignas(base::kCacheLine) LaneHeads {
  std::atomic<uint64_t> messages;
  std::atomic<uint64_t> control;
};
static_assert(sizeof(LaneHeads) == base::kCacheLine);

/// How far what begins with a packet is written (Port::try_send_open).
struct alignas(base::kCacheLine) WrittenLine {
  std::atomic<uint32_t> bytes;
};

/// Offsets of the parts of a segment with a given geometry.
struct Layout {
  explicit Layout(const Geometry& geometry, uint32_t lanes, uint32_t exposures) noexcept;

  std::size_t ports, active, links, generations, shared, lanes_begin, written, packets, total;
  std::size_t active_words;  ///< of one port's bitmap
  std::size_t lane_bytes;    ///< from one lane to the next
  std::size_t port_lanes_bytes;

  [[nodiscard]] std::size_t lane_at(uint32_t port, uint32_t lane) const noexcept {
    return lanes_begin + port * port_lanes_bytes + lane * lane_bytes;
  }
};

/// A mapped segment, own or a peer's: typed access to its parts. Plain data.
class SegmentView {
 public:
  SegmentView(std::byte* base, const Layout& layout) noexcept : base_(base), layout_(layout) {}

  [[nodiscard]] SegmentHeader& header() const noexcept { return at<SegmentHeader>(0); }
  [[nodiscard]] PortControl& port(uint32_t p) const noexcept {
    return (&at<PortControl>(layout_.ports))[p];
  }
  [[nodiscard]] std::atomic<uint64_t>* active(uint32_t p) const noexcept {
    return &at<std::atomic<uint64_t>>(layout_.active) + p * layout_.active_words;
  }
  [[nodiscard]] std::atomic<uint32_t>* links() const noexcept {
    return &at<std::atomic<uint32_t>>(layout_.links);
  }
  [[nodiscard]] std::atomic<uint32_t>& generation(uint32_t slot) const noexcept {
    return (&at<std::atomic<uint32_t>>(layout_.generations))[slot];
  }
  [[nodiscard]] SharedRow& shared_row(uint32_t row) const noexcept {
    return (&at<SharedRow>(layout_.shared))[row];
  }
  [[nodiscard]] LaneHeads& heads(uint32_t port, uint32_t lane) const noexcept {
    return at<LaneHeads>(layout_.lane_at(port, lane));
  }
  [[nodiscard]] Cell* message_cells(uint32_t port, uint32_t lane) const noexcept {
    return &at<Cell>(layout_.lane_at(port, lane) + sizeof(LaneHeads));
  }
  [[nodiscard]] Cell* control_cells(uint32_t port, uint32_t lane) const noexcept {
    return message_cells(port, lane) + header().geometry.lane_cells;
  }
  /// Of an open packet: a cache line each, since sender and receiver pass it to and fro.
  [[nodiscard]] std::atomic<uint32_t>& written(uint32_t index) const noexcept {
    return (&at<WrittenLine>(layout_.written))[index].bytes;
  }
  [[nodiscard]] std::byte* packet(uint32_t index) const noexcept {
    return base_ + layout_.packets + std::size_t{index} * header().geometry.packet_bytes;
  }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }

 private:
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) const noexcept {
    return *reinterpret_cast<T*>(base_ + offset);
  }
  std::byte* base_;
  Layout layout_;
};

/// Throws Error(bad_config) with a sentence if `geometry` cannot be laid out.
void check_geometry(const Geometry& geometry, uint32_t inline_cells);

/// What is wrong with a peer's header, or empty. `bytes`: how much of it is mapped or mappable.
std::string_view header_fault(const SegmentHeader& header, uint64_t job_hash, uint64_t key_hash,
                              int32_t rank, std::size_t bytes) noexcept;

/// A 64-bit hash of `text`, the same in all processes.
uint64_t text_hash(std::string_view text) noexcept;

}  // namespace weft::fabric
