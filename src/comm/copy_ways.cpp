// The way of each receiver.
#include "comm/copy_ways.hpp"

#include "comm/endpoint_impl.hpp"
#include "weft/base/clock.hpp"

namespace weft::comm {

CopyWays::CopyWays(const fabric::Transport& transport, int ranks, Nontemporal choice) {
  if (choice == Nontemporal::never || !base::has_nontemporal_copies()) return;
  words_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    CopyHabit habit;
    if (transport.is_far(Rank{rank})) {
      habit.is_fixed = true;  // the network's own copies come next
    } else if (choice == Nontemporal::always) {
      habit = {CopyWay::nontemporal, true};
    }
    words_[static_cast<std::size_t>(rank)].store(habit.word(), std::memory_order_relaxed);
  }
}

WEFT_NOT_IN_LINE void CopyWays::copy_long(Rank to, std::byte* into, const std::byte* from,
                                          std::size_t bytes) noexcept {
  static constinit thread_local CopyTrial trial;
  std::atomic<uint8_t>& word = words_[static_cast<std::size_t>(to.value)];
  const auto copy = [&](CopyWay way) {
    if (way == CopyWay::nontemporal) {
      base::copy_bytes_nontemporal(into, from, bytes);
    } else {
      base::copy_bytes(into, from, bytes);
    }
  };
  // relaxed: as in CopyTrial.
  if (bytes < kTriedBytes) return copy(CopyHabit::of(word.load(std::memory_order_relaxed)).usual);
  trial.run(word, bytes, copy,
            [] { return static_cast<double>(base::ticks()) / base::ticks_per_ns(); });
}

}  // namespace weft::comm
