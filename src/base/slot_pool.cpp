#include "weft/base/slot_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "weft/base/error.hpp"

namespace weft::base {

SlotPool::SlotPool(uint32_t n, Checks checks)
    : n_(n),
      most_(std::clamp(n / 4, uint32_t{2}, kItems)),
      block_(std::min(kBlock, (most_ + 1) / 2)) {
  if (n >= uint32_t{1} << 31) throw Error(Errc::bad_argument, "a pool of more than 2^31 numbers");
#ifdef NDEBUG
  const bool check = checks == Checks::on;
#else
  const bool check = checks != Checks::off;
#endif
  const std::size_t deques = sizeof(Deque) * kThreadSlots;
  const std::size_t stored = sizeof(uint32_t) * n;
  mapped_bytes_ = deques + stored + (check ? n : 0);
  void* memory = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error(Errc::no_memory, "no memory for a pool of numbers");
  // Zero pages are valid: empty, unlocked deques, and numbers that are not out.
  auto* bytes = static_cast<std::byte*>(memory);
  deques_ = reinterpret_cast<Deque*>(bytes);
  stored_ = reinterpret_cast<uint32_t*>(bytes + deques);
  if (check) given_ = reinterpret_cast<std::atomic<uint8_t>*>(bytes + deques + stored);
}

SlotPool::~SlotPool() { ::munmap(deques_, mapped_bytes_); }

uint32_t SlotPool::alloc_slow(Deque& mine) noexcept {
  uint32_t index = refill_from_store(mine);
  if (index == kNone) index = steal(mine);
  // What was on its way into the store while we looked at the deques:
  if (index == kNone) index = refill_from_store(mine);
  if (index != kNone && given_ != nullptr) mark_given(index);
  return index;
}

uint32_t SlotPool::refill_from_store(Deque& mine) noexcept {
  uint32_t block[kBlock];
  uint32_t taken = 0;
  store_lock_.lock();
  if (stored_count_ != 0) {
    // Half of what is there, so that a small pool is not all in one thread's deque.
    taken = std::min(block_, (stored_count_ + 1) / 2);
    stored_count_ -= taken;
    std::memcpy(block, stored_ + stored_count_, taken * sizeof(uint32_t));
  } else {
    taken = std::min(block_, (n_ - fresh_ + 1) / 2);
    // Lowest on top: it is given first, and memory is touched from its beginning.
    for (uint32_t i = 0; i < taken; ++i) block[i] = fresh_ + taken - 1 - i;
    fresh_ += taken;
  }
  store_lock_.unlock();
  if (taken == 0) return kNone;
  if (taken > 1) keep(mine, block, taken - 1);
  return block[taken - 1];
}

uint32_t SlotPool::steal(Deque& mine) noexcept {
  uint32_t loot[(kItems + 1) / 2];
  const unsigned slots = thread_slots_used();
  const auto self = static_cast<unsigned>(&mine - deques_);
  for (unsigned step = 0; step < slots; ++step) {
    // Our own deque comes last: a thread that shares it may have filled it.
    unsigned at = self + 1 + step;
    if (at >= slots) at -= slots;
    Deque& victim = deques_[at];
    // A hint that saves the lock; what it misses is missed as if we had come earlier.
    if (victim.size() == 0) continue;
    uint32_t taken = 0;
    {
      const Hold hold(victim, false);
      const uint32_t count = victim.size();
      taken = (count + 1) / 2;
      std::memcpy(loot, victim.items, taken * sizeof(uint32_t));
      std::memmove(victim.items, victim.items + taken, (count - taken) * sizeof(uint32_t));
      victim.resize(count - taken);
    }
    if (taken == 0) continue;
    if (taken > 1) keep(mine, loot, taken - 1);
    return loot[taken - 1];
  }
  return kNone;
}

void SlotPool::keep(Deque& mine, const uint32_t* items, uint32_t count) noexcept {
  uint32_t spilled[kItems];
  uint32_t spill = 0;
  {
    const Hold hold(mine, is_own(mine));
    uint32_t have = mine.size();
    if (have + count > most_) {
      // The bottom goes: least recently used, and the likelier to be cold.
      spill = std::min(have, std::max(block_, have + count - most_));
      std::memcpy(spilled, mine.items, spill * sizeof(uint32_t));
      std::memmove(mine.items, mine.items + spill, (have - spill) * sizeof(uint32_t));
      have -= spill;
    }
    std::memcpy(mine.items + have, items, count * sizeof(uint32_t));
    mine.resize(have + count);
  }
  if (spill != 0) put_in_store(spilled, spill);
}

void SlotPool::put_in_store(const uint32_t* items, uint32_t count) noexcept {
  store_lock_.lock();
  WEFT_CHECK(stored_count_ + count <= n_, "more numbers given back than there are");
  std::memcpy(stored_ + stored_count_, items, count * sizeof(uint32_t));
  stored_count_ += count;
  store_lock_.unlock();
}

void SlotPool::free(std::span<const uint32_t> indices) noexcept {
  if (given_ != nullptr)
    for (const uint32_t index : indices) mark_free(index);
  Deque& mine = deques_[this_thread_slot()];
  while (!indices.empty()) {
    const std::size_t count = std::min<std::size_t>(indices.size(), block_);
    keep(mine, indices.data(), static_cast<uint32_t>(count));
    indices = indices.subspan(count);
  }
}

uint32_t SlotPool::never_given() const noexcept {
  store_lock_.lock();
  const uint32_t first = fresh_;
  store_lock_.unlock();
  return first;
}

uint32_t SlotPool::available() const noexcept {
  store_lock_.lock();
  uint32_t count = stored_count_ + (n_ - fresh_);
  store_lock_.unlock();
  for (unsigned slot = 0; slot < thread_slots_used(); ++slot) count += deques_[slot].size();
  return count;
}

void SlotPool::mark_given(uint32_t index) noexcept {
  // relaxed: the number itself was handed over under a lock.
  const uint8_t before = given_[index].exchange(1, std::memory_order_relaxed);
  WEFT_CHECK(before == 0, "a number was given out twice");
}

void SlotPool::mark_free(uint32_t index) noexcept {
  WEFT_CHECK(index < n_, "a number was freed that the pool does not have");
  const uint8_t before = given_[index].exchange(0, std::memory_order_relaxed);
  WEFT_CHECK(before == 1, "a number was freed twice");
}

}  // namespace weft::base
