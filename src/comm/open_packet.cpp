#include "comm/open_packet.hpp"

#include <sched.h>

#include <algorithm>

#include "weft/base/buffers.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/copy.hpp"

namespace weft {

namespace comm {

namespace {

/// A writer that tells nothing for so long has lost its core: slices take a tenth of it.
constexpr double kPatienceNs = 20'000;

}  // namespace

std::size_t OpenPacket::written_past(std::size_t from) const noexcept {
  static const uint64_t patience = base::to_ticks(kPatienceNs);
  uint64_t since = 0;
  for (;;) {
    // acquire: pairs with write_open's release. It comes from outside.
    const uint32_t now = std::min(open_.written->load(std::memory_order_acquire), open_.bytes);
    if (now > from) return now;
    base::settle();
    const uint64_t ticks = base::ticks();
    if (since == 0) since = ticks;
    if (ticks - since > patience) return from;
  }
}

bool OpenPacket::is_whole() const noexcept {
  // acquire: as above.
  return open_.written->load(std::memory_order_acquire) >= open_.bytes;
}

template <class Each>
void OpenPacket::for_written(std::size_t from, std::size_t bytes, Each each) const noexcept {
  const std::size_t packet = open_.pieces[0].size();  // of all but the last
  while (bytes != 0) {
    const std::span<const std::byte> rest = open_.pieces[from / packet].subspan(from % packet);
    const auto piece = rest.first(std::min(rest.size(), bytes));
    each(piece);
    from += piece.size();
    bytes -= piece.size();
  }
}

bool OpenPacket::read_origin(std::size_t from, std::span<std::byte> into, bool& died) noexcept {
  const Errc error = transport_.read_memory(source_, open_.origin + from, into);
  // acquire: the look comes after the reading (invariant 2).
  std::atomic_thread_fence(std::memory_order_acquire);
  if (is_whole()) return false;
  died = error == Errc::peer_died;
  return error == Errc::ok;
}

Errc OpenPacket::copy(std::span<std::byte> into) noexcept {
  std::size_t done = 0;
  bool died = false;
  while (done < into.size()) {
    const std::size_t there = std::min(written_past(done), into.size());
    if (there > done) {
      for_written(done, there - done, [&](std::span<const std::byte> piece) {
        base::copy_bytes(into.data() + done, piece.data(), piece.size());
        done += piece.size();
      });
      continue;
    }
    if (open_.origin != 0 && read_origin(done, into.subspan(done), died)) return Errc::ok;
    if (died) return Errc::peer_died;
    ::sched_yield();
  }
  return Errc::ok;
}

Errc OpenPacket::hand_out(std::size_t bytes, PieceTaker& taker) noexcept {
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t there = std::min(written_past(done), bytes);
    if (there > done) {
      for_written(done, there - done, [&](std::span<const std::byte> piece) { taker.take(piece); });
      done = there;
    } else if (const Errc error = hand_out_origin(done, bytes, taker); error != Errc::ok) {
      return error;
    }
  }
  return Errc::ok;
}

Errc OpenPacket::hand_out_origin(std::size_t& done, std::size_t bytes, PieceTaker& taker) noexcept {
  while (done < bytes) {
    // Aside first: only afterwards is it known whether what was read is the message.
    alignas(base::kCacheLine) std::byte aside[4096];
    const std::span<std::byte> rest(aside, std::min(sizeof aside, bytes - done));
    bool died = false;
    if (open_.origin == 0 || !read_origin(done, rest, died)) {
      if (!died) ::sched_yield();
      return died ? Errc::peer_died : Errc::ok;
    }
    taker.take(rest);
    done += rest.size();
  }
  return Errc::ok;
}

std::span<const std::byte> OpenPacket::whole(Errc& error) noexcept {
  if (open_.count == 1) {
    std::size_t there = 0;
    for (std::size_t now = 0; there < open_.bytes && (now = written_past(there)) > there;)
      there = now;
    if (there == open_.bytes) return open_.pieces[0];
  }
  aside_.reset(base::take_buffer(open_.bytes));
  if (aside_ == nullptr) {
    error = Errc::no_memory;
    return {};
  }
  const std::span<std::byte> all(aside_.get(), open_.bytes);
  error = copy(all);
  return all;
}

}  // namespace comm

Payload::Payload(comm::OpenPacket& open) noexcept
    : bytes_(nullptr), size_(open.size()), open_(&open) {}

Errc Payload::copy_open(std::span<std::byte> into) const noexcept { return open_->copy(into); }

Errc Payload::hand_out_open(std::size_t bytes, PieceTaker& taker) const noexcept {
  return open_->hand_out(bytes, taker);
}

std::span<const std::byte> Payload::whole_open(Errc& error) const noexcept {
  return open_->whole(error);
}

}  // namespace weft
