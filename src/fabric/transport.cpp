// The transport contract's defaults: what a port or a sink does that has no short ways. Out of
// line, or compilers would put them where they guess that they are called.
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

Taken Sink::on_short(Rank source, ShortHeader header, std::span<const std::byte> payload) {
  return on_frame({.source = source,
                   .head = {payload.data() - sizeof header, payload.size() + sizeof header},
                   .packet = {},
                   .loan = {}});
}

uint32_t Sink::on_run(const ShortRun& run) {
  uint32_t taken = 0;
  while (taken < run.count &&
         on_short(run.source, run.header(taken), run.pieces[taken].payload) == Taken::yes) {
    ++taken;
  }
  return taken;
}

Post Port::try_send_short(Address to, ShortHeader header,
                          std::span<const std::byte> payload) noexcept {
  return try_send(to.rank, to.port, header.bytes(), payload);
}

Post Port::try_send_open(Rank /*to*/, uint32_t /*to_port*/, std::span<const std::byte> /*header*/,
                         const OpenSend& /*packets*/) noexcept {
  WEFT_CHECK(false, "an open packet to a peer that this transport cannot lend it to");
}

void Sink::on_read(uint64_t /*token*/, bool /*ok*/) {}

ReadOffer Port::offer(Rank /*peer*/, std::span<const std::byte> /*memory*/) noexcept { return {}; }

void Port::withdraw_offer(void* /*handle*/, bool /*cuts*/) noexcept {}

Post Port::try_read(Address /*from*/, uint64_t /*address*/, uint64_t /*key*/, uint64_t /*offset*/,
                    std::span<std::byte> /*into*/, uint64_t /*token*/) noexcept {
  return Post::done;
}

uint32_t Port::linger(Sink& /*sink*/, uint32_t /*budget*/) { return 0; }

void Port::give_back_all(Loan loan, std::span<const uint32_t> indices) noexcept {
  for (const uint32_t index : indices) give_back({loan.owner, loan.port, index});
}

ShortFrame Port::take_short(ShortFilter /*wanted*/, std::span<std::byte> /*into*/) noexcept {
  return {.source = {}, .bytes = ShortFrame::kNone, .first_word = 0};
}

std::atomic<uint32_t>* Transport::written(Rank /*to*/, uint32_t /*index*/,
                                          bool /*follows*/) noexcept {
  return nullptr;
}

void Transport::peer_died(Rank /*peer*/, std::string_view /*cause*/) noexcept {}

}  // namespace weft::fabric
