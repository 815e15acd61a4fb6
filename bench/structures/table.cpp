// The match table alone.
//
// Measured, insert and delete: as 000 §5.3.2, one thread accesses 256 fresh random keys, which
// inserts them, then the same in another order, which deletes them, in a table of 2^16 buckets;
// core time of one access. The table's 4 MiB do not stay in a core's own cache, so an insert meets
// a line that is cold, a delete one that was used 256 accesses ago. Turns are long: what the others
// pushed out of the shared cache meanwhile is a small part of one (with turns that touched each
// line once or twice it was most, where the host leaves this machine few MiB of that cache).
// Measured, own: each thread goes on inserting and deleting 256 keys that it alone uses (as many as
// a thread has outstanding in the paper's test). Measured, shared: two threads (or one in two
// roles) go through the same 4096 keys, one with arrivals, one with receives, each in an order of
// its own; with more threads, so does each pair with its share of the keys. Both: core time of one
// access. Rivals: std::unordered_map behind one spin lock (buckets reserved; the figure to reach),
// oneTBB's concurrent_hash_map, each with an insert that finds an entry turned into its erase, as
// the paper did; same hash. The table is used as endpoints use it: a single thread gets it to
// itself and takes no locks, so that what a second one adds is compared with that. More threads
// against fewer (own_8_over_2 and their like): the rate of the more over that of the fewer, turn by
// turn, each on a table of their own. The rows own_with_locks and shared_with_locks are a table
// that takes its locks however many threads there are: how the locks alone scale, no user's figure.
// It would lie: with keys in order (neighbouring lines are fetched ahead), or with a table that
// fits the core's own cache. More own keys are fewer of their own: random keys of two threads meet
// in a bucket by chance, with 4096 each in one of sixteen. And with the same keys every time: where
// cores do not share a cache, a single bucket in which keys of two threads meet costs each of them
// a tenth, so that which keys they are would decide which of two figures is the better.
#include <fmt/format.h>
#include <sched.h>
#include <tbb/concurrent_hash_map.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/match_table.hpp"
#include "turns.hpp"
#include "weft/base/locks.hpp"

namespace weft::bench::table {
namespace {

using turns::Random;
using Owning = comm::MatchTable::Owning;
constexpr std::size_t kBuckets = 1 << 16;
constexpr unsigned kBatch = 256;
constexpr std::size_t kKeys = 4096;

struct Hash {
  std::size_t operator()(uint64_t key) const noexcept {
    key *= 0x9e3779b97f4a7c15u;
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93u;
    return key ^ key >> 32;
  }
  static std::size_t hash(uint64_t key) noexcept { return Hash{}(key); }
  static bool equal(uint64_t a, uint64_t b) noexcept { return a == b; }
};

// Each contestant: access(key, side, value) -> value met, or 0.
class Weft {
 public:
  explicit Weft(Owning owning) : table_(kBuckets, kBuckets, owning) {}
  uint64_t access(uint64_t key, bool receive, uint64_t value) {
    return table_.access(key, receive ? comm::Side::receive : comm::Side::arrival, value);
  }

 private:
  comm::MatchTable table_;
};

class LockedMap {
 public:
  LockedMap() { map_.reserve(kBuckets); }
  uint64_t access(uint64_t key, bool, uint64_t value) {
    std::lock_guard guard(lock_);
    const auto [at, added] = map_.try_emplace(key, value);
    if (added) return 0;
    const uint64_t met = at->second;
    map_.erase(at);
    return met;
  }

 private:
  base::SpinLock lock_;
  std::unordered_map<uint64_t, uint64_t, Hash> map_;
};

class Tbb {
 public:
  uint64_t access(uint64_t key, bool, uint64_t value) {
    Map::accessor at;
    if (map_.insert(at, {key, value})) return 0;
    const uint64_t met = at->second;
    map_.erase(at);
    return met;
  }

 private:
  using Map = tbb::concurrent_hash_map<uint64_t, uint64_t, Hash>;
  Map map_{kBuckets};
};

std::vector<uint64_t> random_keys(std::size_t count, uint64_t seed) {
  std::vector<uint64_t> keys(count);
  Random random(seed);
  for (auto& key : keys) key = random.next();
  return keys;
}

void shuffle(std::vector<uint64_t>& keys, Random& random) {
  for (std::size_t i = keys.size(); i > 1; --i) std::swap(keys[i - 1], keys[random.next() % i]);
}

template <class Table>
std::vector<double> fresh_keys(Table& table, uint64_t batches, uint64_t seed) {
  int64_t insert = 0, erase = 0;
  turns::run_together(1, [&](unsigned) {
    Random random(seed);
    uint64_t keys[kBatch];
    for (uint64_t batch = 0; batch < batches; ++batch) {
      for (auto& key : keys) key = random.next();
      const int64_t start = turns::now();
      for (const uint64_t key : keys)
        if (table.access(key, false, 1) != 0) std::abort();
      const int64_t half = turns::now();
      // 97 is odd: each once, neither in order nor the newest first.
      for (unsigned i = 0; i < kBatch; ++i)
        if (table.access(keys[i * 97 % kBatch], true, 1) == 0) std::abort();
      const int64_t end = turns::now();
      insert += half - start;
      erase += end - half;
    }
  });
  const auto operations = static_cast<double>(batches * kBatch);
  return {static_cast<double>(insert) / operations, static_cast<double>(erase) / operations};
}

template <class Table>
std::vector<double> own_keys(Table& table, unsigned threads, uint64_t rounds) {
  static uint64_t turn = 0;  // other keys each time
  ++turn;
  const double wall = turns::run_together(threads, [&](unsigned me) {
    const auto keys = random_keys(kBatch, turn * 1024 + me);
    for (uint64_t round = 0; round < rounds; ++round) {
      for (const uint64_t key : keys)
        if (table.access(key, false, 1) != 0) std::abort();
      for (unsigned i = 0; i < kBatch; ++i)
        if (table.access(keys[i * 97 % kBatch], true, 1) == 0) std::abort();
    }
  });
  return {turns::core_ns_per_op(wall, threads, 2 * rounds * kBatch * threads)};
}

/// Two threads wait for each other; who waits yields, since the other may need the core.
class Meeting {
 public:
  void pass() {
    const uint64_t turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == 1) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    for (int spin = 0; turn_.load(std::memory_order_acquire) == turn; ++spin)
      if (spin > 500) sched_yield();
  }

 private:
  alignas(64) std::atomic<uint32_t> arrived_{0};
  alignas(64) std::atomic<uint64_t> turn_{0};
};

template <class Table>
std::vector<double> shared_keys(Table& table, unsigned threads, uint64_t rounds) {
  const unsigned pairs = threads == 1 ? 1 : threads / 2;
  std::vector<Meeting> meetings(pairs);
  const double wall = turns::run_together(threads, [&](unsigned me) {
    // Orders in advance: shuffling is not measured.
    Random random(me + 100);
    std::vector<std::vector<uint64_t>> orders(8, random_keys(kKeys / pairs, me / 2 + 1));
    for (auto& order : orders) shuffle(order, random);
    if (threads == 1) {
      for (uint64_t round = 0; round < rounds; ++round) {
        for (const uint64_t key : orders[round % 8]) (void)table.access(key, false, 1);
        for (const uint64_t key : orders[(round + 3) % 8]) (void)table.access(key, true, 1);
      }
      return;
    }
    for (uint64_t round = 0; round < rounds; ++round) {
      // Nobody runs a whole round ahead: keys would queue up, which the rivals cannot do.
      meetings[me / 2].pass();
      for (const uint64_t key : orders[round % 8]) (void)table.access(key, me % 2 != 0, 1);
    }
  });
  return {turns::core_ns_per_op(wall, threads, 2 * rounds * kKeys)};
}

template <class Turn>
std::vector<StructureContest> measure(std::vector<StructureContest> contests, double seconds,
                                      Owning owning, Turn turn) {
  Weft ours(owning);
  LockedMap map;
  Tbb theirs;
  const std::vector<turns::Contestant> contestants{
      {"weft MatchTable", [&] { return turn(ours); }},
      {"map under a spin lock", [&] { return turn(map); }},
      {"tbb concurrent_hash_map", [&] { return turn(theirs); }}};
  turns::contest(contests, contestants, seconds);
  return contests;
}

StructureContest form(std::string mode, unsigned threads, const char* what) {
  return {.structure = "table",
          .mode = std::move(mode),
          .threads = threads,
          .what = what,
          .contestants = {},
          .rounds = {}};
}

}  // namespace

std::vector<StructureContest> measure_fresh_keys(double seconds) {
  uint64_t seed = 0;
  return measure({form("insert", 1, "core time of one access that inserts"),
                  form("delete", 1, "core time of one access that deletes")},
                 seconds, Owning::yes,
                 [&](auto& table) { return fresh_keys(table, 3000, ++seed); });
}

namespace {

/// More threads against fewer, turn by turn: for each of all their accesses, ns as the clock sees
/// it.
template <class Turn>
StructureContest measure_scaling(std::string mode, unsigned many, unsigned few, double seconds,
                                 bool with_locks, Turn turn) {
  mode += fmt::format("{}_{}_over_{}", with_locks ? "_with_locks" : "", many, few);
  std::vector<StructureContest> contests{form(mode, many, "time of an access among those of all")};
  contests.front().is_scaling = true;
  Weft tables[] = {Weft(Owning(!with_locks)), Weft(Owning(!with_locks))};
  std::vector<turns::Contestant> contestants;
  for (const unsigned threads : {many, few}) {
    contestants.push_back(
        {fmt::format("{} threads", threads), [=, &table = tables[threads == many ? 0 : 1]] {
           const auto cores =
               static_cast<double>(std::min<std::size_t>(threads, turns::cores().size()));
           return std::vector{turn(table, threads).front() / cores};
         }});
  }
  turns::contest(contests, contestants, seconds);
  return contests.front();
}

}  // namespace

StructureContest measure_own_scaling(unsigned many, unsigned few, double seconds, bool with_locks) {
  // Turns of one length, whatever the threads, on two cores; and long ones, since the first steps
  // of a thread (its memory, its keys) are within.
  return measure_scaling("own", many, few, seconds, with_locks, [](auto& table, unsigned threads) {
    return own_keys(table, threads, threads > 2 ? 16'000 / threads : 8000);
  });
}

StructureContest measure_shared_scaling(unsigned many, unsigned few, double seconds,
                                        bool with_locks) {
  return measure_scaling(
      "shared", many, few, seconds, with_locks,
      [](auto& table, unsigned threads) { return shared_keys(table, threads, 60); });
}

StructureContest measure_own_keys(unsigned threads, double seconds, bool with_locks) {
  return measure({form(with_locks ? "own_with_locks" : "own", threads,
                       "core time of one access to keys of the thread's own")},
                 seconds, Owning(!with_locks),
                 [=](auto& table) { return own_keys(table, threads, threads > 2 ? 1000 : 500); })
      .front();
}

StructureContest measure_shared_keys(unsigned threads, double seconds, bool with_locks) {
  return measure({form(with_locks ? "shared_with_locks" : "shared", threads,
                       "core time of one access to keys that two threads use")},
                 seconds, Owning(!with_locks),
                 [=](auto& table) { return shared_keys(table, threads, 60); })
      .front();
}

}  // namespace weft::bench::table
