// MatchTable is linearizable: random small runs of several threads, each explained exhaustively,
// while chains lengthen and buckets split under them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include "comm/match_history.hpp"
#include "comm/match_table.hpp"
#include "comm/structures_testing.hpp"

namespace weft::comm {
namespace {

using testing::Deadline;
using testing::Gate;
using testing::HistoryChecker;
using testing::MatchOp;
using testing::Random;

constexpr auto kAccess = MatchOp::Kind::access;
constexpr auto kTake = MatchOp::Kind::take;
constexpr auto kRemove = MatchOp::Kind::remove;
constexpr Side kArr = Side::arrival;
constexpr Side kRec = Side::receive;

bool explained(std::vector<MatchOp> ops) { return HistoryChecker(std::move(ops)).linearizable(); }

TEST(HistoryChecker, AcceptsWhatCanBeExplained) {
  EXPECT_TRUE(explained({{kAccess, kArr, 1, 0, 1, 2},
                         {kAccess, kArr, 2, 0, 3, 4},
                         {kAccess, kRec, 9, 1, 5, 6},
                         {kTake, kRec, 0, 2, 7, 8}}));
  // Two that overlap may take effect either way round.
  EXPECT_TRUE(explained({{kAccess, kArr, 1, 0, 1, 10},
                         {kAccess, kArr, 2, 0, 1, 10},
                         {kTake, kRec, 0, 2, 11, 12},
                         {kTake, kRec, 0, 1, 13, 14}}));
  EXPECT_TRUE(explained({{kAccess, kArr, 1, 0, 1, 10}, {kTake, kRec, 0, 0, 2, 3}}));
  EXPECT_TRUE(explained(
      {{kAccess, kArr, 1, 0, 1, 2}, {kRemove, kArr, 1, 1, 3, 6}, {kTake, kRec, 0, 0, 3, 6}}));
}

TEST(HistoryChecker, RefusesWhatCannot) {
  EXPECT_FALSE(explained(
      {{kAccess, kArr, 1, 0, 1, 2}, {kAccess, kArr, 2, 0, 3, 4}, {kTake, kRec, 0, 2, 5, 6}}))
      << "newest first";
  EXPECT_FALSE(explained({{kAccess, kArr, 1, 0, 1, 2}, {kTake, kRec, 0, 0, 3, 4}})) << "lost";
  EXPECT_FALSE(explained(
      {{kAccess, kArr, 1, 0, 1, 2}, {kTake, kRec, 0, 1, 3, 6}, {kTake, kRec, 0, 1, 3, 6}}))
      << "matched twice";
  EXPECT_FALSE(explained({{kAccess, kArr, 1, 0, 1, 2}, {kAccess, kRec, 2, 0, 3, 4}}))
      << "two sides wait";
  EXPECT_FALSE(explained(
      {{kAccess, kArr, 1, 0, 1, 2}, {kRemove, kArr, 1, 1, 3, 6}, {kTake, kRec, 0, 1, 3, 6}}))
      << "cancelled and matched";
}

class MatchTableHistory : public ::testing::TestWithParam<unsigned> {};

TEST_P(MatchTableHistory, RandomRunsAreLinearizable) {
  const unsigned threads = GetParam();
  constexpr unsigned kOps = 6;
  constexpr unsigned kKeys = 2;
  constexpr std::size_t kEntries = 1 << 12;
  const uint64_t seed = testing::told_seed();
  const Deadline deadline(testing::stress_seconds());

  std::unique_ptr<MatchTable> table;
  std::atomic<uint64_t> clock{0};
  std::atomic<bool> stop{false};
  Gate gate(threads);
  struct Seen {
    unsigned key;
    MatchOp op;
  };
  std::vector<std::vector<Seen>> seen(threads);
  uint64_t filler = 0, histories = 0, operations = 0, overlapping = 0, splits = 0;
  std::size_t buckets = 0;

  testing::on_threads(threads, [&](unsigned me) {
    Random random(seed * 31 + me);
    for (uint64_t history = 0;; ++history) {
      if (me == 0) {
        stop = deadline.passed() || ::testing::Test::HasFailure();
        if (!table || filler + 4 * threads * kOps > kEntries) {
          table = std::make_unique<MatchTable>(2, kEntries);
          filler = 0;
        }
        buckets = table->buckets();
      }
      gate.pass();
      if (stop) return;
      auto& mine = seen[me];
      mine.clear();
      for (unsigned i = 0; i < kOps; ++i) {
        const auto key = static_cast<unsigned>(random.below(kKeys));
        const uint64_t table_key = (history * kKeys + key) * 7919;
        MatchOp op{};
        op.side = random.below(2) ? kArr : kRec;
        op.value = (me + 1) * 100 + i;
        const uint64_t what = random.below(8);
        op.kind = what == 0 ? kRemove : what == 1 ? kTake : kAccess;
        if (op.kind == kRemove)  // something that may be there
          op.value = (random.below(threads) + 1) * 100 + random.below(i + 1);
        gate.pass();
        op.called = clock.fetch_add(1);
        switch (op.kind) {
          case kAccess:
            op.answer = table->access(table_key, op.side, op.value);
            break;
          case kTake:
            op.answer = table->take(table_key, op.side);
            break;
          case kRemove:
            op.answer = table->remove(table_key, op.side, op.value);
            break;
        }
        op.returned = clock.fetch_add(1);
        mine.push_back({key, op});
        // Entries that stay: they make chains, and the table split its buckets.
        if (me == 0) {
          EXPECT_EQ(table->access(~filler, kArr, 1), 0u);
          ++filler;
        }
      }
      gate.pass();
      if (me != 0) continue;
      splits += table->buckets() - buckets;
      for (unsigned key = 0; key < kKeys; ++key) {
        std::vector<MatchOp> ops;
        for (const auto& thread : seen)
          for (const auto& one : thread)
            if (one.key == key) ops.push_back(one.op);
        operations += ops.size();
        for (const auto& op : ops) overlapping += op.returned - op.called > 1;
        HistoryChecker checker(std::move(ops));
        EXPECT_TRUE(checker.linearizable()) << checker.text();
        ++histories;
      }
    }
  });
  std::printf("[  history ] %llu histories; %llu of %llu operations overlapped; %llu splits\n",
              static_cast<unsigned long long>(histories),
              static_cast<unsigned long long>(overlapping),
              static_cast<unsigned long long>(operations), static_cast<unsigned long long>(splits));
  EXPECT_GT(histories, 0u);
}
INSTANTIATE_TEST_SUITE_P(Threads, MatchTableHistory, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace weft::comm
