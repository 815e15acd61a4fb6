// Where segments come from: the one thing in which the providers of the lane engine differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "fabric/doorbell.hpp"
#include "fabric/layout.hpp"
#include "weft/base/error.hpp"
#include "weft/base/types.hpp"

namespace weft::fabric {

/// A peer's segment, attached. Destroyed with the transport; its mapping stays valid until then,
/// also when the peer is dead.
///
/// Who may call: `open_bell`, `knock_in_need`, `secure`, `map_shared` under the transport's set-up
/// lock; `read`, `write` anyone.
class PeerLink {
 public:
  static constexpr int kNoBell = -1;
  static constexpr int kBellGone = -2;
  static constexpr int kNoDescriptor = -3;

  virtual ~PeerLink() = default;
  PeerLink() = default;
  PeerLink(const PeerLink&) = delete;
  PeerLink& operator=(const PeerLink&) = delete;

  [[nodiscard]] virtual std::byte* base() const noexcept = 0;
  /// The descriptor to knock at for the peer's port, kNoBell if it cannot be had now, kNoDescriptor
  /// if that is because there is none left, or kBellGone if it is never to be had again. Owned by
  /// the link.
  virtual int open_bell(uint32_t port) noexcept = 0;
  /// Knocks where there was no descriptor left, with one that is kept for that; false: the peer did
  /// not hear it.
  virtual bool knock_in_need(uint32_t, Knock) noexcept { return false; }
  /// Sees to it that touching [offset, offset + bytes) of the segment cannot fail for want of
  /// memory. Throws Error(no_memory).
  virtual void secure(std::size_t offset, std::size_t bytes) = 0;
  /// The peer's shared allocation that `row` describes, mapped; empty if it is gone.
  virtual std::span<std::byte> map_shared(const SharedRow& row) noexcept = 0;
  virtual void unmap_shared(std::span<std::byte> memory) noexcept = 0;
  /// Tries whether `read` works; empty if so, else the reason.
  virtual std::string probe_read() noexcept = 0;
  virtual Errc read(uint64_t address, std::span<std::byte> local) noexcept = 0;
  virtual Errc write(uint64_t address, std::span<const std::byte> local) noexcept = 0;
  /// True once the peer's process has ended. A system call.
  virtual bool gone() noexcept = 0;
  /// Its end makes the backing's `deaths_fd` readable. Otherwise that is readable from time to
  /// time, if it can be, and somebody has to ask.
  [[nodiscard]] virtual bool watched() const noexcept { return true; }
};

/// This rank's own memory, and the way to its peers'.
class Backing {
 public:
  virtual ~Backing() = default;
  Backing() = default;
  Backing(const Backing&) = delete;
  Backing& operator=(const Backing&) = delete;

  /// "local", "self" or "shm".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// This rank's segment, zeroed, of the size that was asked for when the backing was made.
  [[nodiscard]] virtual std::byte* base() const noexcept = 0;
  /// The pipe of an own port; lives as long as any peer may knock at it. Throws.
  virtual const BellPipe& open_own_bell(uint32_t port, PortControl& control) = 0;
  /// Attaches to the segment of another rank of the node; blocks. Throws Error.
  virtual std::unique_ptr<PeerLink> attach(Rank peer) = 0;
  /// Shared memory for `row` (whose segment number is set by the caller, later): fills in the
  /// rest. Throws Error(no_memory).
  virtual std::span<std::byte> allocate_shared(std::size_t bytes, uint32_t segment,
                                               SharedRow& row) = 0;
  virtual void release_shared(std::span<std::byte> memory, uint32_t segment,
                              SharedRow& row) noexcept = 0;
  /// Peers are threads of this process.
  [[nodiscard]] virtual bool in_process() const noexcept { return false; }
  /// Readable when a watched peer's process ended; -1 if the provider has no such thing.
  [[nodiscard]] virtual int deaths_fd() const noexcept = 0;
  /// Whether it is readable: then every link is to be asked. Under the transport's set-up lock.
  [[nodiscard]] virtual bool somebody_ended() noexcept { return false; }
};

}  // namespace weft::fabric
