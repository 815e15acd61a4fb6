// The way of each reader.
#include "comm/copy_ways.hpp"

#include "comm/endpoint_impl.hpp"
#include "weft/base/clock.hpp"

namespace weft::comm {

CopyWays::CopyWays(const fabric::Transport& transport, int ranks, Nontemporal choice) {
  if (choice == Nontemporal::never || !base::has_nontemporal_copies()) return;
  const CopyHabit fixed{CopyWay::cached, true};
  const CopyHabit of_a_rank =
      choice == Nontemporal::always ? CopyHabit{CopyWay::nontemporal, true} : CopyHabit{};
  words_ = std::make_unique<std::atomic<uint8_t>[]>(
      static_cast<std::size_t>(ranks - Readers::kSeveral.value));
  note(Readers::kNobody, fixed);  // the kernel's clearing of pages says nothing
  note(Readers::kSeveral, of_a_rank);
  for (Rank rank{0}; rank.value < ranks; ++rank.value)  // the network's own copies come next
    note(rank, transport.is_far(rank) ? fixed : of_a_rank);
}

WEFT_NOT_IN_LINE void CopyWays::copy_long(const Readers& readers, std::byte* into,
                                          const std::byte* from, std::size_t bytes) noexcept {
  static constinit thread_local CopyTrial trial;
  const auto copy = [&](CopyWay way) {
    if (way == CopyWay::nontemporal) {
      base::copy_bytes_nontemporal(into, from, bytes);
    } else {
      base::copy_bytes(into, from, bytes);
    }
  };
  // Loaded before all else: behind the trial's, 16 KiB in windows went 6 % slower.
  const CopyHabit last = habit_of(readers.last);
  const CopyHabit next = habit_of(readers.next);
  const CopyWay usual = way(last, next);
  const auto now = [] { return static_cast<double>(base::ticks()) / base::ticks_per_ns(); };
  if (bytes >= kTriedBytes && !next.is_fixed &&
      trial.run(word_of(readers.last), bytes, copy, now)) {
    return;
  }
  copy(usual);
}

}  // namespace weft::comm
