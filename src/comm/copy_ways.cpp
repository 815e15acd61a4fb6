// The way of each receiver, and the trials that change it.
#include "comm/copy_ways.hpp"

#include "weft/base/clock.hpp"

namespace weft::comm {

namespace {

void copy_by(CopyWay way, std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
  if (way == CopyWay::nontemporal) {
    base::copy_bytes_nontemporal(into, from, bytes);
  } else {
    base::copy_bytes(into, from, bytes);
  }
}

}  // namespace

/// A thread's trial, and whose it is once it is under way. Copies to others meanwhile are not its.
struct CopyWays::Trying {
  static constexpr uint32_t kMostOthers = 1024;  ///< before it is given up
  CopyTrial trial;
  const CopyWays* whose = nullptr;
  Rank to{};
  CopyWay usual{};
  uint32_t others = 0;

  [[nodiscard]] bool is_for(const CopyWays& ways, Rank receiver, CopyWay in_use) noexcept {
    if (!trial.is_under_way()) return true;
    if (whose != &ways || to.value != receiver.value) {
      if (++others == kMostOthers) trial.give_up();
      return false;
    }
    if (usual != in_use) trial.give_up();  // another thread was faster
    return true;
  }
  void began_with(const CopyWays& ways, Rank receiver, CopyWay in_use) noexcept {
    whose = &ways;
    to = receiver;
    usual = in_use;
    others = 0;
  }
};

CopyWays::CopyWays(const fabric::Transport& transport, int ranks, Nontemporal choice) {
  if (choice == Nontemporal::never || !base::has_nontemporal_copies()) return;
  ways_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<std::size_t>(ranks));
  const bool always = choice == Nontemporal::always;
  const CopyWay way = always ? CopyWay::nontemporal : CopyWay::cached;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool far = transport.is_far(Rank{rank});  // the network's own copies come next
    const auto word = static_cast<uint8_t>(far ? CopyWay::cached : way);
    ways_[static_cast<std::size_t>(rank)].store(far || always ? word | kFixed : word,
                                                std::memory_order_relaxed);
  }
}

void CopyWays::copy_long(Rank to, std::byte* into, const std::byte* from,
                         std::size_t bytes) noexcept {
  static constinit thread_local Trying trying;
  std::atomic<uint8_t>& word = ways_[static_cast<std::size_t>(to.value)];
  // relaxed: each way is right.
  const uint8_t now = word.load(std::memory_order_relaxed);
  const auto usual = static_cast<CopyWay>(now & ~kFixed);
  if ((now & kFixed) != 0 || bytes < kTimedBytes || !trying.is_for(*this, to, usual)) {
    return copy_by(usual, into, from, bytes);
  }
  const bool began = trying.trial.is_under_way();
  const auto [way, timed] = trying.trial.next(usual);
  if (!timed) return copy_by(way, into, from, bytes);
  if (!began) trying.began_with(*this, to, usual);
  const uint64_t start = base::ticks();
  copy_by(way, into, from, bytes);
  const double ns = static_cast<double>(base::ticks() - start) / base::ticks_per_ns();
  const CopyWay better = trying.trial.took(usual, bytes, ns);
  if (better != usual) word.store(static_cast<uint8_t>(better), std::memory_order_relaxed);
}

}  // namespace weft::comm
