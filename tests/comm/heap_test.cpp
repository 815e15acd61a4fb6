// Ranks whose heap has nothing to give, now and then: what needs memory waits for it, or says so,
// and nothing that others wait for is lost.
#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "comm/ranks.hpp"

namespace {

/// Of this thread: allocations that go well before one fails, and how many fail then.
thread_local int good_ones = -1;
thread_local int bad_ones = 0;

bool has_memory() {
  if (bad_ones == 0 || good_ones-- > 0) return true;
  --bad_ones;
  good_ones = 0;
  return false;
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* memory = has_memory() ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return has_memory() ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}

namespace weft {
namespace {

using test::on_ranks;
using test::pattern;

constexpr std::size_t kLargeMessage = 100'000;

/// After `good` allocations of this thread the next `bad` fail.
class Shortage {
 public:
  explicit Shortage(int good, int bad) {
    good_ones = good;
    bad_ones = bad;
  }
  ~Shortage() { bad_ones = 0; }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
};
constexpr int kAll = 1 << 30;

TEST(Heap, ALargeMessageIsTakenFromAQueueOnceThereIsMemory) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {.arrival = Arrival::queue});
    const auto data = pattern(kLargeMessage, 1);
    rt.barrier();  // they have met
    if (rt.rank() == Rank{1}) {
      EXPECT_EQ(ep.send_wait(Rank{0}, Tag{3}, data).error, Errc::ok);
      return;
    }
    Message message;
    {
      const Shortage shortage(0, kAll);
      while (!ep.dequeue(message)) rt.relax();
      for (int i = 0; i < 100; ++i) {
        (void)message.ready();
        (void)rt.progress();
      }
      if (message.ready()) std::abort();  // an assertion would allocate
    }
    rt.wait(message);
    EXPECT_EQ(message.error(), Errc::ok);
    EXPECT_TRUE(std::vector(message.data().begin(), message.data().end()) == data);
  });
}

TEST(Heap, LargeMessagesBothWaysNeedNone) {
  on_ranks(2, [](Runtime& rt) {
    Endpoint ep(rt, {});
    const Rank other{1 - rt.rank().value};
    const auto out = pattern(kLargeMessage, static_cast<uint32_t>(rt.rank().value));
    std::vector<std::byte> in(2 * kLargeMessage);
    rt.barrier();
    {
      const Shortage shortage(0, kAll);
      Counter over;
      for (uint32_t i = 0; i < 2; ++i) {
        (void)until_posted(rt, [&] {
          return ep.recv(other, Tag{i}, std::span(in).subspan(i * kLargeMessage, kLargeMessage),
                         &over);
        });
      }
      for (uint32_t i = 0; i < 2; ++i)
        (void)until_posted(rt, [&] { return ep.send(other, Tag{i}, out, &over); });
      rt.wait_until([&] { return over.value() == 4; });
    }
    const auto want = pattern(kLargeMessage, static_cast<uint32_t>(other.value));
    EXPECT_TRUE(std::equal(want.begin(), want.end(), in.begin()));
    EXPECT_TRUE(std::equal(want.begin(), want.end(), in.begin() + kLargeMessage));
    rt.barrier();
  });
}

/// Calls `collective` on 2 nodes of 2 ranks, of which one, or another beside it, finds no memory
/// for a while, sooner or later. It fails, and some of the others; nobody waits for ever, and the
/// next goes well.
void with_a_shortage(const std::function<void(Runtime&, Team&)>& collective) {
  on_ranks(
      4,
      [&](Runtime& rt) {
        Team team(rt);
        collective(rt, team);  // they have met
        for (int poor = 0; poor < rt.size(); ++poor) {
          for (int turn = 0; turn < 24; ++turn) {
            const int good = turn / 2;
            const int bad = turn % 2 == 0 ? 1 : 3;
            try {
              const int rank = rt.rank().value;
              const bool is_poor = rank == poor || (bad > 1 && rank == (poor + 2) % 4);
              const Shortage shortage(good, is_poor ? bad : 0);
              collective(rt, team);
            } catch (const std::bad_alloc&) {
              collective(rt, team);  // it had not begun
            } catch (const Error& error) {
              EXPECT_TRUE(error.code() == Errc::no_memory || error.code() == Errc::truncated)
                  << error.what();
            }
            collective(rt, team);
          }
        }
      },
      {}, 2);
}

TEST(Heap, CollectivesEndForAllIfOneFindsNone) {
  with_a_shortage([](Runtime&, Team& team) { team.barrier(); });
  with_a_shortage([](Runtime& rt, Team& team) {
    const auto want = pattern(500, 7);
    std::vector<std::byte> data = rt.rank() == Rank{3} ? want : std::vector<std::byte>(500);
    team.broadcast(Rank{3}, data);
    EXPECT_TRUE(data == want);
  });
  with_a_shortage([](Runtime&, Team& team) { EXPECT_EQ(team.sum(1), 4); });
  with_a_shortage([](Runtime& rt, Team& team) {
    const int mine = rt.rank().value + 1;
    std::vector<int> all(4);
    team.allgather(test::bytes_of(mine), std::as_writable_bytes(std::span(all)));
    EXPECT_EQ(std::accumulate(all.begin(), all.end(), 0), 10);
  });
  with_a_shortage([](Runtime& rt, Team& team) {
    std::vector<int> out(4);
    std::vector<int> in(4);
    std::iota(out.begin(), out.end(), 10 * rt.rank().value);
    team.alltoall(std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in)));
    for (int from = 0; from < 4; ++from)
      EXPECT_EQ(in[static_cast<std::size_t>(from)], 10 * from + rt.rank().value);
  });
}

}  // namespace
}  // namespace weft
