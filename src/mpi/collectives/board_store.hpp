// Where boards come from: the shared memory of those that this process gives to its communicators.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "mpi/collectives/board.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::mpi {

/// The boards of communicators whose first member on this node this process is. Sixteen are in one
/// allocation, which is made when the first of them is wanted; a communicator beyond the last has
/// none.
///
/// Thread-safe.
class BoardStore {
 public:
  static constexpr uint32_t kInOne = 16;
  static constexpr uint32_t kAllocations = 8;

  /// A board, for other processes.
  struct Place {
    fabric::MemoryKey key;  ///< of its allocation
    uint32_t number = 0;    ///< there
  };

  /// The number of a board in the store, zeroed; nothing: there is none to be had.
  std::optional<uint32_t> take() noexcept;
  /// The board is given to others when so many have left it.
  void give_back(uint32_t number, uint32_t members) noexcept;
  /// Of one that was taken.
  [[nodiscard]] Board& board(uint32_t number) const noexcept;
  [[nodiscard]] Place place_of(uint32_t number) const noexcept;
  /// Before the runtime ends, and with it the memory.
  void forget() noexcept;

  /// Another process' board; nullptr: what is said is not so.
  static Board* others(const Place& place) noexcept;

 private:
  static constexpr std::size_t kBytes = kInOne * sizeof(Board);
  static constexpr uint32_t kTaken = UINT32_MAX;

  struct Allocation {
    std::span<std::byte> memory;
    fabric::MemoryKey key;
    std::array<uint32_t, kInOne> members{};  ///< that must leave it; 0: it is free
  };
  static bool allocate(Allocation& one) noexcept;
  static Board& board(const Allocation& one, uint32_t number) noexcept {
    return reinterpret_cast<Board*>(one.memory.data())[number];
  }

  std::mutex lock_;
  std::array<Allocation, kAllocations> allocations_;
};

BoardStore& board_store() noexcept;

}  // namespace weft::mpi
