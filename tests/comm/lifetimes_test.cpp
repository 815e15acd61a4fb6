// What may outlive an endpoint, and what an endpoint waits for when it ends.
#include <atomic>
#include <cstring>
#include <memory>
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
      for (uint32_t i = 0; i < 5; ++i) {
        EXPECT_EQ(
            until_posted(rt, [&] { return remote->put_signal(keys[1], 0, out, Tag{i}, &done); }),
            Post::posted);
      }
      rt.wait_until([&] { return done.value() == 5; });
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
    rt.wait_until([&] { return rt.is_dead(peer); });
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

// An endpoint that has no room yet for what others sent before it was made.
TEST(Lifetimes, ADeathIsToldToEndpointsThatAreStillBeingOpened) {
  register_comm_config();
  constexpr uint32_t kRoom = 64;
  const test::ConfigOverride config(
      test::ConfigOverride::List{{"comm.unexpected", std::to_string(kRoom)}});
  struct Death : std::runtime_error {
    Death() : std::runtime_error("this rank is dead") {}
  };
  auto jobs = fabric::make_local_job(3, 1);
  std::atomic<bool> killed{false};
  std::atomic<bool> over{false};
  std::atomic<bool> posted{false};
  const auto live = [&](int rank) {
    RuntimeOptions mine;
    mine.job = jobs[static_cast<std::size_t>(rank)].get();
    mine.devices = 1;
    Runtime rt(mine);
    Endpoint letters(rt, {});
    std::unique_ptr<Endpoint> late;
    if (rank != 0) late = std::make_unique<Endpoint>(rt, EndpointSpec{});
    if (rank == 1) {
      for (uint32_t i = 0; i < kRoom; ++i) letters.send_wait(Rank{0}, Tag{3}, {});
      late->send_wait(Rank{0}, Tag{4}, {});
      letters.send_wait(Rank{0}, Tag{1}, {});
      letters.recv_wait(Rank{0}, Tag{2}, {});
    } else if (rank == 2) {
      while (!posted) std::this_thread::yield();
      fabric::kill_local_rank(*mine.job, Rank{2}, "fell over");
      killed = true;
      while (!over) std::this_thread::yield();
      throw Death();  // its runtime waits for nobody
    } else {
      letters.recv_wait(Rank{1}, Tag{1}, {});  // behind them, which take all room
      late = std::make_unique<Endpoint>(rt, EndpointSpec{});
      std::vector<std::byte> in(8);
      Synchronizer before;
      EXPECT_EQ(late->recv(Rank{2}, Tag{1}, in, &before), Post::posted);
      posted = true;
      rt.wait_until([&] { return rt.is_dead(Rank{2}); });
      Synchronizer after;
      EXPECT_EQ(late->recv(Rank{2}, Tag{1}, in, &after), Post::posted);
      rt.wait(before);
      rt.wait(after);
      EXPECT_EQ(before.event().error, Errc::peer_died);
      EXPECT_EQ(after.event().error, Errc::peer_died);
      for (uint32_t i = 0; i < kRoom; ++i)
        EXPECT_EQ(letters.recv_wait(Rank{1}, Tag{3}, in).error, Errc::ok);
      EXPECT_EQ(late->recv_wait(Rank{1}, Tag{4}, in).error, Errc::ok);
      letters.send_wait(Rank{1}, Tag{2}, {});
      over = true;
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
}

}  // namespace
}  // namespace weft
