// This rank's packets on their way out: which is taken, when it is lent, and who may share it.
// docs/design/protocols.md, "Open packets", "Packets go around", "To several at once".
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "comm/runtime_impl.hpp"

namespace weft {
/// Whether packets are better lent before they are written. Not beside others: a receiver that is
/// behind has better to do than to follow. Nor where processes take turns on a core: none can.
bool Runtime::Impl::opens(std::size_t bytes) const noexcept {
  if (bytes < Endpoint::kLeastFollowed || settings.open_packets == OpenPackets::never) return false;
  // relaxed: a guess.
  return settings.open_packets == OpenPackets::always ||
         (packet_states->open() == 0 && shared_packets->open() == 0 &&
          !core_is_shared.load(std::memory_order_relaxed));
}

/// How a message goes that could be announced: where nothing is out that was lent so, and its
/// receiver can follow, open; else written first, as long as what is out stays in a core's caches
/// (and leaves packets to others), since an announcement and its answer cost more than a copy.
/// Where processes take turns that is so of shorter ones: of longer ones one copy is better than
/// two.
comm::Lent Runtime::Impl::lends(std::size_t bytes, bool can_follow) const noexcept {
  constexpr std::size_t kLongestWhole = 256 << 10;
  constexpr std::size_t kLongestInTurns = 128 << 10;
  constexpr std::size_t kMostWhole = 512 << 10;
  if (can_follow && opens(bytes)) return comm::Lent::open;
  if (settings.open_packets == OpenPackets::never) return comm::Lent::not_now;
  // relaxed: guesses.
  const bool in_turns = core_is_shared.load(std::memory_order_relaxed);
  if (in_turns ? bytes > kLongestInTurns
               : bytes < Endpoint::kLeastFollowed || bytes > kLongestWhole)
    return comm::Lent::not_now;
  const std::size_t most =
      std::min(kMostWhole, std::size_t{packets->capacity()} / 4 * packet_bytes);
  return std::size_t{packet_states->open()} * packet_bytes + bytes <= most ? comm::Lent::whole
                                                                           : comm::Lent::not_now;
}

/// Whoever sends some long messages sends more: then the kernel shall find and clear the pages of
/// the packets that will go around at once, not each under a message. Once, for the thread that
/// comes to it.
void Runtime::Impl::prepare_round(uint32_t bytes) noexcept {
  constexpr uint32_t kAtMost = 16 << 10;  // of a packet: eight full ones are as good as many short
  constexpr uint32_t kEnough = 8 * kAtMost;
  constexpr uint32_t kWait = 64 * kEnough;  // while most of its packets are out
  constexpr std::size_t kMostPackets = 64;
  constexpr uintptr_t kPage = 4096;
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, which older headers lack
  const uint32_t more = std::min(bytes, kAtMost);
  // relaxed: a guess; the exchange alone decides who does it.
  const uint32_t begun = round_begun.fetch_add(more, std::memory_order_relaxed) + more;
  const std::size_t round = std::min(kMostPackets, std::size_t{go_around_bytes / packet_bytes});
  const std::size_t here = packets->kept();
  if (begun < kEnough || (here < round / 2 && begun < kWait) ||
      round_is_there.exchange(true, std::memory_order_relaxed))
    return;
  std::array<uint32_t, kMostPackets> taken;
  std::size_t count = 0;
  while (count < std::min(round, here)) {
    const uint32_t index = packets->alloc();
    if (index == base::SlotPool::kNone) break;
    taken[count++] = index;
    std::byte* const at = packet(index);
    const uintptr_t before = reinterpret_cast<uintptr_t>(at) % kPage;
    // Where it fails, the pages come one by one.
    (void)::madvise(at - before, packet_bytes + before, kPopulateWrite);
  }
  while (count != 0) packets->free(taken[--count]);
}

/// Lines that a receiver has just read lie in its caches, and are dearer to write than those that
/// have left them. So long messages go around, among packets and within them. Not where processes
/// take turns: there the last packet lies in the caches of this core, which may be its receiver's,
/// too. Nor over a network, whose own copies read it here.
fabric::PacketPart Runtime::Impl::take_packet(std::size_t bytes, bool far) noexcept {
  constexpr uint32_t kLeastBytes = 4 << 10;
  const auto part = static_cast<uint32_t>(bytes);
  // relaxed: a guess.
  if (part < kLeastBytes || far || core_is_shared.load(std::memory_order_relaxed))
    return {packets->alloc(), part};
  if (!round_is_there.load(std::memory_order_relaxed)) [[unlikely]]
    prepare_round(part);
  const uint32_t step = (part + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine;
  const uint32_t written = packet_bytes / step * part;  // of each, until one has its turn again
  const uint32_t index = packets->alloc_rested(go_around_bytes / written);
  if (index == base::SlotPool::kNone) return {index, part};
  return {index, part, packet_states->place(index, part, packet_bytes)};
}

Post Runtime::Impl::send_packet(Device& device, Rank to, std::span<const std::byte> header,
                                std::span<const std::span<const std::byte>> pieces) {
  std::size_t whole = 0;
  for (const auto& piece : pieces) whole += piece.size();
  const fabric::PacketPart part = take_packet(whole, transport->is_far(to));
  if (part.index == base::SlotPool::kNone) return Post::retry;
  const comm::Readers readers{packet_states->exchange_reader(part, packet_bytes, to), to};
  std::byte* into = packet(part.index) + part.offset;
  std::size_t bytes = 0;
  for (const auto& piece : pieces) {
    copy_ways->copy(readers, into + bytes, piece.data(), piece.size());
    bytes += piece.size();
  }
  if (device.port().try_send_packet(to, device.number(), header, part) == Post::retry) {
    packet_states->not_read(part.index);
    packets->free(part.index);
    return Post::retry;
  }
  return Post::done;
}

comm::MessagePackets Runtime::Impl::take_packets(std::size_t bytes) noexcept {
  comm::MessagePackets taken;
  const std::size_t wanted = (bytes + packet_bytes - 1) / packet_bytes;
  if (wanted > comm::MessagePackets::kMost) return taken;
  for (; taken.count < wanted; ++taken.count) {
    const fabric::PacketPart part = take_packet(std::min<std::size_t>(bytes, packet_bytes));
    if (part.index == base::SlotPool::kNone) {
      packets->free(taken.numbers());
      return {};
    }
    taken.offset = part.offset;
    taken.indices[taken.count] = part.index;
    taken.places[taken.count] = packet(part.index) + part.offset;
  }
  return taken;
}

void Runtime::Impl::write_packets(const comm::MessagePackets& into, Rank next,
                                  std::span<const std::byte> data,
                                  std::atomic<uint32_t>& written) noexcept {
  std::array<Rank, comm::MessagePackets::kMost> last;
  for (uint32_t i = 0; i < into.count; ++i) {
    const std::size_t rest = data.size() - i * packet_bytes;
    const auto part = static_cast<uint32_t>(std::min<std::size_t>(rest, packet_bytes));
    last[i] = packet_states->exchange_reader(
        {into.indices[i], part, into.count == 1 ? into.offset : 0}, packet_bytes, next);
  }
  comm::write_open(
      into, packet_bytes, data, written,
      [&](std::size_t number, std::byte* place, const std::byte* from, std::size_t bytes) {
        copy_ways->copy({last[number], next}, place, from, bytes);
      });
}

Post Runtime::Impl::send_in_packets(Device& device, Rank to, std::span<const std::byte> header,
                                    std::span<const std::byte> data, comm::Lent lent) {
  const bool open = lent == comm::Lent::open;
  if (transport->written(to, 0, open) == nullptr) return Post::retry;
  const comm::MessagePackets taken = take_packets(data.size());
  if (taken.count == 0) return Post::retry;
  std::atomic<uint32_t>& written = *transport->written(to, taken.indices[0], open);
  written.store(0, std::memory_order_relaxed);  // published with the frame
  for (const uint32_t index : taken.numbers()) packet_states->begins(index);
  const auto write = [&] { write_packets(taken, to, data, written); };
  if (!open) write();
  const Post answer = device.port().try_send_open(to, device.number(), header,
                                                  {.indices = taken.numbers(),
                                                   .bytes = static_cast<uint32_t>(data.size()),
                                                   .origin = data.data(),
                                                   .offset = taken.offset});
  if (answer == Post::retry) {
    for (const uint32_t index : taken.numbers()) {
      packet_states->reset(index);
      if (!open) packet_states->not_read(index);
    }
    packets->free(taken.numbers());
    return Post::retry;
  }
  if (open) write();
  for (const uint32_t index : taken.numbers()) {
    if (packet_states->ends(index)) packets->free(index);
  }
  return Post::done;
}

uint64_t Runtime::Impl::send_shared(Device& device, std::span<const Rank> to,
                                    std::span<const std::byte> header,
                                    std::span<const std::byte> data) {
  // Before it is written to those who can follow, unless they are so many that this takes long.
  constexpr std::size_t kMostFollowers = 15;
  const bool open = to.size() <= kMostFollowers && opens(data.size());
  const comm::MessagePackets taken = take_packets(data.size());
  if (taken.count == 0) return 0;
  const uint32_t group = taken.indices[0];
  shared_packets->begin(taken.numbers(), open);
  const auto size = static_cast<uint32_t>(data.size());
  uint64_t went = 0;
  const auto lend = [&](bool follows) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      if ((went >> i & 1) != 0 || transport->written(to[i], group, follows) == nullptr) continue;
      const uint32_t ticket = shared_packets->issue(group);
      if (ticket == comm::SharedPackets::kNone) return;
      if (device.port().try_send_open(to[i], device.number(), header,
                                      {taken.numbers(), size, data.data(), ticket, taken.offset}) ==
          Post::retry) {
        shared_packets->withdraw(ticket);
      } else {
        went |= uint64_t{1} << i;
      }
    }
  };
  std::atomic<uint32_t>* written = nullptr;
  for (const Rank rank : to) {
    written = transport->written(rank, group, false);
    if (written != nullptr) break;
  }
  if (written != nullptr) {
    written->store(0, std::memory_order_relaxed);  // published with the frames
    if (open) lend(true);
    write_packets(taken, comm::Readers::kSeveral, data, *written);
    lend(false);
    if (went == 0) {
      for (const uint32_t index : taken.numbers()) packet_states->not_read(index);
    }
  }
  shared_packets->end(group);
  return went;
}

}  // namespace weft
