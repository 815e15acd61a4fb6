// What arrives without a posted buffer: a message taken from a first-packet queue, or handed to a
// handler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "weft/base/error.hpp"
#include "weft/base/types.hpp"

namespace weft {

class Device;
class Runtime;
class Endpoint;
namespace comm {
struct Announced;
struct MessageTransfer;
}  // namespace comm

/// What a handler sees. The data is valid during the call only.
struct Incoming {
  Rank source;
  Tag tag;
  std::span<const std::byte> data;
  Errc error = Errc::ok;  ///< not ok: a large message whose transfer failed; `data` is empty
};

/// Where a buffer for an arriving message comes from. Called from the progressing thread or from
/// `dequeue`; must be thread-safe and must not block or throw. `allocate` may answer nullptr for
/// "none now": large messages of queues and handlers wait until there is. A receive of
/// Buffer::allocated ends with `no_memory`, its event says of which message, and that is dropped.
class Allocator {
 public:
  virtual std::byte* allocate(std::size_t bytes) noexcept = 0;
  virtual void release(std::byte* memory, std::size_t bytes) noexcept = 0;

 protected:
  ~Allocator() = default;
};

/// malloc and free.
Allocator& heap_allocator() noexcept;

/// A message from a queue endpoint. Owns its bytes: small ones inside itself, those up to a packet
/// in the sender's packet (which returns there when this object ends), larger ones in memory from
/// the endpoint's allocator. Movable; used by one thread at a time; ends before its Runtime and
/// that allocator, but may outlive its endpoint.
class Message {
 public:
  static constexpr std::size_t kInlineBytes = 40;

  Message() noexcept = default;
  Message(Message&& other) noexcept { take(other); }
  Message& operator=(Message&& other) noexcept {
    if (this != &other) {
      release();
      take(other);
    }
    return *this;
  }
  ~Message() { release(); }

  [[nodiscard]] Rank source() const noexcept { return source_; }
  [[nodiscard]] Tag tag() const noexcept { return tag_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// True when the bytes are here: at once for messages up to the eager limit; for larger ones
  /// after a transfer that progress carries on. Ending the object earlier waits for it. To wait for
  /// it is Runtime::wait's: of memory that comes back nobody is told.
  [[nodiscard]] bool ready() noexcept { return holds_ < Holds::announced || transfer_ready(); }
  /// ok, or why the transfer failed. Valid when ready.
  [[nodiscard]] Errc error() const noexcept {
    return transfer_ == nullptr ? Errc::ok : transfer_error();
  }
  /// The bytes. Valid when ready, until this object is moved from or ends.
  [[nodiscard]] std::span<const std::byte> data() const noexcept {
    return {holds_ == Holds::inlined ? inlined_ : place(),
            transfer_ == nullptr || transfer_error() == Errc::ok ? bytes_ : 0};
  }

 private:
  friend class Endpoint;
  friend class Runtime;
  enum class Holds : uint8_t { nothing, inlined, packet, kept, announced, allocated };
  void take(Message& other) noexcept;
  void release() noexcept {
    if (holds_ > Holds::inlined) [[unlikely]]
      give_back();
    holds_ = Holds::nothing;
    runtime_ = nullptr;
  }
  void give_back() noexcept;
  void announce(const comm::Announced& what) noexcept;
  void start_transfer() noexcept;
  bool transfer_ready() noexcept;
  [[nodiscard]] Errc transfer_error() const noexcept;
  [[nodiscard]] const std::byte* place() const noexcept;

  Rank source_{};
  Tag tag_{};
  std::size_t bytes_ = 0;
  Holds holds_ = Holds::nothing;
  uint16_t loan_port_ = 0;      // packet: to which port of its owner it returns
  int32_t loan_owner_ = -1;     // packet: whose it is
  uint32_t packet_index_ = 0;   // packet, kept: its number; announced: the endpoint's
  Runtime* runtime_ = nullptr;  // packet, kept, allocated
  union {
    const std::byte* place_ = nullptr;  // packet, kept
    Device* device_;                    // announced: its endpoint's own, if it has one
  };
  // allocated, and announced as soon as there is memory for it: the rendezvous
  comm::MessageTransfer* transfer_ = nullptr;
  alignas(8) std::byte inlined_[kInlineBytes];  // inlined; announced: what was
};

}  // namespace weft
