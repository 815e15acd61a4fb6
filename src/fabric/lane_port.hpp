// A port of the lane engine: the message path, sending and polling.
//
// Owner and lifetime: made by LaneTransport::open_port, ends before it.
// Who may call: as fabric::Port says. Everything that only the polling thread touches is below the
// line that says so, away from what senders on this port read.
// Progress: a send holds one process-private spin lock for the copy of one frame; a poll takes no
// lock at all, except when a peer is met or dies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/doorbell.hpp"
#include "fabric/lane_transport.hpp"
#include "fabric/ring.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

class LanePort final : public Port {
 public:
  LanePort(LaneTransport& transport, uint32_t number, const BellPipe& pipe, int deaths_fd);
  ~LanePort() override;

  [[nodiscard]] uint32_t max_inline() const noexcept override { return max_inline_; }
  [[nodiscard]] uint32_t max_control() const noexcept override { return max_inline_; }
  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override;
  Post try_send_short(Address to, ShortHeader header,
                      std::span<const std::byte> payload) noexcept override;
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       PacketPart part) noexcept override;
  Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                     const OpenSend& packets) noexcept override;
  Post try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept override;
  uint32_t poll(Sink& sink, uint32_t budget) override;
  uint32_t linger(Sink& sink, uint32_t budget) override;
  [[nodiscard]] bool rests() const noexcept override;
  ShortFrame take_short(ShortFilter wanted, std::span<std::byte> into) noexcept override;
  void give_back(Loan loan) noexcept override { give_back_all(loan, {&loan.index, 1}); }
  void give_back_all(Loan loan, std::span<const uint32_t> indices) noexcept override;
  void arm() noexcept override;
  void disarm() noexcept override;
  [[nodiscard]] int bell_fd() const noexcept override { return bell_.fd(); }
  void ring_self() noexcept override { bell_.ring_self(); }

 private:
  /// The receiving side of one peer's lane.
  struct InLane {
    Peer* peer;
    RingConsumer messages;
    RingConsumer control;
    bool broken = false;      ///< it sent nonsense, or packets that cannot be reached any more
    bool was_empty = true;    ///< at the last poll
    bool had_more = false;    ///< perhaps, when that ended
    uint8_t close_turns = 0;  ///< that yielded frames of several cells, with no empty one between
    /// In ticks; 0: it does not. Not while armed.
    uint64_t rests_until = 0;
  };
  struct Down {
    Peer* peer;
    std::string cause;
  };

  /// Out of line, so that the usual case keeps its registers.
  [[gnu::noinline]] Post send_short_otherwise(Address to, ShortHeader header,
                                              std::span<const std::byte> payload) noexcept;
  [[gnu::noinline]] Post done_and_ring(Address to, uint32_t seen) noexcept;
  /// Lends a packet: `before` and the header in a frame of this kind.
  Post lend(Rank to, uint32_t to_port, FrameKind kind, std::span<const std::byte> before,
            std::span<const std::byte> header, std::span<const uint32_t> indices) noexcept;
  /// The lane to a port of a peer, ready to use, or nullptr with `answer` set.
  OutLane* lane_to(Peer& peer, uint32_t to_port, Post& answer) noexcept;
  void ring_if_asleep(Peer& peer, OutLane& lane, uint32_t to_port) noexcept;

  void discover();
  [[gnu::noinline]] ShortFrame take_longer(ShortFilter wanted, std::span<std::byte> into) noexcept;
  /// Adds the messages it took to `messages`; returns them and the control frames.
  uint32_t serve(InLane& lane, Sink& sink, uint32_t budget, uint32_t& messages);
  uint32_t serve_control(InLane& lane, Sink& sink, uint32_t budget);
  bool serve_other(InLane& lane, Sink& sink);
  /// The lane has nothing more behind frames of several cells; perhaps it rests.
  void let_rest(InLane& lane) noexcept;
  /// After a lane's turn: whether it yielded a message.
  void note_yield(InLane& lane, bool yielded) noexcept;
  /// What a packet's frame says; false: nonsense.
  static bool read_packet(const InLane& lane, const ControlWord& word, const std::byte* bytes,
                          Frame& frame) noexcept;
  bool read_open(const InLane& lane, const ControlWord& word, const std::byte* bytes, Frame& frame,
                 OpenLoan& open) const noexcept;
  void break_lane(InLane& lane, std::string_view why);
  uint32_t drain_returns(Sink& sink);
  void housekeeping(Sink& sink);
  bool report_down(const Down& down, Sink& sink);

  LaneTransport& transport_;
  const uint16_t number_;
  const uint32_t max_inline_;
  const uint64_t rest_ticks_;

  // ---- the polling thread's own ----
  alignas(base::kCacheLine) PortControl& control_;
  std::vector<InLane> lanes_;
  std::size_t turn_ = 0;  // whose is next
  uint32_t burst_ = 0;    // messages that take_short may still take from `last_lane_`
  bool armed_ = false;
  InLane* last_lane_ = nullptr;  // whose the last message was
  uint32_t activations_seen_ = 0;
  uint32_t polls_ = 0;
  std::size_t deaths_seen_ = 0;
  std::vector<uint64_t> active_seen_;
  std::vector<Down> downs_;  // told to this port, not yet to the sink
  uint64_t next_look_ns_ = 0;
  bool look_now_ = false, look_thoroughly_ = false;
  Doorbell bell_;
};

}  // namespace weft::fabric
