// Signals racing with waits, yields, steals and ends: random programs whose result is known.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "task/workers.hpp"

namespace weft::task {
namespace {

class TaskStress : public test::WithWorkers {};
WEFT_WITH_WORKERS(TaskStress);

// Each of N tasks has a mailbox; all send to random others and wait for their own to fill. A lost
// signal is a hang, which the watchdog ends.
void send_to_each_other(Options options) {
  const uint64_t seed = test::stress_seed();
  std::mt19937_64 choice(seed);
  options.order = choice() % 4 == 0 ? Order::breadth_first : Order::depth_first;
  constexpr std::array kSteals{Steal::word, Steal::half_word, Steal::one};
  options.steal = kSteals[choice() % kSteals.size()];
  Scheduler scheduler(options);
  const test::StressClock clock(0.1);
  // Not before what shall race with the signals has happened.
  const auto has_raced = [&] {
    const Stats stats = scheduler.stats();
    return scheduler.workers() == 1 || (options.migrate ? stats.moved : stats.stolen) != 0;
  };
  for (uint64_t round = 0; clock.running(round) || !has_raced(); ++round) {
    constexpr std::size_t kTasks = 40;
    constexpr int kMessages = 50;
    std::vector<std::atomic<int>> mail(kTasks);
    std::vector<Handle<void>> tasks;
    std::vector<TaskRef> refs(kTasks);
    std::atomic<bool> ready{false};
    for (std::size_t me = 0; me < kTasks; ++me) {
      tasks.push_back(scheduler.spawn([&, me] {
        while (!ready) yield();
        std::mt19937_64 random(seed + round * kTasks + me);
        for (int i = 0; i < kMessages; ++i) {
          // A permutation in each round of messages: everybody gets one.
          const std::size_t to = (me + static_cast<std::size_t>(i) + 1) % kTasks;
          mail[to].fetch_add(1);
          signal(refs[to]);
          if (random() % 4 == 0) yield();
          if (random() % 8 == 0) spawn([&] { yield(); }).join();
          while (mail[me] < i + 1) wait();
        }
      }));
      refs[me] = tasks.back().ref();
    }
    ready = true;
    for (auto& task : tasks) task.join();
  }
}

TEST_P(TaskStress, NoSignalIsLost) { send_to_each_other(options()); }

// Each signal sets a word and, above it, a hint.
TEST_P(TaskStress, NoSignalIsLostOnTwoLevels) {
  Options two = options();
  two.two_levels = true;
  send_to_each_other(two);
  two.migrate = true;
  send_to_each_other(two);
}

TEST_P(TaskStress, NoSignalIsLostWhenTasksMove) {
  Options moving = options();
  moving.migrate = true;
  send_to_each_other(moving);
}

// A plain thread signals tasks that steal, yield and end.
TEST_P(TaskStress, ThreadsSignalTasksThatCome) {
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  for (uint64_t round = 0; clock.running(round); ++round) {
    std::atomic<int> tokens{0};
    auto consumer = scheduler.spawn([&] {
      int seen = 0;
      while (seen < 1000) {
        while (tokens == seen) wait();
        seen = tokens;
      }
    });
    const TaskRef ref = consumer.ref();
    std::thread producer([&] {
      for (int i = 0; i < 1000; ++i) {
        ++tokens;
        signal(ref);
      }
    });
    consumer.join();
    producer.join();
  }
}

int tree(std::mt19937_64& random, int depth) {
  if (depth == 0) return 1;
  std::vector<Handle<int>> children;
  const auto count = random() % 4;
  for (uint64_t i = 0; i < count; ++i) {
    children.push_back(spawn([seed = random(), depth] {
      std::mt19937_64 mine(seed);
      if (mine() % 5 == 0) yield();
      return tree(mine, depth - 1);
    }));
  }
  if (random() % 3 == 0) yield();
  int sum = 1;
  for (auto& child : children) sum += child.join();
  return sum;
}

// The same tree whatever is stolen.
TEST_P(TaskStress, UnbalancedTreesAddUp) {
  const uint64_t seed = test::stress_seed();
  Options one;
  one.workers = 1;
  Scheduler reference(one);
  for (const Steal steal : {Steal::one, Steal::half_word, Steal::word}) {
    Options many = options();
    many.steal = steal;
    Scheduler scheduler(many);
    const test::StressClock clock(0.03);
    for (uint64_t round = 0; clock.running(round); ++round) {
      const auto count = [&] {
        std::mt19937_64 random(seed + round);
        return tree(random, 7);
      };
      EXPECT_EQ(scheduler.run(count), reference.run(count));
    }
  }
}

}  // namespace
}  // namespace weft::task
