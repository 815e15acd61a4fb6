// The network's frames: what `decode` lets pass lies within the bytes, and within its limits.
#include <cstring>
#include <span>

#include "fabric/ofi/wire.hpp"
#include "fuzz/fuzz.hpp"

using namespace weft;
using fabric::ofi::WireKind;
using fuzz::demand;

namespace {

bool is_within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size();
}

void decode_all(std::span<const std::byte> bytes, uint32_t tag_bytes) {
  const fabric::ofi::WireLimits limits{.stamp = 0x77656674,
                                       .ranks = 4,
                                       .self = 1,
                                       .most_length = 248,
                                       .most_packet = 8192,
                                       .packet_words = 16,
                                       .tag_bytes = tag_bytes};
  while (!bytes.empty()) {
    const auto frame = fabric::ofi::decode(bytes, limits);
    if (!frame) return;
    const auto& header = frame->header;
    demand(frame->bytes >= sizeof header && frame->bytes <= bytes.size());
    for (const auto part : {frame->head, frame->body, frame->returns, frame->tag, frame->packet})
      demand(is_within(part, bytes.first(frame->bytes)));
    demand(std::memcmp(frame->head.data(), bytes.data(), sizeof header) == 0);
    const bool are_all = header.kind == WireKind::returns;
    demand(frame->body.size() + (are_all ? 0 : frame->returns.size()) == header.length);
    demand(header.length <= limits.most_length && frame->returns.size() % sizeof(uint32_t) == 0);
    demand(are_all ||
           frame->return_count() == (fabric::ofi::takes_along(header.kind) ? header.flags : 0u));
    for (std::size_t i = 0; i < frame->return_count(); ++i) (void)frame->returned(i);
    demand(frame->tag.size() == tag_bytes && frame->packet.size() == header.bytes);
    demand(header.bytes <= limits.most_packet);
    demand(header.kind == WireKind::packet || frame->packet.empty());
    demand(header.stamp == limits.stamp && header.source < limits.ranks &&
           header.source != limits.self);
    bytes = bytes.subspan(frame->bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  decode_all(bytes, 0);
  decode_all(bytes, 16);
  return 0;
}
