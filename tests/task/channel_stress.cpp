// Channels, futures and select under random programs whose result is known: every value arrives
// once, in order, and nobody waits for ever.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/stress.hpp"
#include "task/workers.hpp"
#include "weft/task/channel.hpp"
#include "weft/task/coroutine.hpp"
#include "weft/task/future.hpp"
#include "weft/task/select.hpp"

namespace weft::task {
namespace {

class ChannelStress : public test::WithWorkers {};
WEFT_WITH_WORKERS(ChannelStress);

using Random = std::mt19937_64;

/// A deadline that often comes just when something else does.
uint64_t by_soon(Random& random) { return base::now_ns() + random() % 30'000; }

/// Sends in one of the ways there are; true: sent.
template <class Channel>
bool send_somehow(Channel& channel, uint64_t value, Random& random) {
  switch (random() % 6) {
    case 0:
      return channel.try_send(value);
    case 1:
      return channel.send_until(value, by_soon(random));
    case 2:
      return select(by_soon(random), on_send(channel, value, [] {})) == 0;
    case 3:
      return select(on_send(channel, value, [] {})) == 0;
    default:
      return channel.send(value);
  }
}

template <class Channel>
std::optional<uint64_t> receive_somehow(Channel& channel, Random& random) {
  std::optional<uint64_t> value;
  const auto take = [&](std::optional<uint64_t> given) { value = given; };
  switch (random() % 6) {
    case 0:
      return channel.try_receive();
    case 1:
      return channel.receive_until(by_soon(random));
    case 2:
      select(by_soon(random), on_receive(channel, take));
      return value;
    case 3:
      select(on_receive(channel, take));
      return value;
    default:
      return channel.receive();
  }
}

void dawdle(Random& random) {
  const uint64_t turn = random() % 16;
  if (turn == 0) yield();
  if (turn == 1) {
    for (uint64_t i = random() % 1000; i > 0; --i) base::cpu_relax();
  }
}

template <class Channel>
void send_all(Channel& channel, uint64_t first, uint64_t count, Random random) {
  for (uint64_t value = first; value < first + count;) {
    if (send_somehow(channel, value, random)) {
      ++value;
    } else {
      yield();
    }
    dawdle(random);
  }
}

// One to one: in order, whoever waits how, and the channel ends with the last value.
TEST_P(ChannelStress, OneToOneInOrder) {
  const uint64_t seed = test::stress_seed();
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  for (uint64_t round = 0; clock.running(round); ++round) {
    Random random(seed + round);
    auto channel = std::make_unique<SpscChannel<uint64_t>>(1 + random() % 5);
    const uint64_t count = 1 + random() % 300;
    const auto send = [c = channel.get(), count, seeds = random()] {
      send_all(*c, 0, count, Random(seeds));
    };
    const auto receive = [&, seeds = random()] {
      Random mine(seeds);
      for (uint64_t next = 0; next < count;) {
        if (const auto value = receive_somehow(*channel, mine)) {
          ASSERT_EQ(*value, next);
          ++next;
        } else {
          yield();
        }
        dawdle(mine);
      }
      channel.reset();
    };
    if (round % 4 == 0) {
      std::thread thread(send);
      scheduler.run(receive);
      thread.join();
    } else {
      auto sender = scheduler.spawn(send);
      if (round % 4 == 1) {
        receive();
      } else {
        scheduler.run(receive);
      }
      sender.join();
    }
  }
}

// The publisher stops to be careful, since nobody has waited for a while, just when somebody comes
// to wait: that one must be seen by this ring or the next.
TEST(WaitSlotStress, NobodyIsForgottenWhoComesWhenCareEnds) {
  Random random(test::stress_seed());
  WaitSlot slot;
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> published{0};
  std::atomic<uint64_t> seen{0};
  std::atomic<bool> over{false};
  std::thread waits([&] {
    WaitEntry entry;
    for (uint64_t round = 1;; ++round) {
      EXPECT_TRUE(slot.add(entry));  // now the publisher is careful
      slot.leave(entry);
      seen = round;
      while (begun < round && !over) base::cpu_relax();
      if (over) return;
      while (published < round) {
        EXPECT_TRUE(slot.add(entry));
        if (published < round) {
          while (entry.waits()) entry.parker().park();
        }
        slot.leave(entry);
      }
    }
  });
  const test::StressClock clock(0.1);
  uint64_t round = 1;
  for (; clock.running(round); ++round) {
    while (seen < round) base::cpu_relax();
    for (uint64_t quiet = 252 + random() % 4; quiet > 0; --quiet) slot.ring();
    begun = round;
    for (uint64_t quiet = random() % 4; quiet > 0; --quiet) slot.ring();
    published.store(round, std::memory_order_release);
    slot.ring();
  }
  while (seen < round) base::cpu_relax();
  over = true;
  waits.join();
}

// Many to many over several channels, each task with a select of its own choice: every value once.
TEST_P(ChannelStress, ManyToManyOnce) {
  const uint64_t seed = test::stress_seed();
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  for (uint64_t round = 0; clock.running(round); ++round) {
    constexpr std::size_t kSenders = 6;
    constexpr std::size_t kReceivers = 5;
    constexpr uint64_t kEach = 50;
    Random random(seed + round);
    std::array<Channel<uint64_t>, 3> channels{Channel<uint64_t>(1), Channel<uint64_t>(2),
                                              Channel<uint64_t>(1 + random() % 8)};
    std::vector<std::atomic<int>> seen(kSenders * kEach);
    const auto count = [&seen](uint64_t value) { ++seen[value]; };
    const auto send = [&](std::size_t s, Random mine) {
      for (uint64_t value = s * kEach; value < (s + 1) * kEach;) {
        const std::size_t to = mine() % 3;
        if (mine() % 2 == 0) {
          if (send_somehow(channels[to], value, mine)) ++value;
        } else if (select(by_soon(mine), on_send(channels[to], value, [] {}),
                          on_send(channels[(to + 1) % 3], value, [] {})) >= 0) {
          ++value;
        }
        dawdle(mine);
      }
    };
    const auto receive = [&](Random mine) {
      for (int which = 0; which != kAllClosed;) {
        const std::size_t from = mine() % 3;
        if (mine() % 2 == 0) {
          // Never for ever: senders may all be waiting for room in another.
          if (const auto value = channels[from].receive_until(by_soon(mine))) count(*value);
        } else {
          which =
              select(mine() % 2 == 0 ? kNoDeadline : by_soon(mine),
                     on_receive(channels[from], count), on_receive(channels[(from + 1) % 3], count),
                     on_receive(channels[(from + 2) % 3], count));
        }
        dawdle(mine);
      }
    };
    std::vector<Handle<void>> senders;
    std::vector<Handle<void>> receivers;
    for (std::size_t s = 0; s < kSenders; ++s) {
      senders.push_back(scheduler.spawn([&, s, seeds = random()] { send(s, Random(seeds)); }));
    }
    for (std::size_t r = 0; r < kReceivers; ++r) {
      receivers.push_back(scheduler.spawn([&, seeds = random()] { receive(Random(seeds)); }));
    }
    std::thread thread([&, seeds = random()] { receive(Random(seeds)); });
    for (auto& sender : senders) sender.join();
    for (auto& channel : channels) channel.close();
    for (auto& receiver : receivers) receiver.join();
    thread.join();
    for (const auto& times : seen) ASSERT_EQ(times, 1);
  }
}

// What was sent before the close, or while it happens by another, is received or was not sent.
TEST_P(ChannelStress, ClosingLosesNothing) {
  const uint64_t seed = test::stress_seed();
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  for (uint64_t round = 0; clock.running(round); ++round) {
    Random random(seed + round);
    Channel<uint64_t> channel(1 + random() % 3);
    std::atomic<int> sent{0};
    std::atomic<int> received{0};
    std::vector<Handle<void>> tasks;
    for (int i = 0; i < 4; ++i) {
      tasks.push_back(scheduler.spawn([&, seeds = random()] {
        Random mine(seeds);
        while (channel.send(1)) {
          ++sent;
          dawdle(mine);
        }
      }));
      tasks.push_back(scheduler.spawn([&, seeds = random()] {
        Random mine(seeds);
        while (channel.receive()) {
          ++received;
          dawdle(mine);
        }
      }));
    }
    const int enough = static_cast<int>(random() % 50);
    while (received < enough) std::this_thread::yield();
    channel.close();
    for (auto& task : tasks) task.join();
    ASSERT_EQ(sent, received);
  }
}

// Futures that are set, waited for with deadlines, selected and awaited, and end at once.
TEST_P(ChannelStress, FuturesAreReadyOnceForAll) {
  const uint64_t seed = test::stress_seed();
  Scheduler scheduler(options());
  const test::StressClock clock(0.1);
  const auto awaits = [](Future<uint64_t> future) -> Coroutine<uint64_t> {
    co_return co_await future;
  };
  for (uint64_t round = 0; clock.running(round); ++round) {
    Random random(seed + round);
    constexpr std::size_t kMany = 8;
    std::vector<std::unique_ptr<Promise<uint64_t>>> promises;
    std::vector<Future<uint64_t>> awaited;
    std::vector<Handle<void>> tasks;
    for (uint64_t i = 0; i < kMany; ++i) {
      promises.push_back(std::make_unique<Promise<uint64_t>>());
      if (i % 4 == 0) {
        awaited.push_back(awaits(promises[i]->get_future()).start(scheduler));
        continue;
      }
      tasks.push_back(
          scheduler.spawn([&, i, seeds = random(), future = promises[i]->get_future()]() mutable {
            Random mine(seeds);
            if (i % 4 == 1) {
              while (future.wait_until(by_soon(mine)) != std::future_status::ready) {
              }
            } else if (i % 4 == 2) {
              while (select(by_soon(mine), on_ready(future, [] {})) < 0) {
              }
            }
            ASSERT_EQ(future.get(), i);
            promises[i].reset();
          }));
    }
    const auto set = [&](std::size_t from, Random mine) {
      for (std::size_t i = from; i < kMany; i += 2) {
        dawdle(mine);
        promises[i]->set_value(i);
      }
    };
    auto sets = scheduler.spawn([&, seeds = random()] { set(0, Random(seeds)); });
    std::thread thread([&, seeds = random()] { set(1, Random(seeds)); });
    for (std::size_t i = 0; i < awaited.size(); ++i) ASSERT_EQ(awaited[i].get(), 4 * i);
    for (auto& task : tasks) task.join();
    sets.join();
    thread.join();
  }
}

}  // namespace
}  // namespace weft::task
