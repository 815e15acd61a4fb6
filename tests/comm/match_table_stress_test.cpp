// MatchTable under many threads: nothing is lost, nothing is matched twice, order holds.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "comm/match_table.hpp"
#include "comm/structures_testing.hpp"

namespace weft::comm {
namespace {

using testing::Deadline;
using testing::Random;

// Arrivals and receives of a few to many keys from all sides. Each entry has a number of its own;
// it is matched exactly once, with an entry of the other side and the same key. `visitors`: all but
// the first come now and then, so that it gets the table and loses it again.
void everyone_with_everyone(unsigned threads, uint64_t keys, double seconds, uint64_t seed,
                            bool visitors = false) {
  MatchTable table(4, 1 << 16);
  constexpr uint64_t kPerThread = uint64_t{1} << 32;
  std::atomic<uint64_t> arrivals{0}, receives{0}, met_sum{0}, put_sum{0}, pairs{0};
  const Deadline deadline(seconds);
  testing::on_threads(threads, [&](unsigned me) {
    Random random(seed * 131 + me);
    uint64_t put = 0, met = 0, in[2] = {0, 0}, pair = 0;
    uint64_t number = (me + 1) * kPerThread;
    for (uint64_t i = 0; (i & 255) != 0 || !deadline.passed(); ++i) {
      if (visitors && me != 0) {
        if (i % 64 == 0) (void)table.size();
        for (auto turns = random.below(random.below(16) == 0 ? 1000 : 20); turns > 0; --turns)
          sched_yield();
      }
      const uint64_t key = random.below(keys);
      const bool receive = random.below(2);
      // The value says which side and key it is of.
      const uint64_t value = (number += 1 << 12) | key << 1 | uint64_t{receive};
      const uint64_t answer = table.access(key, receive ? Side::receive : Side::arrival, value);
      if (answer == MatchTable::kNoRoom) continue;
      put += value;
      ++in[receive];
      if (answer == 0) continue;
      ASSERT_EQ(answer & 1, receive ? 0u : 1u);
      ASSERT_EQ((answer >> 1) & 0x7ff, key);
      met += answer + value;
      ++pair;
    }
    arrivals += in[0], receives += in[1], put_sum += put, met_sum += met, pairs += pair;
  });
  uint64_t left = 0;
  table.drain([&](uint64_t key, Side side, uint64_t value) {
    EXPECT_EQ(value & 1, side == Side::receive ? 1u : 0u);
    EXPECT_EQ((value >> 1) & 0x7ff, key);
    met_sum += value;
    ++left;
  });
  EXPECT_EQ(arrivals + receives, 2 * pairs + left);
  EXPECT_EQ(put_sum, met_sum);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

TEST(MatchTableStress, EveryoneWithEveryone) {
  const uint64_t seed = testing::told_seed();
  const double each = testing::stress_seconds() / 6;
  for (const unsigned threads : {2u, 8u})
    for (const uint64_t keys : {uint64_t{1}, uint64_t{16}, uint64_t{2000}})
      everyone_with_everyone(threads, keys, each, seed);
}

TEST(MatchTableStress, OneHasTheTableAndOthersVisit) {
  const uint64_t seed = testing::told_seed();
  const Deadline deadline(testing::stress_seconds());
  for (uint64_t round = 0; !deadline.passed(); ++round) {
    everyone_with_everyone(2 + static_cast<unsigned>(round % 3), round % 2 == 0 ? 16 : 2000, 0.03,
                           seed + round, true);
  }
}

/// Is inside an access to `key`, which waits, until told to leave.
void stay_inside(MatchTable& table, uint64_t key, std::atomic<bool>& inside,
                 const std::atomic<bool>& leave) {
  struct Told {
    std::atomic<bool>& inside;
    const std::atomic<bool>& leave;
  } told{inside, leave};
  (void)table.remove_if(
      key, Side::arrival,
      [](uint64_t, const void* argument) {
        const auto& here = *static_cast<const Told*>(argument);
        here.inside = true;
        while (!here.leave) sched_yield();
        return false;
      },
      &told);
}

void use_for_long(MatchTable& table, uint64_t key) {
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_EQ(table.access(key, Side::arrival, 2), 0u);
    EXPECT_EQ(table.access(key, Side::receive, 2), 2u);
  }
}

TEST(MatchTableStress, TheTableIsGivenWhenAllOthersHaveLeft) {
  if (!base::Favour::may_be_callers()) GTEST_SKIP() << "no membarrier";
  MatchTable table;
  ASSERT_EQ(table.access(1, Side::arrival, 1), 0u);
  std::atomic<bool> inside{false}, leave{false};
  std::thread visitor([&] { stay_inside(table, 1, inside, leave); });
  while (!inside) sched_yield();
  std::thread other([&] { use_for_long(table, 2); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(table.has_owner());
  leave = true;
  visitor.join();
  other.join();
  EXPECT_TRUE(table.has_owner());
  (void)table.take(1, Side::receive);
}

TEST(MatchTableStress, WhoComesWaitsForTheOwnersAccess) {
  if (!base::Favour::may_be_callers()) GTEST_SKIP() << "no membarrier";
  MatchTable table;
  std::atomic<bool> inside{false}, leave{false}, came{false};
  std::thread owner([&] {
    use_for_long(table, 2);
    EXPECT_TRUE(table.has_owner());
    EXPECT_EQ(table.access(1, Side::arrival, 1), 0u);
    stay_inside(table, 1, inside, leave);
  });
  while (!inside) sched_yield();
  std::thread other([&] {
    EXPECT_EQ(table.access(2, Side::arrival, 1), 0u);
    came = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(came);
  leave = true;
  owner.join();
  other.join();
  EXPECT_FALSE(table.has_owner());
  (void)table.take(1, Side::receive);
  (void)table.take(2, Side::receive);
}

TEST(MatchTableStress, EachSendersMessagesOfOneKeyStayInOrder) {
  constexpr unsigned kSenders = 3;
  constexpr unsigned kReceivers = 2;
  constexpr uint64_t kKeys = 8;
  const uint64_t seed = testing::told_seed();
  MatchTable table(2, 1 << 12);
  const Deadline deadline(testing::stress_seconds());
  std::atomic<unsigned> sending{kSenders};
  std::array<std::atomic<uint64_t>, kKeys> sent{}, received{};
  testing::on_threads(kSenders + kReceivers, [&](unsigned me) {
    if (me < kSenders) {
      for (uint64_t n = 1; (n & 63) != 0 || !deadline.passed(); ++n) {
        for (uint64_t key = 0; key < kKeys; ++key) {
          while (table.access(key, Side::arrival, n << 8 | (me + 1)) == MatchTable::kNoRoom)
            sched_yield();
          sent[key].fetch_add(1, std::memory_order_relaxed);
        }
      }
      --sending;
      return;
    }
    Random random(seed * 13 + me);
    // One receiver for each key, so that it sees the order.
    uint64_t last[kKeys][kSenders] = {};
    bool last_look = false;
    for (;;) {
      bool any = false;
      for (uint64_t key = me - kSenders; key < kKeys; key += kReceivers) {
        uint64_t values[8];
        const std::size_t most = 1 + random.below(std::size(values));
        uint32_t taken = 0;
        if (most == 1) {
          values[0] = table.take(key, Side::receive);
          taken = values[0] != 0 ? 1 : 0;
        } else {
          taken = table.take_run(key, Side::receive, {values, most});
        }
        if (taken == 0) continue;
        any = true;
        for (uint32_t i = 0; i < taken; ++i) {
          auto& before = last[key][(values[i] & 0xff) - 1];
          ASSERT_EQ(values[i] >> 8, before + 1);
          before = values[i] >> 8;
        }
        received[key].fetch_add(taken, std::memory_order_relaxed);
      }
      if (any) continue;
      if (last_look) return;
      last_look = sending == 0;
      sched_yield();
    }
  });
  for (uint64_t key = 0; key < kKeys; ++key) EXPECT_EQ(sent[key], received[key]);
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

// While one thread makes the table grow from two buckets, others use a few keys: whoever waits for
// a bucket that is being split must look for his key anew. If he did not, an arrival and a receive
// of one key would wait in two places.
TEST(MatchTableStress, KeysMeetWhileTheirBucketsSplit) {
  constexpr unsigned kThreads = 4;
  constexpr uint64_t kKeys = 32;
  constexpr uint64_t kFillers = 1500;
  const uint64_t seed = testing::told_seed();
  const Deadline deadline(testing::stress_seconds());
  std::unique_ptr<MatchTable> table;
  std::atomic<bool> stop{false}, filling{false};
  std::atomic<uint64_t> waiting[2] = {};
  testing::Gate gate(kThreads);
  uint64_t rounds = 0, splits = 0;
  testing::on_threads(kThreads, [&](unsigned me) {
    Random random(seed * 7 + me);
    for (uint64_t round = 0;; ++round) {
      if (me == 0) {
        stop = deadline.passed() || ::testing::Test::HasFailure();
        table = std::make_unique<MatchTable>(2, 4 * kFillers);
        waiting[0] = waiting[1] = 0;
        filling = true;
      }
      gate.pass();
      if (stop) return;
      if (me == 0) {
        for (uint64_t i = 0; i < kFillers; ++i)
          if (table->access(round << 32 | 1 << 20 | i, Side::arrival, 1) != 0) std::abort();
        filling = false;
      } else {
        uint64_t put[2] = {0, 0};
        for (int i = 0; filling || i < 100; ++i) {
          const uint64_t key = round << 32 | random.below(kKeys);
          const bool receive = random.below(2);
          const uint64_t met = table->access(key, receive ? Side::receive : Side::arrival, 2);
          if (met == 0) {
            ++put[receive];
          } else if (met == 2) {
            --put[!receive];
          }
        }
        waiting[0] += put[0];  // modulo 2^64: one thread may take what another put
        waiting[1] += put[1];
      }
      gate.pass();
      if (me != 0) continue;
      splits += table->buckets() - 2;
      ++rounds;
      std::map<uint64_t, Side> sides;
      uint64_t left[2] = {0, 0};
      table->drain([&](uint64_t key, Side side, uint64_t value) {
        if (value != 2) return;
        ++left[side == Side::receive];
        EXPECT_EQ(sides.try_emplace(key, side).first->second, side) << "they should have met";
      });
      EXPECT_EQ(left[0], waiting[0]);
      EXPECT_EQ(left[1], waiting[1]);
    }
  });
  std::printf("[   growth ] %llu tables, %llu splits\n", static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(splits));
}

TEST(MatchTableStress, ACancelledReceiveIsNotMatchedAndAMatchedOneNotCancelled) {
  const uint64_t seed = testing::told_seed();
  MatchTable table(2, 1 << 14);
  const Deadline deadline(testing::stress_seconds());
  std::atomic<bool> posting{true};
  std::atomic<uint64_t> posted{0}, cancelled{0}, matched{0};
  testing::on_threads(4, [&](unsigned me) {
    Random random(seed * 17 + me);
    if (me >= 2) {  // arrivals that do not wait
      while (posting) {
        for (uint64_t key = 0; key < 64; ++key) {
          uint64_t run[4];
          matched.fetch_add(me == 2 ? table.take(key, Side::arrival) != 0
                                    : table.take_run(key, Side::arrival, run),
                            std::memory_order_relaxed);
        }
      }
      return;
    }
    std::vector<std::pair<uint64_t, uint64_t>> mine;
    uint64_t number = (uint64_t{me} + 1) << 40;
    while (!deadline.passed()) {
      for (int i = 0; i < 100; ++i) {
        const uint64_t key = random.below(64);
        if (table.access(key, Side::receive, ++number) == MatchTable::kNoRoom) break;
        mine.emplace_back(key, number);
      }
      posted.fetch_add(mine.size(), std::memory_order_relaxed);
      for (const auto& [key, value] : mine)
        if (table.remove(key, Side::receive, value))
          cancelled.fetch_add(1, std::memory_order_relaxed);
      mine.clear();
    }
    posting = false;
  });
  uint64_t left = 0;
  table.drain([&](uint64_t, Side, uint64_t) { ++left; });
  EXPECT_EQ(left, 0u) << "each was matched or cancelled";
  EXPECT_EQ(posted, cancelled + matched);
  EXPECT_EQ(table.lines_in_use(), 0u);
}

}  // namespace
}  // namespace weft::comm
