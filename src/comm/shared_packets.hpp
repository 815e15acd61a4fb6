// Packets that several ranks read: what goes to many is written once (docs/design/protocols.md,
// "To several at once").
//
// Purpose: lends the same packets to each reader by a number of its own, a *ticket*, which comes
// back as a packet does; the packets are free when all tickets are back and their writer is done.
// Owner and lifetime: a runtime's; private to its process.
// Who may call: begin, issue, withdraw, end the thread that has the packets from the pool;
// came_back whoever polls the port that lent the ticket. None waits.
//
// Invariants
//
// 1. A group is one message's packets, named by the first. `holds` counts its writer, from begin to
//    end, and each ticket, from issue to withdraw or came_back. Whoever lets go last frees them.
// 2. What is written of a ticket (its group) and of a group (its packets) is written before the
//    ticket is lent, by the thread that lends it, and read after it came back: the ring and the
//    return stack order that.
// 3. Nothing of a group is read once one of its packets is free: whoever takes that may begin a
//    group of the same name.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/base/cache_line.hpp"
#include "weft/base/slot_pool.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

class SharedPackets {
 public:
  static constexpr uint32_t kNone = base::SlotPool::kNone;

  /// `packets`: how many there are; their numbers come before those of tickets.
  SharedPackets(base::SlotPool& pool, uint32_t packets)
      : pool_(pool),
        packets_(packets),
        tickets_(fabric::kTickets),
        groups_(std::make_unique<Group[]>(packets)),
        group_of_(std::make_unique<uint32_t[]>(fabric::kTickets)) {}

  /// Makes a group of them, which the caller holds. `open`: it is lent before it is written.
  void begin(std::span<const uint32_t> packets, bool open) noexcept {
    Group& group = groups_[packets.front()];
    group.count = static_cast<uint32_t>(packets.size());
    std::copy(packets.begin(), packets.end(), group.indices);
    group.holds.store(1, std::memory_order_relaxed);  // nobody else knows of it
    group.open = open;
    if (open) open_.fetch_add(1, std::memory_order_relaxed);
  }
  /// A ticket for the caller's group; kNone: none is left.
  [[nodiscard]] uint32_t issue(uint32_t group) noexcept {
    const uint32_t ticket = tickets_.alloc();
    if (ticket == kNone) return kNone;
    group_of_[ticket] = group;
    groups_[group].holds.fetch_add(1, std::memory_order_relaxed);  // the caller has one
    return packets_ + ticket;
  }
  /// It was not lent after all. The caller still holds the group.
  void withdraw(uint32_t ticket) noexcept {
    groups_[group_of_[ticket - packets_]].holds.fetch_sub(1, std::memory_order_relaxed);
    tickets_.free(ticket - packets_);
  }
  /// The caller is done with the group.
  void end(uint32_t group) noexcept { let_go(group); }

  [[nodiscard]] bool is_ticket(uint32_t number) const noexcept { return number >= packets_; }
  void came_back(uint32_t ticket) noexcept {
    const uint32_t group = group_of_[ticket - packets_];
    tickets_.free(ticket - packets_);
    let_go(group);
  }
  /// So many groups were lent before they were written and have not come back, about.
  [[nodiscard]] uint32_t open() const noexcept { return open_.load(std::memory_order_relaxed); }
  /// So many tickets are not out, about.
  [[nodiscard]] uint32_t available() const noexcept { return tickets_.available(); }

 private:
  struct Members {
    bool open = false;
    uint32_t count = 0;
    uint32_t indices[fabric::OpenLoan::kMost] = {};
  };
  struct Group : Members {
    std::atomic<uint32_t> holds{0};
  };

  void let_go(uint32_t group) noexcept {
    Group& of = groups_[group];
    // acq_rel: what others did with the packets comes before they are free.
    if (of.holds.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    const Members last = of;  // invariant 3
    if (last.open) open_.fetch_sub(1, std::memory_order_relaxed);
    pool_.free({last.indices, last.count});
  }

  base::SlotPool& pool_;
  uint32_t packets_;
  base::SlotPool tickets_;
  std::unique_ptr<Group[]> groups_;  ///< by first packet
  std::unique_ptr<uint32_t[]> group_of_;
  alignas(base::kCacheLine) std::atomic<uint32_t> open_{0};
};

}  // namespace weft::comm
