// A port of both sides: sends go by the peer's rank, polls serve both.
//
// Owner and lifetime: made by ByNodeTransport::open_port, ends before it; owns both ports.
// Who may call: as fabric::Port says. Everything that only the polling thread touches is below the
// line that says so, away from what senders on this port read.
// Progress: as the side that it asks. On the way to a near rank it adds a look at one byte and one
// virtual call.
//
// Invariants
//  1. From `arm` to `disarm` every poll looks at both sides, unless near used the budget up.
//  2. If near used the budget up when it was far's turn, far is first in the next poll, and in the
//     one behind it near is: neither keeps the other from its turn for longer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "fabric/doorbell.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

class ByNodePort final : public Port {
 public:
  /// `is_near`: by rank; outlives the port. Throws Error(no_memory) if there is no bell to be had.
  ByNodePort(const uint8_t* is_near, std::unique_ptr<Port> near, std::unique_ptr<Port> far);

  [[nodiscard]] uint32_t max_inline() const noexcept override { return max_inline_; }
  [[nodiscard]] uint32_t max_control() const noexcept override { return max_control_; }
  [[nodiscard]] uint32_t max_inline_to(Rank to) const noexcept override {
    return is_near_[to.value] != 0 ? near_->max_inline() : far_->max_inline();
  }
  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override {
    return side(to).try_send(to, to_port, header, payload);
  }
  Post try_send_short(Address to, ShortHeader header,
                      std::span<const std::byte> payload) noexcept override {
    return side(to.rank).try_send_short(to, header, payload);
  }
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       PacketPart part) noexcept override {
    return side(to).try_send_packet(to, to_port, header, part);
  }
  Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                     const OpenSend& packets) noexcept override {
    return side(to).try_send_open(to, to_port, header, packets);
  }
  Post try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept override {
    return side(to).try_control(to, to_port, header);
  }
  void give_back(Loan loan) noexcept override { side(Rank{loan.owner}).give_back(loan); }
  void give_back_all(Loan loan, std::span<const uint32_t> indices) noexcept override {
    if (!indices.empty()) side(Rank{loan.owner}).give_back_all(loan, indices);
  }
  [[nodiscard]] ReadOffer offer(Rank peer, std::span<const std::byte> memory) noexcept override {
    return side(peer).offer(peer, memory);
  }
  void withdraw_offer(void* handle, bool cuts) noexcept override {
    far_->withdraw_offer(handle, cuts);
  }
  Post try_read(Address from, uint64_t address, uint64_t key, uint64_t offset,
                std::span<std::byte> into, uint64_t token) noexcept override {
    return side(from.rank).try_read(from, address, key, offset, into, token);
  }

  uint32_t poll(Sink& sink, uint32_t budget) override;
  /// While what comes comes from far.
  [[nodiscard]] bool polls_dearly() const noexcept override { return last_ == far_.get(); }
  [[nodiscard]] bool rests() const noexcept override { return near_->rests(); }
  [[nodiscard]] uint64_t far_frames() const noexcept override {
    return far_frames_.load(std::memory_order_relaxed);  // relaxed: a statistic
  }
  /// At near's lanes, if the last message came there: a look at the network is no few instructions.
  uint32_t linger(Sink& sink, uint32_t budget) override;
  /// From the side that yielded last.
  ShortFrame take_short(ShortFilter wanted, std::span<std::byte> into) noexcept override {
    const ShortFrame taken = last_->take_short(wanted, into);
    if (last_ == far_.get() && taken.bytes != ShortFrame::kNone) count_far(1);
    return taken;
  }

  void arm() noexcept override;
  void disarm() noexcept override;
  [[nodiscard]] int bell_fd() const noexcept override { return bell_.get(); }
  void ring_self() noexcept override { near_->ring_self(); }

 private:
  class FarSink;

  [[nodiscard]] Port& side(Rank rank) noexcept {
    if (is_near_[rank.value] != 0) [[likely]]
      return *near_;
    // relaxed: whether to look soon. All who send share the line: written once for each look.
    if (!spoke_far_.load(std::memory_order_relaxed))
      spoke_far_.store(true, std::memory_order_relaxed);
    return *far_;
  }
  void count_far(uint64_t frames) noexcept {
    far_frames_.store(far_frames_.load(std::memory_order_relaxed) + frames,
                      std::memory_order_relaxed);
  }
  uint32_t poll_near(Sink& sink, uint32_t budget);
  uint32_t poll_far(Sink& sink, uint32_t budget);

  const uint8_t* const is_near_;
  const std::unique_ptr<Port> near_, far_;
  const uint32_t max_inline_, max_control_;
  const uint64_t most_rest_ticks_;
  Descriptor bell_;  ///< an epoll set of both bells

  /// Something was said to far since the last look there: it may wait for that look, and an answer
  /// is likely.
  alignas(base::kCacheLine) std::atomic<bool> spoke_far_{false};

  // ---- the polling thread's own ----
  alignas(base::kCacheLine) Port* last_;  // the side that yielded last
  std::atomic<uint64_t> far_frames_{0};   // written by who polls
  uint32_t rested_ = 0;                   // polls since the last look at far
  uint32_t rest_ = 0;                     // and how many there are to be
  uint64_t rest_ticks_ = 0;               // in this time at most, but by polls that yield
  uint64_t looked_ = 0;                   // when, in ticks
  uint64_t active_ = 0;                   // when far yielded, or was seen to have been spoken to
  uint32_t fruitless_ = 0;                // looks since then
  bool yielded_ = false;                  // far did, since it was spoken to
  bool is_eager_ = false;                 // it was answered the last time, or yields
  bool far_first_ = false;                // near used the budget up when it was far's turn
  bool armed_ = false;
  bool stray_told_ = false;
};

}  // namespace weft::fabric
