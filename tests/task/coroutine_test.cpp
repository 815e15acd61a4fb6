// Coroutines that await futures, one another, and whatever can be awaited.
#include "weft/task/coroutine.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "task/switch.hpp"
#include "task/workers.hpp"
#include "weft/task/channel.hpp"
#include "weft/task/select.hpp"

namespace weft::task {
namespace {

class Coroutines : public test::WithWorkers {};
WEFT_WITH_WORKERS(Coroutines);

Coroutine<int> sum_of(Future<int> a, Future<int> b) {
  const int first = co_await a;
  co_return first + co_await std::move(b);
}

TEST_P(Coroutines, AwaitFutures) {
  Scheduler scheduler(options());
  for (int i = 0; i < 100; ++i) {
    Promise<int> a;
    Promise<int> b;
    if (i % 2 == 0) b.set_value(2 * i);
    auto sum = sum_of(a.get_future(), b.get_future()).start(scheduler);
    EXPECT_FALSE(sum.ready());
    a.set_value(i);
    if (i % 2 != 0) b.set_value(2 * i);
    EXPECT_EQ(sum.get(), 3 * i);
  }
}

TEST_P(Coroutines, AreStartedAndAwaitedByTasksToo) {
  Scheduler scheduler(options());
  scheduler.run([&] {
    for (int i = 0; i < 100; ++i) {
      Promise<int> a;
      Promise<int> b;
      auto sum = sum_of(a.get_future(), b.get_future()).start(scheduler);
      auto sets = spawn([&] { a.set_value(1); });
      b.set_value(2);
      EXPECT_EQ(sum.get(), 3);
      sets.join();
    }
  });
}

Coroutine<void> count_up(std::vector<Future<void>> all, int& count) {
  for (auto& each : all) {
    co_await each;
    EXPECT_TRUE(this_task().valid());
    ++count;
  }
}

TEST_P(Coroutines, ResumeAsTasksOfTheirScheduler) {
  Scheduler scheduler(options());
  Scheduler other(options());
  constexpr int kSteps = 10;
  std::vector<Promise<void>> promises(kSteps);
  std::vector<Future<void>> futures;
  for (auto& promise : promises) futures.push_back(promise.get_future());
  int count = 0;
  auto done = count_up(std::move(futures), count).start(scheduler);
  const uint64_t before = other.stats().spawned;
  for (int i = 0; i < kSteps; ++i) {
    const auto step = static_cast<std::size_t>(i);
    if (i % 2 == 0) {
      promises[step].set_value();
    } else {
      other.run([&] { promises[step].set_value(); });
    }
  }
  done.get();
  EXPECT_EQ(count, kSteps);
  EXPECT_EQ(other.stats().spawned - before, static_cast<uint64_t>(kSteps / 2));
}

Coroutine<std::unique_ptr<int>> leaf(int value) { co_return std::make_unique<int>(value); }

Coroutine<int> tree(int depth) {
  if (depth == 0) co_return *co_await leaf(1);
  const int left = co_await tree(depth - 1);
  co_return left + co_await tree(depth - 1);
}

TEST_P(Coroutines, AwaitOneAnother) {
  Scheduler scheduler(options());
  EXPECT_EQ(tree(6).start(scheduler).get(), 64);
}

Coroutine<int> fails(Future<int> from) {
  try {
    co_await from;
  } catch (const BrokenPromise&) {
    throw std::runtime_error("no luck");
  }
  co_return 1;
}

Coroutine<void> outer(Future<int> from) { (void)co_await fails(std::move(from)); }

TEST_P(Coroutines, ThrowWhatTheyAwaitAndPassItOn) {
  Scheduler scheduler(options());
  auto promise = std::make_unique<Promise<int>>();
  auto result = outer(promise->get_future()).start(scheduler);
  promise.reset();
  EXPECT_THROW(result.get(), std::runtime_error);
}

struct Ends {
  explicit Ends(std::atomic<int>& ends) : count(&ends) {}
  Ends(Ends&& from) noexcept : count(std::exchange(from.count, nullptr)) {}
  Ends(const Ends&) = delete;
  Ends& operator=(Ends&&) = delete;
  ~Ends() {
    if (count != nullptr) ++*count;
  }
  std::atomic<int>* count;
};

Coroutine<void> holds(Ends /*argument*/, std::atomic<int>& ends) {
  const Ends local(ends);
  co_return;
}

TEST_P(Coroutines, EndBeforeTheirResultIsSeen) {
  Scheduler scheduler(options());
  for (int i = 0; i < 100; ++i) {
    std::atomic<int> ends{0};
    holds(Ends(ends), ends).start(scheduler).get();
    EXPECT_EQ(ends, 2);
  }
  std::atomic<int> ends{0};
  { const auto never_started = holds(Ends(ends), ends); }
  EXPECT_EQ(ends, 1);
}

// They are tasks while they run, and may wait as tasks do.
TEST_P(Coroutines, MayWaitAsTasks) {
  Scheduler scheduler(options());
  Channel<int> channel(1);
  const auto receives = [](Channel<int>& from, Future<int> first) -> Coroutine<int> {
    int sum = co_await first;
    while (const auto value = from.receive()) sum += *value;
    co_return sum;
  };
  Promise<int> first;
  auto sum = receives(channel, first.get_future()).start(scheduler);
  first.set_value(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(channel.send(i));
  channel.close();
  EXPECT_EQ(sum.get(), 46);
}

/// Something of the user's own to wait for: a gate that is opened once, for one.
class Gate final : public Awaited {
 public:
  Attempt attempt(WaitEntry* waiter) noexcept override {
    if (is_open_) return Attempt::done;
    base::Parker* nobody = nullptr;
    if (waiter == nullptr || waiting_.compare_exchange_strong(nobody, &waiter->parker())) {
      return Attempt::not_now;
    }
    return nobody == kOpen ? Attempt::done : Attempt::not_now;
  }
  void leave(WaitEntry& waiter) noexcept override {
    base::Parker* mine = &waiter.parker();
    waiting_.compare_exchange_strong(mine, nullptr);
  }
  void open() {
    is_open_ = true;
    if (base::Parker* parker = waiting_.exchange(kOpen)) parker->unpark();
  }

 private:
  static inline base::Parker* const kOpen = reinterpret_cast<base::Parker*>(1);
  std::atomic<bool> is_open_{false};
  std::atomic<base::Parker*> waiting_{nullptr};
};

TEST_P(Coroutines, AwaitWhateverCanBeAwaited) {
  Scheduler scheduler(options());
  for (int i = 0; i < 100; ++i) {
    Gate gate;
    const auto passes = [](Awaited& awaited) -> Coroutine<void> { co_await awaited; };
    auto passed = passes(gate).start(scheduler);
    std::thread([&] { gate.open(); }).join();
    passed.get();
  }
}

template <class A>
concept CanBeAwaited = requires(A&& a) {
  operator co_await(std::forward<A>(a));
};
using Receives = decltype(on_receive(std::declval<Channel<int>&>(), [](int) {}));
static_assert(CanBeAwaited<Future<int>&> && CanBeAwaited<Awaited&>);
static_assert(!CanBeAwaited<Receives> && !CanBeAwaited<Receives&>);

// The scheduler of a parent process spawns nothing in the child.
TEST(CoroutineTest, OneThatWasNotStartedMayBeTriedAgain) {
  if (kThreadSanitized) GTEST_SKIP() << "it starts no thread after a fork";
  Scheduler refuses({.workers = 1});
  const pid_t child = ::fork();
  if (child == 0) {
    auto seven = []() -> Coroutine<int> { co_return 7; }();
    try {
      (void)seven.start(refuses);
    } catch (const Error&) {
      Scheduler own({.workers = 1});
      std::_Exit(seven.start(own).get());
    }
    std::_Exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

TEST_P(Coroutines, ByTheThousand) {
  Scheduler scheduler(options());
  constexpr int kMany = 1000;
  std::vector<Promise<int>> promises(kMany);
  std::vector<Future<int>> sums;
  for (std::size_t i = 0; i + 1 < kMany; i += 2) {
    sums.push_back(sum_of(promises[i].get_future(), promises[i + 1].get_future()).start(scheduler));
  }
  std::thread sets([&] {
    for (auto& promise : promises) promise.set_value(1);
  });
  for (auto& sum : sums) EXPECT_EQ(sum.get(), 2);
  sets.join();
}

}  // namespace
}  // namespace weft::task
