// What may outlive an endpoint, and what an endpoint waits for when it ends.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "fabric/job_local.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using test::on_ranks;
using test::pattern;

constexpr std::size_t kLargeBytes = 1 << 20;

/// Heap blocks, counted; it may be told to have none.
class Counting final : public Allocator {
 public:
  std::atomic<bool> empty{false};
  std::atomic<int> out{0};
  std::atomic<int> asked{0};
  std::byte* allocate(std::size_t bytes) noexcept override {
    ++asked;
    if (empty) return nullptr;
    ++out;
    return heap_allocator().allocate(bytes);
  }
  void release(std::byte* memory, std::size_t bytes) noexcept override {
    --out;
    heap_allocator().release(memory, bytes);
  }
};

/// Ends `endpoint` and uses its memory again.
class Overwritten {
 public:
  explicit Overwritten(std::unique_ptr<Endpoint>& endpoint) {
    endpoint.reset();
    for (std::size_t bytes = 16; bytes < 4096; bytes += 16) {
      for (int i = 0; i < 2; ++i) {
        blocks_.push_back(std::make_unique<char[]>(bytes));
        std::memset(blocks_.back().get(), 0x5a, bytes);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

TEST(Lifetimes, ALargeMessageMayOutliveItsEndpoint) {
  for (const bool ready : {true, false}) {
    on_ranks(2, [&](Runtime& rt) {
      Counting memory;
      memory.empty = !ready;
      auto queue = std::make_unique<Endpoint>(
          rt, EndpointSpec{.arrival = Arrival::queue, .allocator = &memory});
      if (rt.rank() == Rank{0}) {
        EXPECT_EQ(queue->send_wait(Rank{1}, Tag{1}, pattern(kLargeBytes, 1)).error, Errc::ok);
      } else {
        Message message;
        rt.wait_until([&] { return queue->dequeue(message); });
        if (ready) rt.wait(message);
        const Overwritten ended(queue);
        memory.empty = false;
        rt.wait(message);
        const auto data = message.data();
        EXPECT_TRUE(std::vector<std::byte>(data.begin(), data.end()) == pattern(kLargeBytes, 1));
        EXPECT_EQ(memory.out, 1);
        message = Message();
        EXPECT_EQ(memory.out, 0);
      }
      rt.barrier();
    });
  }
}

// Whether they are read or come in packets: what has begun to arrive is handed on before the end.
TEST(Lifetimes, AHandlerSeesWhatIsComingInWhenItsEndpointEnds) {
  register_comm_config();
  fabric::register_fabric_config();
  for (const char* cma : {"auto", "off"}) {
    const test::ConfigOverride config(test::ConfigOverride::List{{"fabric.cma", cma}});
    on_ranks(2,
             [](Runtime& rt) {
               constexpr int kMessages = 4;
               const auto out = pattern(8 << 20, 1);
               Counting memory;
               std::atomic<int> got{0};
               auto handled = std::make_unique<Endpoint>(
                   rt, EndpointSpec{.arrival = Arrival::handler,
                                    .allocator = &memory,
                                    .handler =
                                        [](void* argument, const Incoming& message) {
                                          EXPECT_EQ(message.error, Errc::ok);
                                          EXPECT_EQ(message.data.size(), 8U << 20);
                                          ++*static_cast<std::atomic<int>*>(argument);
                                        },
                                    .handler_argument = &got});
               if (rt.rank() == Rank{0}) {
                 Counter done;
                 for (int i = 0; i < kMessages; ++i) {
                   EXPECT_EQ(
                       until_posted(rt, [&] { return handled->send(Rank{1}, Tag{1}, out, &done); }),
                       Post::posted);
                 }
                 rt.wait_until([&] { return done.value() == kMessages; });
                 EXPECT_EQ(done.errors(), 0U);
               } else {
                 while (memory.asked < kMessages) rt.progress();
                 const Overwritten ended(handled);
                 EXPECT_EQ(got, kMessages);
                 EXPECT_EQ(memory.out, 0);
               }
               rt.barrier();
             },
             {.progress = Progress::explicit_});
  }
}

// Signals that nobody takes any more do not keep an endpoint from ending.
TEST(Lifetimes, AnEndpointEndsWhoseSignalsHaveNoRoom) {
  on_ranks(2, [](Runtime& rt) {
    std::vector<std::byte> memory(kLargeBytes);
    const Region region(rt, memory);
    Team team(rt);
    std::vector<fabric::MemoryKey> keys(2);
    team.allgather(std::as_bytes(std::span(&region.key(), 1)),
                   std::as_writable_bytes(std::span(keys)));
    CompletionQueue told(2);
    auto remote = std::make_unique<Endpoint>(
        rt, EndpointSpec{.arrival = Arrival::memory, .at_target = &told});
    if (rt.rank() == Rank{0}) {
      const auto out = pattern(kLargeBytes, 1);
      Counter done;
      for (uint32_t i = 0; i < 3; ++i) {  // a fourth might come when there is no room
        EXPECT_EQ(
            until_posted(rt, [&] { return remote->put_signal(keys[1], 0, out, Tag{i}, &done); }),
            Post::posted);
      }
      rt.wait_until([&] { return done.value() == 3; });
      EXPECT_EQ(done.errors(), 0U);
    }
    team.barrier();
    const Overwritten ended(remote);
    Event event;
    int events = 0;
    while (told.pop(event)) ++events;
    EXPECT_EQ(events, rt.rank() == Rank{1} ? 2 : 0);
    team.barrier();
  });
}

// Memory that weft allocated can be written after its owner's death, which helps nobody.
TEST(Lifetimes, AccessesToSharedMemoryOfTheDeadFail) {
  struct Death : std::runtime_error {
    Death() : std::runtime_error("this rank is dead") {}
  };
  auto jobs = fabric::make_local_job(2, 1);
  std::atomic<bool> killed{false};
  std::atomic<bool> over{false};
  const auto live = [&](int rank) {
    RuntimeOptions mine;
    mine.job = jobs[static_cast<std::size_t>(rank)].get();
    Runtime rt(mine);
    const auto memory = rt.allocate_shared(4096);
    const Region region(rt, memory);
    Endpoint remote(rt, {.arrival = Arrival::memory});
    Team team(rt);
    std::vector<fabric::MemoryKey> keys(2);
    team.allgather(std::as_bytes(std::span(&region.key(), 1)),
                   std::as_writable_bytes(std::span(keys)));
    std::vector<std::byte> word(8);
    const Rank peer{1 - rank};
    EXPECT_EQ(remote.put_wait(keys[static_cast<std::size_t>(peer.value)], 0, word).error, Errc::ok);
    team.barrier();
    if (rank == 1) {
      fabric::kill_local_rank(*mine.job, Rank{1}, "fell over");
      killed = true;
      while (!over) std::this_thread::yield();
      throw Death();  // its runtime waits for nobody
    }
    // Who only puts hears of it, too.
    while (remote.put_wait(keys[1], 0, word).error == Errc::ok) {
    }
    EXPECT_TRUE(rt.is_dead(peer));
    EXPECT_EQ(remote.put_wait(keys[1], 0, word).error, Errc::peer_died);
    EXPECT_EQ(remote.get_wait(keys[1], 0, word).error, Errc::peer_died);
    Synchronizer told;
    EXPECT_EQ(remote.put_signal(keys[1], 0, word, Tag{1}, &told), Post::posted);
    rt.wait(told);
    EXPECT_EQ(told.event().error, Errc::peer_died);
    EXPECT_EQ(remote.put_wait(keys[0], 0, word).error, Errc::ok) << "to itself";
    over = true;
    while (!killed) std::this_thread::yield();  // which tells this runtime
  };
  test::on_threads(2, [&](int rank) {
    try {
      live(rank);
    } catch (const Death&) {
      EXPECT_EQ(rank, 1);
      over = true;
    }
  });
}

// Completions may end right after the endpoint.
TEST(Lifetimes, AnEndpointTellsItsReceivesThatItEnds) {
  on_ranks(2, [](Runtime& rt) {
    std::vector<std::byte> in(8);
    auto told = std::make_unique<Synchronizer>();
    auto endpoint = std::make_unique<Endpoint>(rt, EndpointSpec{});
    EXPECT_EQ(endpoint->recv(Rank{1}, Tag{1}, in, told.get()), Post::posted);
    endpoint.reset();
    EXPECT_TRUE(told->ready());
    EXPECT_EQ(told->event().error, Errc::cancelled);
    told.reset();
    rt.barrier();
  });
}

// Who ends the endpoint may be the one who empties the queue.
TEST(Lifetimes, AFullCompletionQueueIsToldLater) {
  on_ranks(2, [](Runtime& rt) {
    constexpr int kReceives = 20;
    std::vector<std::byte> in(8);
    CompletionQueue told(4);
    auto endpoint = std::make_unique<Endpoint>(rt, EndpointSpec{});
    for (int i = 0; i < kReceives; ++i)
      EXPECT_EQ(endpoint->recv(Rank{1}, Tag{1}, in, &told), Post::posted);
    endpoint.reset();
    for (int i = 0; i < kReceives; ++i) {
      Event event;
      rt.wait_until([&] { return told.pop(event); });
      EXPECT_EQ(event.error, Errc::cancelled);
    }
    rt.barrier();
  });
}

/// Takes nothing until it is told to.
struct Hesitant final : Matcher {
  std::atomic<bool> takes{false};
  std::atomic<int> taken{0};
  std::atomic<int> deaths{0};
  bool arrive(const Delivery& /*message*/) noexcept override {
    if (takes) ++taken;
    return takes;
  }
  bool announced(const Envelope& /*envelope*/, const Announcement& /*message*/,
                 std::span<const std::byte> /*brought*/) noexcept override {
    return takes;
  }
  Tried try_again() noexcept override { return Tried::all; }
  void peer_down(Rank peer) noexcept override {
    EXPECT_EQ(peer, Rank{2});
    ++deaths;
  }
};

// A death is told to endpoints that have yet to take what came before they were made: at once where
// nothing of it is by the dead, else once that was taken; and only once.
TEST(Lifetimes, DeathsAreToldToEndpointsThatAreStillBeingOpened) {
  struct Death : std::runtime_error {
    Death() : std::runtime_error("this rank is dead") {}
  };
  for (const int sender : {1, 2}) {
    auto jobs = fabric::make_local_job(3, 1);
    std::atomic<bool> sent{false};
    std::atomic<bool> made{false};
    std::atomic<bool> killed{false};
    std::atomic<bool> over{false};
    const auto live = [&](int rank) {
      RuntimeOptions mine;
      mine.job = jobs[static_cast<std::size_t>(rank)].get();
      mine.devices = 1;
      Runtime rt(mine);
      Endpoint letters(rt, {});
      Hesitant matcher;
      std::unique_ptr<Endpoint> late;
      const auto make = [&] {
        late = std::make_unique<Endpoint>(
            rt, EndpointSpec{.arrival = Arrival::matcher, .matcher = &matcher});
      };
      if (rank != 0) make();
      if (rank == sender) {
        (void)until_posted(rt, [&] { return late->send(Rank{0}, Envelope{}, {}); });
        letters.send_wait(Rank{0}, Tag{1}, {});
        sent = true;
      }
      if (rank == 2) {
        while (!made) std::this_thread::yield();
        fabric::kill_local_rank(*mine.job, Rank{2}, "fell over");
        killed = true;
        while (!over) std::this_thread::yield();
        throw Death();  // its runtime waits for nobody
      }
      if (rank == 0) {
        letters.recv_wait(Rank{sender}, Tag{1}, {});  // behind it
        make();
        made = true;
        rt.wait_until([&] { return rt.is_dead(Rank{2}); });
        if (sender == 1) {
          rt.wait_until([&] { return matcher.deaths == 1; });
        } else {
          for (int i = 0; i < 10; ++i) rt.progress();
          EXPECT_EQ(matcher.deaths, 0);
        }
        matcher.takes = true;
        rt.wait_until([&] { return matcher.taken == 1 && matcher.deaths == 1; });
        for (int i = 0; i < 10; ++i) rt.progress();
        EXPECT_EQ(matcher.deaths, 1);
        over = true;
      } else {
        rt.wait_until([&] { return over.load() && rt.is_dead(Rank{2}); });
      }
      while (!killed) std::this_thread::yield();
    };
    test::on_threads(3, [&](int rank) {
      try {
        live(rank);
      } catch (const Death&) {
        EXPECT_EQ(rank, 2);
      }
    });
    EXPECT_TRUE(sent);
  }
}

// What a forked child's copies of regions and messages stand for is its parent's.
TEST(Lifetimes, CopiesInAForkedChildEndNothing) {
  fabric::register_fabric_config();
  const test::ConfigOverride shared(test::ConfigOverride::List{{"fabric.transport", "shm"}});
  on_ranks(2, [](Runtime& rt) {
    Endpoint queue(rt, {.arrival = Arrival::queue});
    Endpoint remote(rt, {.arrival = Arrival::memory});
    std::vector<std::byte> memory(8);
    std::optional<Region> region(std::in_place, rt, memory);
    Team team(rt);
    std::vector<fabric::MemoryKey> keys(2);
    team.allgather(test::bytes_of(region->key()), std::as_writable_bytes(std::span(keys)));
    const auto first = pattern(5000, 1);
    if (rt.rank() == Rank{1}) {
      queue.send_wait(Rank{0}, Tag{0}, first);
      rt.barrier();  // the child has ended
      EXPECT_EQ(remote.put_wait(keys[0], 0, pattern(8, 5)).error, Errc::ok);
      for (uint32_t i = 0; i < 600; ++i)
        (void)until_posted(rt, [&] { return queue.send(Rank{0}, Tag{1}, pattern(5000, 2)); });
      rt.barrier();
      return;
    }
    std::optional<Message> kept = queue.dequeue_wait();
    const pid_t child = ::fork();
    if (child == 0) {
      kept.reset();
      region.reset();
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    rt.barrier();
    for (int i = 0; i < 600; ++i) (void)queue.dequeue_wait();
    EXPECT_TRUE(std::equal(first.begin(), first.end(), kept->data().begin()));
    EXPECT_TRUE(memory == pattern(8, 5));
    kept.reset();
    rt.barrier();
  });
}

// As many as a header can tell apart; who is asked for one more says so.
TEST(Endpoints, AreManyInTheLifeOfARuntime) {
  constexpr uint32_t kMost = 65536, kOfTheRuntime = 8;  // or fewer
  on_ranks(2, [](Runtime& rt) {
    const auto say = [&](Endpoint& endpoint, uint32_t what) {
      uint32_t word = rt.rank() == Rank{0} ? what : 0;
      if (rt.rank() == Rank{0})
        EXPECT_EQ(endpoint.send_wait(Rank{1}, Tag{1}, test::bytes_of(word)).error, Errc::ok);
      else
        EXPECT_EQ(endpoint.recv_wait(Rank{0}, Tag{1}, test::writable(word)).error, Errc::ok);
      EXPECT_EQ(word, what);
    };
    Endpoint first(rt, {});
    for (uint32_t i = 0; i < kMost - kOfTheRuntime - 2; ++i)
      Endpoint(rt, {.arrival = Arrival::memory});
    Endpoint last(rt, {});  // what comes before it is made waits for it
    say(first, 11);
    say(last, 12);
    const auto make_too_many = [&] {
      for (uint32_t i = 0; i <= kOfTheRuntime; ++i) Endpoint(rt, {.arrival = Arrival::memory});
    };
    try {
      make_too_many();
      ADD_FAILURE() << "no number was left for so many";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::no_memory);
      EXPECT_STREQ(error.what(), "too many endpoints were made: at most 65536 a runtime");
    }
    say(last, 13);
    rt.barrier();
  });
}

}  // namespace
}  // namespace weft
