// Which context ids are free in this process.
#include "mpi/comms/context_ids.hpp"

#include <mutex>

#include "mpi/handle.hpp"

namespace weft::mpi {

uint64_t ContextIds::reserve(int window, int from) noexcept {
  const auto place = static_cast<std::size_t>(window);
  const std::scoped_lock guard(lock_);
  uint64_t free = ~(used_[place] | reserved_[place]);
  uint64_t taken = 0;
  for (int n = 0; n < kMostReserved && free != 0; ++n) {
    const uint64_t bit = uint64_t{1} << first_bit(free, from);
    taken |= bit;
    free &= ~bit;
  }
  reserved_[place] |= taken;
  return taken;
}

void ContextIds::settle(int window, uint64_t reserved, uint64_t kept) noexcept {
  const auto place = static_cast<std::size_t>(window);
  const std::scoped_lock guard(lock_);
  reserved_[place] &= ~reserved;
  used_[place] |= kept;
}

void ContextIds::give_back(uint16_t id) noexcept {
  const std::scoped_lock guard(lock_);
  used_[id / kWindow] &= ~(uint64_t{1} << (id % kWindow));
}

void ContextIds::not_in_use(std::span<uint64_t, kWindows> windows) const noexcept {
  const std::scoped_lock guard(lock_);
  for (std::size_t i = 0; i < windows.size(); ++i) windows[i] = ~used_[i];
}

int ContextIds::in_use() const noexcept {
  const std::scoped_lock guard(lock_);
  int count = 0;
  for (const uint64_t window : used_) count += std::popcount(window);
  return count;
}

void ContextIds::reset() noexcept {
  const std::scoped_lock guard(lock_);
  used_.fill(0);
  reserved_.fill(0);
  used_[0] = (uint64_t{1} << kFirstFree) - 1;
}

ContextIds& context_ids() noexcept {
  static ContextIds& ids = never_destroyed<ContextIds>();
  return ids;
}

}  // namespace weft::mpi
