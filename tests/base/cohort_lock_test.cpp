// The lock between memory nodes, on a made-up machine with two of them.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/asleep.hpp"
#include "weft/base/arbitrated_locks.hpp"
#include "weft/base/config.hpp"
#include "weft/base/topology.hpp"

namespace weft::base {
namespace {

/// A holder on node 0; then, asleep one after the other, those who arrive: by default one of node 1
/// and four of node 0. The order in which they get the lock.
template <class L>
std::vector<int> order_of_turns(L& lock, const std::vector<int>& arrivals = {4, 0, 1, 2, 3}) {
  EXPECT_TRUE(bind_this_thread(0));
  typename L::Place place;
  lock.acquire(place);
  std::vector<int> order;  // under the lock
  std::vector<std::thread> threads;
  for (const int processor : arrivals) {
    std::atomic<pid_t> thread{0};
    threads.emplace_back([&, processor] {
      EXPECT_TRUE(bind_this_thread(processor));
      thread = test::this_thread_id();
      const Acquired hold(lock);
      order.push_back(processor);
    });
    test::wait_until_asleep(thread);
  }
  lock.release(place);
  for (auto& thread : threads) thread.join();
  return order;
}

class CohortLockOnTwoNodes : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    set_config("base.topology", "numa:2 core:4 pu:1");
    ASSERT_EQ(Topology::machine().numa_nodes(), 2);
  }
};

TEST_F(CohortLockOnTwoNodes, PassesWithinANodeBeforeOthersUpToABound) {
  CohortLock lock(2);
  EXPECT_EQ(order_of_turns(lock), (std::vector<int>{0, 1, 4, 2, 3}));
}

TEST_F(CohortLockOnTwoNodes, WithoutPassesItIsFirstComeFirstServedBetweenNodes) {
  CohortLock lock(0);
  EXPECT_EQ(order_of_turns(lock), (std::vector<int>{4, 0, 1, 2, 3}));
}

TEST_F(CohortLockOnTwoNodes, CandidatesOfAHierarchicalClhubStayInTheirNode) {
  // The first of node 1 is the candidate already; after it, the other one of its node.
  const std::vector<int> arrivals{4, 0, 5, 1, 2};
  HierarchicalClhubLock lock;
  EXPECT_EQ(order_of_turns(lock, arrivals), (std::vector<int>{4, 5, 0, 1, 2}));
  ClhubLock flat;
  EXPECT_EQ(order_of_turns(flat, arrivals), arrivals);
}

template <class L>
void one_at_a_time_from_both_nodes(L& lock) {
  uint64_t entered = 0;  // plain: lost if two are inside
  constexpr uint64_t kTurns = 2000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      EXPECT_TRUE(bind_this_thread(t));
      for (uint64_t i = 0; i < kTurns; ++i) {
        typename L::Place place;
        if (i % 5 == 0) {
          while (!lock.try_acquire(place)) sched_yield();
        } else {
          lock.acquire(place);
        }
        ++entered;
        lock.release(place);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(entered, 8 * kTurns);
}

TEST_F(CohortLockOnTwoNodes, OneAtATimeFromBothNodes) {
  CohortLock lock(3);
  one_at_a_time_from_both_nodes(lock);
}

TEST_F(CohortLockOnTwoNodes, OneAtATimeFromBothNodesByAHierarchicalClhub) {
  HierarchicalClhubLock lock;
  one_at_a_time_from_both_nodes(lock);
}

}  // namespace
}  // namespace weft::base
