// The loan book: which of this rank's packets, or tickets, is lent to which peer, and from which
// port.
//
// Purpose: knows what to take back when a peer dies, and what a peer may give back.
// Owner and lifetime: private to the lending process, as long as its transport.
// Who may call: lend the thread that holds the packet; strike and lent_to the polling thread of
// the lending port. An entry thus has one writer at a time; relaxed is enough, because the packet
// itself is handed on through the ring and the return stack, which order it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace weft::fabric {

class LoanBook {
 public:
  explicit LoanBook(uint32_t packets)
      : entries_(std::make_unique<std::atomic<uint64_t>[]>(packets)), packets_(packets) {}

  void lend(uint32_t packet, int32_t rank, uint16_t port) noexcept {
    entries_[packet].store(entry(rank, port), std::memory_order_relaxed);
  }
  /// Takes back an entry that could not be sent after all.
  void unlend(uint32_t packet) noexcept { entries_[packet].store(0, std::memory_order_relaxed); }

  /// Strikes the entry of a packet that came back to `port`; false if it is no such loan.
  [[nodiscard]] bool strike(uint32_t packet, uint16_t port) noexcept {
    if (packet >= packets_) return false;
    const uint64_t now = entries_[packet].load(std::memory_order_relaxed);
    if (now == 0 || now >> 32 != port) return false;
    unlend(packet);
    return true;
  }
  [[nodiscard]] bool is_lent(uint32_t packet, int32_t rank, uint16_t port) const noexcept {
    return entries_[packet].load(std::memory_order_relaxed) == entry(rank, port);
  }
  [[nodiscard]] uint32_t packets() const noexcept { return packets_; }

 private:
  static constexpr uint64_t entry(int32_t rank, uint16_t port) noexcept {
    return uint64_t{port} << 32 | (static_cast<uint32_t>(rank) + 1);
  }
  std::unique_ptr<std::atomic<uint64_t>[]> entries_;
  uint32_t packets_;
};

}  // namespace weft::fabric
