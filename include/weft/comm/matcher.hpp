// Matching by somebody else: what an endpoint of Arrival::matcher hands its messages to, with the
// envelope that its user gave them. For rooms above that have an order of their own (MPI).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/error.hpp"
#include "weft/base/small_copy.hpp"
#include "weft/base/types.hpp"
#include "weft/fabric/transport.hpp"

namespace weft {

/// What travels with each message: all of it the user's, carried and not looked at.
struct Envelope {
  uint32_t tag = 0;
  uint32_t sequence = 0;
  uint16_t context = 0;
  uint8_t kind = 0;
};

/// A message that waits at its sender (rendezvous). Plain data, kept as long as is convenient; ends
/// in exactly one Endpoint::fetch, took or refuse.
struct Announcement {
  Rank source{};
  uint16_t reply_port = 0;
  uint32_t operation = 0;   ///< the sender's record, and
  uint32_t generation = 0;  ///< its use
  uint64_t address = 0;
  uint64_t bytes = 0;
  uint64_t key = 0;  ///< with which it is read over the network
};

/// How an announced message is called at its sender, for who wants it back.
struct AnnouncementName {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t operation = kNone;
  uint32_t generation = 0;
  uint16_t port = 0;  ///< the device that announced it
};

namespace comm {
class OpenPacket;
}

/// In multiples of so many bytes, but for the end, a message is handed out.
inline constexpr std::size_t kPieceUnit = 64;

/// Takes the bytes of a message, piece by piece, front to back: each piece once, and only where it
/// lies. Called by whoever calls `Payload::hand_out`, within that call; must not wait.
class PieceTaker {
 public:
  virtual void take(std::span<const std::byte> piece) noexcept = 0;

 protected:
  ~PieceTaker() = default;
};

/// The bytes of an eager message, valid during the call that delivers it only. Its sender may still
/// be writing them; who asks for them waits, for as long as a copy takes, and if the sender is kept
/// from it they are got elsewhere.
class Payload {
 public:
  explicit Payload(std::span<const std::byte> bytes) noexcept
      : bytes_(bytes.data()), size_(bytes.size()) {}
  explicit Payload(comm::OpenPacket& open) noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// Copies the first bytes of it. Not ok, mostly peer_died: the sender did not live to write them.
  Errc copy(std::span<std::byte> into) const noexcept {
    if (open_ != nullptr) [[unlikely]]
      return copy_open(into);
    base::small_copy(into.data(), bytes_, into.size());
    return Errc::ok;
  }
  /// Hands the first bytes of it out where they lie, as they come. In vain, with an error, as
  /// above: some may have been handed out.
  Errc hand_out(std::size_t bytes, PieceTaker& taker) const noexcept {
    if (open_ != nullptr) return hand_out_open(bytes, taker);
    taker.take({bytes_, bytes});
    return Errc::ok;
  }
  /// All of it, for who reads it otherwise; in vain, with an error, as above.
  std::span<const std::byte> whole(Errc& error) const noexcept {
    if (open_ != nullptr) [[unlikely]]
      return whole_open(error);
    return {bytes_, size_};
  }

 private:
  Errc copy_open(std::span<std::byte> into) const noexcept;
  Errc hand_out_open(std::size_t bytes, PieceTaker& taker) const noexcept;
  std::span<const std::byte> whole_open(Errc& error) const noexcept;

  const std::byte* bytes_;
  std::size_t size_;
  comm::OpenPacket* open_ = nullptr;  ///< set: they are not all there yet, or in several places
};

/// An eager message, as it arrives.
struct Delivery {
  Rank source;
  Envelope envelope;
  Payload payload;
};

/// Several of one sender with the same envelope, as they arrive.
struct DeliveryRun {
  static constexpr std::size_t kMost = fabric::ShortRun::kMost;
  Rank source;
  Envelope envelope;
  std::span<const fabric::ShortRun::Piece> pieces;  ///< kMost at most

  [[nodiscard]] std::size_t size() const noexcept { return pieces.size(); }
  [[nodiscard]] Payload payload(std::size_t i) const noexcept { return Payload(pieces[i].payload); }
  [[nodiscard]] Delivery operator[](std::size_t i) const noexcept {
    return {source, envelope, payload(i)};
  }
};

/// What became of what was to be tried again.
enum class Tried : uint8_t {
  nothing,  ///< nothing yet
  some,     ///< some of it ended, and whoever waits for a condition looks again
  all,      ///< and nothing is left
};

/// Meets arriving messages with whatever waits for them.
///
/// Who calls: whoever progresses, under the lock of the device that the message came by: one at a
/// time for each device, in the order in which they were sent there; at the same time for several
/// devices. It must not block, wait or throw. It may post; a retry there is for later
/// (Endpoint::try_again_later).
class Matcher {
 public:
  /// False: no room now; the message, and all behind it in its lane, is offered again later.
  virtual bool arrive(const Delivery& message) noexcept = 0;
  /// Several short ones of one sender, in order, with the same envelope: how many there was room
  /// for; the others are offered again. By default one after the other, by `arrive`.
  virtual uint32_t arrive_run(const DeliveryRun& run) noexcept;
  /// `brought`: all its bytes, valid during the call, if they came with it (Endpoint::announce):
  /// who keeps them calls Endpoint::took. Else nothing; and they can be fetched in either case.
  virtual bool announced(const Envelope& envelope, const Announcement& message,
                         std::span<const std::byte> brought) noexcept = 0;
  /// After Endpoint::try_again_later: tries what was answered retry.
  virtual Tried try_again() noexcept = 0;
  /// `peer` died; all that it sent before was offered. Once a peer, also of those that had died
  /// when the endpoint opened.
  virtual void peer_down(Rank peer) noexcept = 0;

 protected:
  ~Matcher() = default;
};

}  // namespace weft
