// Where boards come from.
#include "mpi/collectives/board_store.hpp"

#include <cstring>
#include <exception>

#include "mpi/handle.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

std::optional<uint32_t> BoardStore::take() noexcept {
  const std::scoped_lock guard(lock_);
  for (uint32_t which = 0; which < kAllocations; ++which) {
    Allocation& one = allocations_[which];
    if (one.memory.empty() && !allocate(one)) return std::nullopt;
    for (uint32_t number = 0; number < kInOne; ++number) {
      uint32_t& members = one.members[number];
      Board& free = board(one, number);
      // acquire: pairs with leave's release.
      if (members != 0 && free.departures.load(std::memory_order_acquire) != members) continue;
      std::memset(static_cast<void*>(&free), 0, sizeof(Board));
      members = kTaken;
      return which * kInOne + number;
    }
  }
  return std::nullopt;
}

void BoardStore::give_back(uint32_t number, uint32_t members) noexcept {
  const std::scoped_lock guard(lock_);
  allocations_[number / kInOne].members[number % kInOne] = members;
}

// Without the lock, both: an allocation stays as it is until all is forgotten, after the last
// communicator's end.

Board& BoardStore::board(uint32_t number) const noexcept {
  return board(allocations_[number / kInOne], number % kInOne);
}

BoardStore::Place BoardStore::place_of(uint32_t number) const noexcept {
  return {allocations_[number / kInOne].key, number % kInOne};
}

void BoardStore::forget() noexcept {
  const std::scoped_lock guard(lock_);
  allocations_ = {};
}

Board* BoardStore::others(const Place& place) noexcept {
  if (place.number >= kInOne) return nullptr;
  const auto memory = runtime().map_shared(place.key);
  if (!memory || memory->size() < kBytes ||
      reinterpret_cast<uintptr_t>(memory->data()) % alignof(Board) != 0) {
    return nullptr;
  }
  return reinterpret_cast<Board*>(memory->data()) + place.number;
}

bool BoardStore::allocate(Allocation& one) noexcept {
  try {
    one.memory = runtime().allocate_shared(kBytes);
    one.key = runtime().expose_shared(one.memory);
    return true;
  } catch (const std::exception&) {
    if (!one.memory.empty()) runtime().release_shared(one.memory);
    one.memory = {};
    return false;
  }
}

BoardStore& board_store() noexcept {
  static BoardStore& the_store = never_destroyed<BoardStore>();
  return the_store;
}

}  // namespace weft::mpi
