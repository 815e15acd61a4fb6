// Collectives over one and several (pretended) nodes, in every shape of job that a test can hold.
#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "comm/ranks.hpp"
#include "fabric/job_local.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using test::on_ranks;
using test::on_threads;
using test::pattern;

struct Shape {
  int ranks;
  int nodes;
};

class Collectives : public ::testing::TestWithParam<Shape> {
 protected:
  void run(const std::function<void(Runtime&, Team&)>& body) {
    on_ranks(
        GetParam().ranks,
        [&](Runtime& rt) {
          Team team(rt);
          body(rt, team);
        },
        {}, GetParam().nodes);
  }
};

TEST_P(Collectives, BroadcastFromEveryRoot) {
  run([](Runtime& rt, Team& team) {
    for (int root = 0; root < team.size(); ++root) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{8}, std::size_t{20000}}) {
        const auto want = pattern(size, static_cast<uint32_t>(root));
        std::vector<std::byte> data = rt.rank().value == root ? want : std::vector<std::byte>(size);
        team.broadcast(Rank{root}, data);
        EXPECT_TRUE(data == want);
      }
    }
  });
}

TEST_P(Collectives, ReductionsKeepRankOrder) {
  // Composition of affine maps x → a·x + b modulo 2^32: associative, not commutative.
  struct Affine {
    uint32_t a, b;
  };
  const ReduceFunction compose = [](std::byte* into, const std::byte* from, std::size_t bytes) {
    auto* f = reinterpret_cast<Affine*>(into);
    const auto* g = reinterpret_cast<const Affine*>(from);
    for (std::size_t i = 0; i < bytes / sizeof(Affine); ++i) {
      f[i] = {f[i].a * g[i].a, f[i].a * g[i].b + f[i].b};
    }
  };
  run([compose](Runtime& rt, Team& team) {
    const auto of = [](int rank) {
      return Affine{static_cast<uint32_t>(rank) * 2 + 3, static_cast<uint32_t>(rank) + 7};
    };
    Affine want = of(0);
    for (int r = 1; r < team.size(); ++r) {
      const Affine next = of(r);
      compose(reinterpret_cast<std::byte*>(&want), reinterpret_cast<const std::byte*>(&next),
              sizeof next);
    }
    for (int root = 0; root < team.size(); ++root) {
      Affine mine = of(rt.rank().value);
      team.reduce(Rank{root}, test::writable(mine), compose);
      const Affine expected = rt.rank().value == root ? want : of(rt.rank().value);
      EXPECT_EQ(mine.a, expected.a);
      EXPECT_EQ(mine.b, expected.b);
    }
    Affine all = of(rt.rank().value);
    team.allreduce(test::writable(all), compose);
    EXPECT_EQ(all.a, want.a);
    EXPECT_EQ(all.b, want.b);
    EXPECT_EQ(team.sum(rt.rank().value), team.size() * (team.size() - 1) / 2);
    EXPECT_EQ(team.max(rt.rank().value), team.size() - 1);
  });
}

TEST_P(Collectives, AllgatherAndAlltoall) {
  run([](Runtime& rt, Team& team) {
    const auto n = static_cast<std::size_t>(team.size());
    const int me = rt.rank().value;
    for (const std::size_t block : {std::size_t{8}, std::size_t{3000}, std::size_t{20000}}) {
      std::vector<std::byte> all(n * block);
      team.allgather(pattern(block, static_cast<uint32_t>(me)), all);
      std::vector<std::byte> out;
      for (std::size_t r = 0; r < n; ++r) {
        const auto want = pattern(block, static_cast<uint32_t>(r));
        EXPECT_TRUE(
            std::equal(want.begin(), want.end(), all.begin() + static_cast<long>(r * block)));
        const auto mine =
            pattern(block, static_cast<uint32_t>(me) * 1000 + static_cast<uint32_t>(r));
        out.insert(out.end(), mine.begin(), mine.end());
      }
      std::vector<std::byte> in(n * block);
      team.alltoall(out, in);
      for (std::size_t r = 0; r < n; ++r) {
        const auto want =
            pattern(block, static_cast<uint32_t>(r) * 1000 + static_cast<uint32_t>(me));
        EXPECT_TRUE(
            std::equal(want.begin(), want.end(), in.begin() + static_cast<long>(r * block)));
      }
    }
  });
}

TEST_P(Collectives, AlltoallvThatWasRefusedCanBeRepeated) {
  run([](Runtime& rt, Team& team) {
    const auto ranks = static_cast<std::size_t>(rt.size());
    const auto me = static_cast<std::size_t>(rt.rank().value);
    std::vector<std::size_t> out_bytes(ranks, 8);
    std::vector<std::size_t> in_bytes(ranks, 8);
    if (me + 1 == ranks) {
      in_bytes[me] = 4;
      const auto room = std::accumulate(in_bytes.begin(), in_bytes.end(), std::size_t{0});
      std::vector<std::byte> out(8 * ranks);
      std::vector<std::byte> in(room);
      EXPECT_THROW(team.alltoallv(out, out_bytes, in, in_bytes), Error);
      in_bytes[me] = 8;
    }
    const auto out = pattern(8 * ranks, 1);
    std::vector<std::byte> in(8 * ranks);
    team.alltoallv(out, out_bytes, in, in_bytes);
    EXPECT_TRUE(std::equal(in.begin(), in.begin() + 8, out.begin() + static_cast<long>(8 * me)));
  });
}

TEST_P(Collectives, AlltoallvWithSizesOfTheirOwn) {
  run([](Runtime& rt, Team& team) {
    const auto n = static_cast<std::size_t>(team.size());
    const auto me = static_cast<std::size_t>(rt.rank().value);
    const auto size_of = [](std::size_t from, std::size_t to) {
      return (from * 7 + to * 13) % 5 == 0 ? std::size_t{0} : from * 100 + to * 10;
    };
    std::vector<std::size_t> out_bytes(n);
    std::vector<std::size_t> in_bytes(n);
    std::vector<std::byte> out;
    for (std::size_t r = 0; r < n; ++r) {
      out_bytes[r] = size_of(me, r);
      in_bytes[r] = size_of(r, me);
      const auto block = pattern(out_bytes[r], static_cast<uint32_t>(me * 100 + r));
      out.insert(out.end(), block.begin(), block.end());
    }
    std::vector<std::byte> in(std::accumulate(in_bytes.begin(), in_bytes.end(), std::size_t{0}));
    team.alltoallv(out, out_bytes, in, in_bytes);
    auto at = in.begin();
    for (std::size_t r = 0; r < n; ++r) {
      const auto want = pattern(in_bytes[r], static_cast<uint32_t>(r * 100 + me));
      EXPECT_TRUE(std::equal(want.begin(), want.end(), at)) << r;
      at += static_cast<long>(in_bytes[r]);
    }
  });
}

TEST_P(Collectives, BarrierHoldsEveryoneBack) {
  static std::atomic<int> entered;
  entered = 0;
  run([](Runtime&, Team& team) {
    for (int round = 1; round <= 50; ++round) {
      ++entered;
      team.barrier();
      EXPECT_GE(entered, round * team.size());
      team.barrier();
    }
  });
}

struct Death {};

/// Calls every collective; how many failed.
int failures_of_all(Team& team) {
  int failed = 0;
  const auto expect_end = [&](auto call) {
    try {
      call();
    } catch (const Error& error) {
      ++failed;
      EXPECT_TRUE(error.code() == Errc::peer_died || error.code() == Errc::truncated)
          << error.what();
    }
  };
  const auto size = static_cast<std::size_t>(team.size());
  std::vector<std::byte> one(40);
  std::vector<std::byte> all(40 * size);
  std::vector<std::byte> others(40 * size);
  const ReduceFunction none = [](std::byte*, const std::byte*, std::size_t) {};
  expect_end([&] { team.barrier(); });
  expect_end([&] { team.allreduce(one, none); });
  expect_end([&] { team.allgather(one, all); });
  expect_end([&] { team.alltoall(all, others); });
  for (int root = 0; root < team.size(); ++root) {
    expect_end([&] { team.broadcast(Rank{root}, one); });
    expect_end([&] { team.reduce(Rank{root}, one, none); });
  }
  return failed;
}

/// One rank dies. All others call every collective, twice: whoever needs the dead one is told so,
/// and nobody waits for ever; nor do their runtimes when they end.
TEST_P(Collectives, FailWithoutARankAndEndForAll) {
  const auto [ranks, nodes] = GetParam();
  for (int gone = 0; gone < ranks; gone += std::max(1, ranks / 2)) {
    auto jobs = fabric::make_local_job(ranks, nodes);
    std::atomic<int> failed{0};
    std::atomic<int> met{0};
    const auto live = [&, ranks = ranks, gone = gone](int rank) {
      RuntimeOptions mine;
      mine.job = jobs[static_cast<std::size_t>(rank)].get();
      Runtime runtime(mine);
      Team team(runtime);
      team.barrier();
      ++met;
      if (rank == gone) {
        // What it sent may be on its way still, and go with it.
        while (met.load() < ranks) std::this_thread::yield();
        fabric::kill_local_rank(*mine.job, Rank{gone}, "fell over");
        throw Death();  // its runtime waits for nobody
      }
      for (int round = 0; round < 2; ++round) failed += failures_of_all(team);
    };
    on_threads(ranks, [&, gone = gone](int rank) {
      try {
        live(rank);
      } catch (const Death&) {
        EXPECT_EQ(rank, gone);
      }
    });
    // All of them, of the four that need everybody.
    EXPECT_GE(failed.load(), (ranks - 1) * 2 * 4);
  }
}

TEST(CollectivesErrors, RefuseWrongSizes) {
  on_ranks(2, [](Runtime& rt) {
    Team team(rt);
    std::vector<std::byte> three(3);
    std::vector<std::byte> four(4);
    EXPECT_THROW(team.allgather(three, four), Error);
    EXPECT_THROW(team.alltoall(three, three), Error);
    EXPECT_THROW(team.broadcast(Rank{2}, four), Error);
    EXPECT_THROW(team.allreduce(four, nullptr), Error);
    EXPECT_EQ(team.sum(1), 2);
  });
}

TEST(CollectivesErrors, TwoThreadsInOneTeamAreTold) {
  on_ranks(2, [](Runtime& rt) {
    Team team(rt);
    Team other(rt);
    if (rt.rank() == Rank{0}) {
      // One of two threads is in first, and waits for rank 1; the other one is told.
      std::atomic<int> told{0};
      {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 2; ++i) {
          threads.emplace_back([&] {
            try {
              team.barrier();
            } catch (const Error& error) {
              EXPECT_EQ(error.code(), Errc::bad_argument);
              EXPECT_NE(std::string(error.what()).find("one Team at once"), std::string::npos);
              ++told;
              other.barrier();  // now rank 1 may come
            }
          });
        }
      }
      EXPECT_EQ(told.load(), 1);
    } else {
      other.barrier();
      team.barrier();
    }
    EXPECT_EQ(team.sum(1), 2);
  });
}

/// Rank 0 has less for its neighbours than they want.
TEST_P(Collectives, AShortBlockIsTold) {
  run([](Runtime&, Team& team) {
    const auto size = static_cast<std::size_t>(team.size());
    if (size == 1) return;
    std::vector<std::size_t> out_bytes(size, 8);
    const std::vector<std::size_t> in_bytes(size, 8);
    if (team.rank() == Rank{0}) std::fill(out_bytes.begin() + 1, out_bytes.end(), 4);
    const std::vector<std::byte> out(std::accumulate(out_bytes.begin(), out_bytes.end(), 0UL));
    std::vector<std::byte> in(8 * size);
    // Who finds one spoils what it sends on: others may be told that.
    bool told = false;
    try {
      team.alltoallv(out, out_bytes, in, in_bytes);
    } catch (const Error& error) {
      told = true;
      EXPECT_TRUE(error.code() == Errc::bad_argument || error.code() == Errc::truncated)
          << error.what();
    }
    EXPECT_TRUE(told || team.rank() == Rank{0});
    EXPECT_EQ(team.sum(1), team.size());  // the next is not disturbed
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, Collectives,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{3, 1}, Shape{8, 1},
                                           Shape{4, 2}, Shape{7, 3}, Shape{9, 4}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.ranks) + "on" +
                                  std::to_string(shape.param.nodes);
                         });

}  // namespace
}  // namespace weft
