// The doorbell of a port: how a sender gets a sleeping poller out of its sleep.
//
// Purpose: a port's poller sleeps on a descriptor; senders pay one load of a line that stays in
// their cache while nobody sleeps, and neither fence nor system call.
// Owner and lifetime: the pipe belongs to the port; senders open its write end through
// /proc/PID/fd/N (or a named pipe) when they first ring.
// Who may call: arm and disarm the polling thread; ring anyone.
// Progress: wait-free but for the system calls of sleeping and ringing.
//
// Invariants
//  1. asleep is 0 or the number of the present sleep; numbers are odd and differ from those of the
//     last 2^31 sleeps.
//  2. Sleeper: store asleep, arming_barrier, poll everything once more, sleep. Sender: publish,
//     (compiler barrier), load asleep. Either the sender sees the number and rings, or its publish
//     came before the barrier and the last poll sees it (Dekker). Where a kernel has no
//     membarrier, both sides fence instead; where it passes a sender's core by, what that one
//     published meanwhile is found by the sleeper's second look (kSecondLookNs).
//  3. A ringer writes to the pipe first and then takes the number away by compare-and-swap: one
//     that is stopped or killed between the two has rung; before both, others still ring. A late
//     compare-and-swap cannot silence a later sleep, because its number differs.
//  4. The pipe is level-triggered and emptied by disarm after the wake: a byte that comes late
//     costs a needless wake, never a missed one.
#pragma once

#include <atomic>
#include <cstdint>

#include "fabric/layout.hpp"

namespace weft::fabric {

/// What a byte in the pipe says.
enum class Knock : char {
  frame = 'f',  ///< look at your rings
  news = 'n',   ///< somebody left or died: look at your peers
};

/// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1) noexcept;

 private:
  int fd_ = -1;
};

/// Both ends of a port's pipe, non-blocking.
struct BellPipe {
  Descriptor read;
  Descriptor write;
};

/// An anonymous pipe, entered in `port` for senders to find. Throws Error(no_memory) when there
/// are no descriptors left.
BellPipe make_bell_pipe(PortControl& port);

/// Rings `write_fd` without asking whether anybody sleeps.
void knock(int write_fd, Knock what) noexcept;

/// The number of the sleep that `port` is in, 0 if awake: to be asked after publishing.
[[nodiscard]] inline uint32_t sleeper_of(const PortControl& port, bool fence) noexcept {
  if (fence) [[unlikely]]
    std::atomic_thread_fence(std::memory_order_seq_cst);
  else
    std::atomic_signal_fence(std::memory_order_seq_cst);
  // relaxed: ordered behind the publish by the sleeper's arming_barrier (invariant 2).
  return port.asleep.load(std::memory_order_relaxed);
}

/// Rings for the sleep numbered `seen`.
void ring(PortControl& port, uint32_t seen, int write_fd, Knock what) noexcept;
/// The second half of it, for who knocked: that sleep is over.
void has_rung(PortControl& port, uint32_t seen) noexcept;

/// The sleeping side.
class Doorbell {
 public:
  /// What disarm found in the pipe.
  enum class Rung : uint8_t { nothing, frames, news };

  /// `pipe` outlives this; `deaths_fd` (-1: none) is a descriptor that becomes readable with a
  /// death and joins the waitable. Throws Error(no_memory).
  Doorbell(PortControl& port, const BellPipe& pipe, int deaths_fd);

  [[nodiscard]] int fd() const noexcept { return epoll_ ? epoll_.get() : read_fd_; }
  void arm() noexcept;
  [[nodiscard]] Rung disarm() noexcept;
  void ring_self() const noexcept { knock(write_fd_, Knock::frame); }

 private:
  PortControl& port_;
  int read_fd_;
  int write_fd_;
  Descriptor epoll_;
  uint32_t sleeps_ = 0;
};

}  // namespace weft::fabric
