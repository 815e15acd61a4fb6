#include "comm/open_packet.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/matcher.hpp"

namespace weft {

namespace comm {

namespace {

/// Each is told at the price of a cache line that goes to and fro.
constexpr std::size_t kSliceBytes = 8 << 10;

/// A writer that tells nothing for so long has lost its core: slices take a tenth of it.
constexpr double kPatienceNs = 20'000;

}  // namespace

void write_open(std::byte* packet, std::span<const std::byte> data,
                std::atomic<uint32_t>& written) noexcept {
  const std::size_t slice =
      std::clamp(data.size() / 4 / kSliceBytes * kSliceBytes, kSliceBytes, 4 * kSliceBytes);
  std::size_t done = 0;
  while (done < data.size()) {
    const std::size_t size = std::min(slice, data.size() - done);
    std::memcpy(packet + done, data.data() + done, size);
    done += size;
    // release: pairs with the receiver's acquire.
    written.store(static_cast<uint32_t>(done), std::memory_order_release);
  }
}

std::size_t OpenPacket::written_past(std::size_t from) const noexcept {
  static const uint64_t patience = base::to_ticks(kPatienceNs);
  uint64_t since = 0;
  for (;;) {
    // acquire: pairs with write_open's release. It comes from outside.
    const std::size_t now =
        std::min<std::size_t>(written_.load(std::memory_order_acquire), bytes_.size());
    if (now > from) return now;
    base::settle();
    const uint64_t ticks = base::ticks();
    if (since == 0) since = ticks;
    if (ticks - since > patience) return from;
  }
}

bool OpenPacket::is_whole() const noexcept {
  // acquire: as above.
  return written_.load(std::memory_order_acquire) >= bytes_.size();
}

bool OpenPacket::read_origin(std::size_t from, std::span<std::byte> into, Errc& error) noexcept {
  error = transport_.read_memory(source_, origin_ + from, into);
  // acquire: the look comes after the reading (invariant 2).
  std::atomic_thread_fence(std::memory_order_acquire);
  if (!is_whole()) return true;
  error = Errc::ok;
  return false;
}

Errc OpenPacket::copy(std::span<std::byte> into) noexcept {
  Errc error = Errc::ok;
  std::size_t done = 0;
  while (done < into.size()) {
    const std::size_t there = std::min(written_past(done), into.size());
    if (there > done) {
      std::memcpy(into.data() + done, bytes_.data() + done, there - done);
      done = there;
    } else if (origin_ == 0) {
      ::sched_yield();  // a thread of this process
    } else if (read_origin(done, into.subspan(done), error)) {
      break;
    }
  }
  return error;
}

std::span<const std::byte> OpenPacket::whole(Errc& error) noexcept {
  for (std::size_t there = 0; there < bytes_.size();) {
    const std::size_t now = written_past(there);
    if (now == there && origin_ != 0 && aside_ == nullptr)
      aside_.reset(static_cast<std::byte*>(std::malloc(bytes_.size())));
    if (now == there && aside_ != nullptr) {
      const std::span<std::byte> aside(aside_.get(), bytes_.size());
      if (read_origin(0, aside, error)) return aside;
    } else if (now == there) {
      ::sched_yield();
    }
    there = now;
  }
  return bytes_;
}

}  // namespace comm

Errc Payload::copy_open(std::span<std::byte> into) const noexcept { return open_->copy(into); }

std::span<const std::byte> Payload::whole_open(Errc& error) const noexcept {
  return open_->whole(error);
}

}  // namespace weft
