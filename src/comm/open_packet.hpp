// Open packets: lent while their sender still writes them, so that the copies at both ends run side
// by side; or whole, several at once (docs/design/protocols.md, "Open packets").
//
// Invariants
//
// 1. The sender writes front to back and tells how far it is (`written`, release); a receiver
//    reads no byte behind that (acquire).
// 2. The sender's buffer stays as it is until all is written, which is told last. So what a
//    receiver read *there* holds if it finds afterwards that not all is written: nobody waits for a
//    sender who has lost his core, or was stopped.
// 3. A packet that came back is free only when its writer is done with it (PacketStates;
//    SharedPackets, where several ranks read it).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "comm/copy_ways.hpp"
#include "weft/base/buffers.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/error.hpp"
#include "weft/comm/matcher.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

/// What a rank knows of its packets that are out. Any thread.
class PacketStates {
 public:
  explicit PacketStates(uint32_t packets)
      : states_(std::make_unique<std::atomic<uint8_t>[]>(packets)),
        last_(std::make_unique<LastUse[]>(packets)) {}

  /// Where to write so many of a packet's `size` bytes: behind what was written last, and from the
  /// front where that has no room. So lines that its last reader has are not written soon.
  [[nodiscard]] uint32_t place(uint32_t index, uint32_t bytes, uint32_t size) noexcept {
    uint32_t& end = last_[index].end;
    const uint32_t at = bytes <= size - end ? end : 0;
    end = std::min(size, (at + bytes + kLine - 1) / kLine * kLine);
    return at;
  }
  /// Before so many bytes of a packet's `size` are written: who is to read them next, one of
  /// Readers'. Who read last what lay there; kNobody also where that is not one.
  [[nodiscard]] Rank exchange_reader(const fabric::PacketPart& part, uint32_t size,
                                     Rank next) noexcept {
    const uint32_t quarter = size / 4;
    const auto quarter_of = [=](uint32_t at) {
      return uint32_t{at >= quarter} + uint32_t{at >= 2 * quarter} + uint32_t{at >= 3 * quarter};
    };
    Rank(&readers)[4] = last_[part.index].readers;
    uint32_t i = quarter_of(part.offset);
    const uint32_t end = quarter_of(part.offset + std::max(part.bytes, 1U) - 1);
    Rank last = readers[i];
    for (; i <= end; ++i) {
      if (std::exchange(readers[i], next) != last) last = Readers::kNobody;
    }
    return last;
  }
  /// It was written, but not lent: its lines are in this core's caches.
  void not_read(uint32_t index) noexcept {
    std::ranges::fill(last_[index].readers, Readers::kNobody);
  }
  /// Before it is lent: it serves a large transfer.
  void streams(uint32_t index) noexcept { states_[index].store(kStreams, kOwn); }
  /// Before it is lent, open or whole: it is being written, or was just now.
  void begins(uint32_t index) noexcept {
    open_.fetch_add(1, std::memory_order_relaxed);
    states_[index].store(states_[index].load(kOwn) | kOpen | kWritten, kOwn);
  }
  /// It was not lent after all.
  void reset(uint32_t index) noexcept {
    if ((states_[index].load(kOwn) & kOpen) != 0) open_.fetch_sub(1, std::memory_order_relaxed);
    states_[index].store(0, kOwn);
  }
  /// So many of these have not come back, or are being written, as far as is known here.
  [[nodiscard]] uint32_t open() const noexcept { return open_.load(std::memory_order_relaxed); }

  struct Return {
    bool streamed;
    bool is_free;  ///< or its writer will see to it
  };
  /// It came back.
  Return came_back(uint32_t index) noexcept {
    // acq_rel: between writer and taker; the later one frees it, after what the other did with it.
    const uint8_t before = states_[index].fetch_or(kBack, std::memory_order_acq_rel);
    const bool is_free = (before & kWritten) == 0;
    if (is_free) reset(index);
    return {(before & kStreams) != 0, is_free};
  }
  /// Its writer is done; true: it came back meanwhile, and is free now.
  [[nodiscard]] bool ends(uint32_t index) noexcept {
    const uint8_t before =
        states_[index].fetch_and(static_cast<uint8_t>(~kWritten), std::memory_order_acq_rel);
    const bool is_free = (before & kBack) != 0;
    if (is_free) reset(index);
    return is_free;
  }

 private:
  struct LastUse {
    uint32_t end = 0;  ///< of what was placed
    Rank readers[4] = {Readers::kNobody, Readers::kNobody, Readers::kNobody, Readers::kNobody};
  };

  static constexpr uint8_t kStreams = 1;  ///< counted in the budget of large transfers
  static constexpr uint8_t kWritten = 2;  ///< by a thread of this rank, now
  static constexpr uint8_t kBack = 4;
  static constexpr uint8_t kOpen = 8;
  static constexpr auto kOwn = std::memory_order_relaxed;  // its only holder's

  static constexpr uint32_t kLine = base::kCacheLine;

  std::unique_ptr<std::atomic<uint8_t>[]> states_;
  std::unique_ptr<LastUse[]> last_;  ///< of each packet; its only holder's
  alignas(base::kCacheLine) std::atomic<uint32_t> open_{0};
};

/// When packets are lent: before they are written, or written.
enum class Lent : uint8_t { not_now, open, whole };

/// The packets of one message, where it may take several.
struct MessagePackets {
  static constexpr uint32_t kMost = fabric::OpenLoan::kMost;
  uint32_t count = 0;
  uint32_t offset = 0;  ///< of the first, if it is the only one
  uint32_t indices[kMost];
  std::byte* places[kMost];
  [[nodiscard]] std::span<const uint32_t> numbers() const noexcept { return {indices, count}; }
};

/// The sender's side: writes `data` into packets, by `copy(packet, into, from, bytes)`, `packet`
/// one of the message's, and tells how far it is.
template <class Copy>
void write_open(const MessagePackets& packets, std::size_t packet_bytes,
                std::span<const std::byte> data, std::atomic<uint32_t>& written,
                Copy copy) noexcept {
  /// Each is told at the price of a cache line that goes to and fro.
  constexpr std::size_t kSliceBytes = 16 << 10;
  std::size_t done = 0;
  while (done < data.size()) {
    const std::size_t packet = done / packet_bytes;
    const std::size_t at = done % packet_bytes;
    const std::size_t size = std::min({kSliceBytes, packet_bytes - at, data.size() - done});
    copy(packet, packets.places[packet] + at, data.data() + done, size);
    done += size;
    // release: pairs with the receiver's acquire.
    written.store(static_cast<uint32_t>(done), std::memory_order_release);
  }
  // seq_cst: what the caller does with `data` next comes after the count that frees it (invariant
  // 2).
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// The receiver's view of a frame's.
class OpenPacket {
 public:
  OpenPacket(fabric::Transport& transport, const fabric::Frame& frame) noexcept
      : transport_(transport), source_(frame.source), open_(*frame.open) {}

  [[nodiscard]] std::size_t size() const noexcept { return open_.bytes; }
  [[nodiscard]] bool is_whole() const noexcept;
  /// As Payload's.
  Errc copy(std::span<std::byte> into) noexcept;
  Errc hand_out(std::size_t bytes, PieceTaker& taker) noexcept;
  std::span<const std::byte> whole(Errc& error) noexcept;
  /// What is to be given back (Port::give_back_all).
  [[nodiscard]] std::span<const uint32_t> indices() const noexcept {
    return {open_.returns, open_.return_count};
  }

 private:
  /// How far it is written, once that is further than `from`; `from` if its writer was not seen to
  /// go on for kPatienceNs.
  [[nodiscard]] std::size_t written_past(std::size_t from) const noexcept;
  /// Calls `each(piece)` for what is written from `from` on, `bytes` of it.
  template <class Each>
  void for_written(std::size_t from, std::size_t bytes, Each each) const noexcept;
  /// Reads bytes from the place that they are written from. False: all are in the packets by now,
  /// or their sender died, or they cannot be read there although it lives.
  bool read_origin(std::size_t from, std::span<std::byte> into, bool& died) noexcept;

  /// For hand_out, from `done` on, where the writer stands still; less where all is in the packets
  /// by now, or cannot be read there.
  Errc hand_out_origin(std::size_t& done, std::size_t bytes, PieceTaker& taker) noexcept;

  fabric::Transport& transport_;
  Rank source_;
  const fabric::OpenLoan& open_;
  /// What `whole` brought together, or read.
  std::unique_ptr<std::byte, base::GiveBackBuffer> aside_;
};

}  // namespace weft::comm
