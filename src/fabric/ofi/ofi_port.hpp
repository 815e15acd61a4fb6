// A port of the ofi transport: what its engine received is offered from here.
//
// Owner and lifetime: made by OfiTransport::open_port, ends before it; its engine was there before
// and stays.
// Who may call: as fabric::Port says. The members are the polling thread's own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric/ofi/engine.hpp"
#include "fabric/ofi/ofi_transport.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric::ofi {

class OfiPort final : public Port {
 public:
  OfiPort(OfiTransport& transport, uint32_t number);
  ~OfiPort() override {
    if (!transport_.is_forks_copy()) engine_.disarm();
  }

  [[nodiscard]] uint32_t max_inline() const noexcept override { return max_inline_; }
  [[nodiscard]] uint32_t max_control() const noexcept override { return max_inline_; }
  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override;
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       PacketPart part) noexcept override;
  Post try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept override;
  uint32_t poll(Sink& sink, uint32_t budget) override;
  [[nodiscard]] bool polls_dearly() const noexcept override { return true; }
  ShortFrame take_short(ShortFilter wanted, std::span<std::byte> into) noexcept override;
  void give_back(Loan loan) noexcept override;
  [[nodiscard]] ReadOffer offer(Rank peer, std::span<const std::byte> memory) noexcept override;
  void withdraw_offer(void* handle, bool cuts) noexcept override {
    engine_.withdraw_offer(handle, cuts);
  }
  Post try_read(Address from, uint64_t address, uint64_t key, uint64_t offset,
                std::span<std::byte> into, uint64_t token) noexcept override;
  void arm() noexcept override { engine_.arm(); }
  void disarm() noexcept override { engine_.disarm(); }
  [[nodiscard]] int bell_fd() const noexcept override { return engine_.bell_fd(); }
  void ring_self() noexcept override { engine_.ring(); }

 private:
  Post send(WireKind kind, Rank to, uint32_t to_port, std::span<const std::byte> header,
            std::span<const std::byte> payload) noexcept;
  /// Adds the messages it took to `messages`; returns them and the control frames.
  uint32_t serve(Channel& channel, Sink& sink, uint32_t budget, uint32_t& messages);
  [[nodiscard]] Taken offer(Channel& channel, Sink& sink, const FrameQueue::Word& word,
                            std::span<const std::byte> bytes);
  uint32_t drain_returned(Sink& sink);
  uint32_t drain_reads(Sink& sink);
  void look_at_deaths(Sink& sink);
  [[nodiscard]] bool report_down(const OfiTransport::Death& death, Sink& sink);

  OfiTransport& transport_;
  Engine& engine_;
  const uint32_t number_;
  const uint32_t max_inline_;
  std::vector<Channel*> channels_;
  std::size_t turn_ = 0;     // whose is next
  Channel* last_ = nullptr;  // whose the last message was, and
  uint32_t burst_ = 0;       // how many take_short may still take from there
  std::vector<uint32_t> returned_;
  std::vector<Engine::EndedRead> reads_;
  std::size_t deaths_seen_ = 0;
  std::vector<OfiTransport::Death> deaths_;  // told to this port, not yet to the sink
  std::unique_ptr<std::byte[]> scratch_;     // a frame that wraps in its queue
};

}  // namespace weft::fabric::ofi
