// What the ranks of a host publish, in memory that all of them see: a card for each rank. Found
// without asking the launcher, which answers one at a time and has to be woken for it. And how many
// fences each rank has come to: PMIx 5 ends a fence well without a rank that left or died.
//
// weftrun makes the memory and tells where it is; under other launchers, or where /proc cannot be
// used, there is none, and ranks ask.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/doorbell.hpp"

namespace weft::fabric {

/// The cards of a host, as one of its ranks sees them.
///
/// Who may call: `put`, `publish` and `come_to_fence` one thread at a time, the others any thread.
/// Invariants: (1) a card has one writer, its rank; its text only grows, and `length` says how much
/// of it is there. (2) A card that has no room for something says so, and is not read any more: the
/// launcher has everything, too. (3) What others wrote is copied before it is looked at, and is
/// believed to be anything. (4) What says how many fences a rank has come to is written before the
/// launcher hears of the fence, and only grows. It counts the rank's programs, too, one after the
/// other, so that each counts its fences anew, whatever the one before left undone.
class NodeCards {
 public:
  /// The memory for so many ranks; without a descriptor, if there is none to be had.
  static Descriptor create(int ranks) noexcept;
  /// Where the processes of this host find it, while this one has it open: inode and path.
  static std::string place(const Descriptor& memory);

  /// nullptr if it is not there, or is not for so many. `own`: this rank among the host's.
  static std::unique_ptr<NodeCards> open(const std::string& place, int ranks, int own) noexcept;
  ~NodeCards();
  NodeCards(const NodeCards&) = delete;
  NodeCards& operator=(const NodeCards&) = delete;

  /// Writes it on this rank's card; others see it after `publish`.
  void put(std::string_view key, std::string_view value);
  void publish();
  /// What a rank of the host published last by that name. Nothing: ask the launcher.
  [[nodiscard]] std::optional<std::string> find(int rank, std::string_view key) const;

  /// This rank comes to a fence.
  void come_to_fence();
  /// A rank of the host that has not come to the fence that this rank came to last. Ranks that
  /// never opened their card are not looked at.
  [[nodiscard]] std::optional<int> absent() const;

 private:
  struct Card;
  NodeCards(Card* cards, int ranks, int own) noexcept;

  Card* cards_;
  int ranks_;
  int own_;
  uint32_t written_ = 0;  ///< of this rank's card
  bool full_ = false;
  std::atomic<uint64_t> come_{0};  ///< Card::come since this program's first fence
};

}  // namespace weft::fabric
