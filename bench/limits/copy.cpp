// Copying limits: memcpy inside one process; cross-memory attach, and copies through shared memory,
// between two.
//
// Measured: bytes copied per second, one memcpy (or process_vm_readv) per slot, going round a few
// slots of private memory that was touched before, from the median of the rounds; and, for one
// transfer, the time from a flag that says "it is there" to the end of the read, as a round trip
// less the answer's way. It lies when the slots together fit a smaller cache than those of what is
// compared with it: use the same number and size of slots.
#include "weft/base/copy.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "harness/laps.hpp"
#include "limits/limits.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

// Calls copy(slot) round and round; bytes per second.
template <class Copy>
double go_round(std::size_t bytes, std::size_t slots, double seconds, Copy copy) {
  // A lap is at least 256 KiB, or its clock reads would count.
  Laps laps(static_cast<unsigned>(1 + (std::size_t{256} << 10) / (slots * bytes)));
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(seconds * 1e9);
  laps.start();
  do {
    for (std::size_t slot = 0; slot < slots; ++slot) copy(slot);
    laps.count();
  } while (laps.laps() == 0 || laps.last_ns() < until);
  return static_cast<double>(slots * bytes) * 1e9 / laps.median_ns();
}

}  // namespace

CopyLimit::CopyLimit(std::size_t bytes, std::size_t slots)
    : bytes_(bytes), slots_(slots), from_(bytes * slots), to_(bytes * slots) {}

double CopyLimit::rate(double seconds) {
  return go_round(bytes_, slots_, seconds, [&](std::size_t slot) {
    std::memcpy(to_.data() + slot * bytes_, from_.data() + slot * bytes_, bytes_);
    asm volatile("" ::: "memory");
  });
}

AttachLimit::AttachLimit(Pair& pair, std::size_t bytes, std::size_t slots)
    : pair_(pair), bytes_(bytes), slots_(slots), mine_(bytes * slots) {
  theirs_ = pair.yard().trade(reinterpret_cast<uint64_t>(mine_.data()));
}

bool AttachLimit::read_slot(std::size_t slot) {
  const iovec local{mine_.data() + slot * bytes_, bytes_};
  const iovec remote{reinterpret_cast<void*>(theirs_ + slot * bytes_), bytes_};
  return process_vm_readv(pair_.peer_pid(), &local, 1, &remote, 1, 0) ==
         static_cast<ssize_t>(bytes_);
}

double AttachLimit::rate(double seconds) {
  double rate = 0;
  pair_.meet();
  if (!pair_.leads()) {
    bool all = true;
    rate =
        go_round(bytes_, slots_, seconds, [&](std::size_t slot) { all = read_slot(slot) && all; });
    if (!all) rate = 0;
  }
  const uint64_t known = pair_.yard().trade(static_cast<uint64_t>(rate));
  return pair_.leads() ? static_cast<double>(known) : rate;
}

double AttachLimit::one_way_ns(unsigned round_trips) {
  YardMemory& yard = pair_.yard().memory();
  auto& question = yard.ping[0].value;
  auto& answer = yard.ping[1].value;
  auto& mine = pair_.leads() ? question : answer;
  const uint64_t base = mine.load(std::memory_order_relaxed);
  pair_.meet();
  Laps laps(1);
  laps.start();
  for (uint64_t i = base + 1; i <= base + round_trips; ++i) {
    if (pair_.leads()) {
      question.store(i, std::memory_order_release);
      spin_until([&] { return answer.load(std::memory_order_acquire) >= i; });
    } else {
      spin_until([&] { return question.load(std::memory_order_acquire) >= i; });
      (void)read_slot(i % slots_);  // refused: `rate` says so
      answer.store(i, std::memory_order_release);
    }
    laps.count();
  }
  const double trip = laps.median_ns();
  pair_.meet();
  // One flag each way; the read happens between them.
  const double flag = cache_line_one_way_ns(question, answer, pair_.rank(), 1000);
  return trip - flag;
}

double hand_over_rate(Pair& pair, HandOverBy by, std::size_t bytes, double seconds) {
  constexpr std::size_t kBehindPage = 16;
  const auto copy = [by](std::byte* to, const std::byte* from, std::size_t n, bool writes) {
    if (by == HandOverBy::c_library) {
      std::memcpy(to, from, n);
    } else if (writes && by == HandOverBy::nontemporal) {
      base::copy_bytes_nontemporal(to, from, n);
    } else {
      base::copy_bytes(to, from, n);
    }
    asm volatile("" ::: "memory");
  };
  YardMemory& yard = pair.yard().memory();
  const int me = pair.rank();
  const Buffer given(bytes + kBehindPage);
  const Buffer got(bytes + kBehindPage);
  auto& mine = yard.ping[me].value;
  auto& theirs = yard.ping[1 - me].value;
  uint64_t step = pair.yard().trade(mine.load(std::memory_order_relaxed));
  step = std::max(step, mine.load(std::memory_order_relaxed));
  const auto both_are_here = [&] {
    mine.store(++step, std::memory_order_release);
    spin_until([&] { return theirs.load(std::memory_order_acquire) >= step; });
  };
  std::vector<double> times;
  const auto turns = static_cast<std::size_t>(std::max(8.0, seconds * 1e9 / 4 / (double(bytes))));
  for (std::size_t turn = 0; turn < turns; ++turn) {
    both_are_here();
    uint64_t ticks = base::ticks();
    copy(yard.bulk[me], given.data() + kBehindPage, bytes, true);
    const uint64_t wrote = base::ticks() - ticks;
    both_are_here();
    ticks = base::ticks();
    copy(got.data() + kBehindPage, yard.bulk[1 - me], bytes, false);
    times.push_back(static_cast<double>(wrote + base::ticks() - ticks));
  }
  both_are_here();
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  const double ns = times[times.size() / 2] / base::ticks_per_ns();
  return static_cast<double>(bytes) * 1e9 / ns;
}

}  // namespace weft::bench
