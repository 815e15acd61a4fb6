// The joining contract as `local` and `alone` keep it. (`pmix` is tested through weftrun, in
// tests/jobs.)
#include "weft/fabric/job.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fabric/job_alone.hpp"
#include "fabric/job_local.hpp"
#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

using Jobs = std::vector<std::unique_ptr<Job>>;

/// Runs `body(job)` on a thread for each rank.
template <class Body>
void on_all(Jobs& jobs, Body body) {
  std::vector<std::jthread> threads;
  for (auto& job : jobs) threads.emplace_back([&job, &body] { body(*job); });
}

/// The error that `body` throws; `ok` if none.
template <class Body>
std::pair<Errc, std::string> error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Errc::ok, ""};
}

TEST(LocalJob, DealsRanksToNodesInBlocks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (int nodes = 1; nodes <= ranks; ++nodes) {
      const Jobs jobs = make_local_job(ranks, nodes);
      ASSERT_EQ(jobs.size(), static_cast<std::size_t>(ranks));
      std::vector<int> members(static_cast<std::size_t>(nodes), 0);
      for (int r = 0; r < ranks; ++r) {
        const Job& job = *jobs[static_cast<std::size_t>(r)];
        EXPECT_EQ(job.rank(), Rank{r});
        EXPECT_EQ(job.size(), ranks);
        EXPECT_EQ(job.node_count(), nodes);
        const int node = job.node_of(Rank{r});
        ++members.at(static_cast<std::size_t>(node));
        if (r > 0) {
          EXPECT_GE(node, job.node_of(Rank{r - 1}));
        }
        // Nodes are pretended: all ranks share memory.
        EXPECT_EQ(job.node_ranks().size(), jobs.size());
        EXPECT_EQ(job.node_ranks().back(), Rank{ranks - 1});
      }
      for (const int count : members)
        EXPECT_TRUE(count == ranks / nodes || count == ranks / nodes + 1);
    }
  }
}

TEST(LocalJob, RefusesWhatIsNoJob) {
  for (const auto& shape : {std::pair{0, 1}, {-1, 1}, {2, 0}, {2, 3}})
    EXPECT_EQ(error_of([&] { (void)make_local_job(shape.first, shape.second); }).first,
              Errc::bad_argument);
}

TEST(LocalJob, HasOneIdAndOneKey) {
  const Jobs first = make_local_job(3);
  const Jobs second = make_local_job(1);
  EXPECT_EQ(first[0]->id(), first[2]->id());
  EXPECT_EQ(first[0]->key(), first[2]->key());
  EXPECT_NE(first[0]->id(), second[0]->id());
  EXPECT_NE(first[0]->key(), second[0]->key());
  EXPECT_EQ(first[0]->key().size(), 32U);
  EXPECT_EQ(first[0]->provider(), "local");
  for (const char c : first[0]->id())
    EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '-') << first[0]->id();
}

TEST(LocalJob, ValuesAreSeenAfterTheFence) {
  Jobs jobs = make_local_job(4);
  on_all(jobs, [](Job& job) {
    const std::string mine = "of " + std::to_string(job.rank().value) + std::string("\0\xff", 2);
    job.put("name", mine);
    job.put("empty", "");
    job.fence();
    for (int peer = 0; peer < job.size(); ++peer)
      EXPECT_EQ(job.get(Rank{peer}, "name"),
                "of " + std::to_string(peer) + std::string("\0\xff", 2));
    EXPECT_EQ(job.get(Rank{3}, "empty"), "");
    job.fence();
    job.put("name", "new");
    job.fence();
    EXPECT_EQ(job.get(Rank{1}, "name"), "new");
  });
}

TEST(LocalJob, ValuesAreNotSeenBeforeTheFence) {
  Jobs jobs = make_local_job(2);
  jobs[0]->put("name", "value");
  EXPECT_EQ(error_of([&] { jobs[1]->get(Rank{0}, "name"); }).first, Errc::no_such_peer);
  EXPECT_EQ(error_of([&] { jobs[1]->get(Rank{2}, "name"); }).first, Errc::no_such_peer);
  EXPECT_EQ(error_of([&] { jobs[1]->get(Rank{-1}, "name"); }).first, Errc::no_such_peer);
}

TEST(LocalJob, NobodyPassesAFenceBeforeAllHaveComeToIt) {
  constexpr int kRanks = 5;
  constexpr int kRounds = 300;
  Jobs jobs = make_local_job(kRanks);
  std::atomic<int> came{0};
  on_all(jobs, [&](Job& job) {
    for (int round = 1; round <= kRounds; ++round) {
      came.fetch_add(1, std::memory_order_relaxed);  // the fence orders it
      job.fence();
      EXPECT_GE(came.load(std::memory_order_relaxed), kRanks * round);
      EXPECT_LE(came.load(std::memory_order_relaxed), kRanks * (round + 1));
    }
  });
  EXPECT_EQ(came, kRanks * kRounds);
}

TEST(LocalJob, ADeathEndsFencesAndIsToldOnce) {
  constexpr int kRanks = 4;
  Jobs jobs = make_local_job(kRanks);
  std::atomic<int> told{0};
  for (auto& job : jobs)
    job->on_peer_death([&](Rank who, const std::string& cause) {
      EXPECT_EQ(who, Rank{2});
      EXPECT_EQ(cause, "fell over");
      ++told;
    });
  {
    std::vector<std::jthread> threads;
    for (const int r : {0, 1, 3})
      threads.emplace_back([&jobs, r] {
        Job& job = *jobs[static_cast<std::size_t>(r)];
        for (int again = 0; again < 2; ++again) {
          const auto [code, text] = error_of([&] { job.fence(); });
          EXPECT_EQ(code, Errc::peer_died);
          EXPECT_NE(text.find("rank 2"), std::string::npos) << text;
          EXPECT_NE(text.find("fell over"), std::string::npos) << text;
        }
      });
    kill_local_rank(*jobs[0], Rank{2}, "fell over");
    kill_local_rank(*jobs[1], Rank{2}, "again");
  }
  EXPECT_EQ(told, kRanks - 1);
  EXPECT_EQ(error_of([&] { jobs[2]->fence(); }).first, Errc::peer_died);
  // Who asks later is told, too.
  int late = 0;
  jobs[0]->on_peer_death([&](Rank, const std::string&) { ++late; });
  EXPECT_EQ(late, 1);
  EXPECT_EQ(error_of([&] { kill_local_rank(*jobs[0], Rank{4}, ""); }).first, Errc::bad_argument);
}

/// Whoever takes its handler back may destroy at once what the handler uses.
TEST(LocalJob, AHandlerThatIsBeingCalledIsAwaited) {
  for (const bool replaced : {true, false}) {
    Jobs jobs = make_local_job(2);
    std::atomic<bool> begun{false};
    bool ended = false;  // not atomic: ThreadSanitizer sees whether it is awaited
    jobs[0]->on_peer_death([&](Rank, const std::string&) {
      begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
    const std::jthread killer([&] { kill_local_rank(*jobs[1], Rank{1}, "fell over"); });
    while (!begun) std::this_thread::yield();
    if (replaced)
      jobs[0]->on_peer_death(nullptr);
    else
      jobs[0].reset();
    EXPECT_TRUE(ended);
  }
}

TEST(LocalJob, AFenceFailsOnceARankHasLeft) {
  Jobs jobs = make_local_job(2);
  int told = 0;
  jobs[0]->on_peer_death([&](Rank, const std::string&) { ++told; });
  jobs[1].reset();
  EXPECT_EQ(error_of([&] { jobs[0]->fence(); }).first, Errc::peer_died);
  EXPECT_EQ(told, 0);
}

TEST(LocalJobDeathTest, AbortEndsTheProcess) {
  EXPECT_EXIT(make_local_job(2)[1]->abort(7, "no hope"), testing::ExitedWithCode(7),
              "^weft: rank 1 ended the job: no hope\n$");
}

TEST(AloneJob, IsAJobOfOne) {
  const std::unique_ptr<Job> job = make_alone_job();
  EXPECT_EQ(job->rank(), Rank{0});
  EXPECT_EQ(job->size(), 1);
  EXPECT_EQ(job->node_ranks(), std::vector<Rank>{Rank{0}});
  EXPECT_EQ(job->node_of(Rank{0}), 0);
  EXPECT_EQ(job->node_count(), 1);
  EXPECT_EQ(job->key().size(), 32U);
  EXPECT_EQ(job->provider(), "alone");
  EXPECT_NE(job->id(), make_alone_job()->id());
  job->put("name", "one");
  EXPECT_EQ(error_of([&] { job->get(Rank{0}, "name"); }).first, Errc::no_such_peer);
  job->fence();
  EXPECT_EQ(job->get(Rank{0}, "name"), "one");
  EXPECT_EQ(error_of([&] { job->get(Rank{1}, "name"); }).first, Errc::no_such_peer);
}

TEST(AloneJobDeathTest, AnAbortIsNeverASuccess) {
  EXPECT_EXIT(make_alone_job()->abort(0, "why"), testing::ExitedWithCode(1), "why");
  EXPECT_EXIT(make_alone_job()->abort(256, "why"), testing::ExitedWithCode(1), "why");
}

// NOLINTBEGIN(concurrency-mt-unsafe): one thread
TEST(JoinJob, WithoutALauncherIsAlone) {
  unsetenv("PMIX_RANK");
  unsetenv("PMIX_NAMESPACE");
  EXPECT_EQ(join_job()->provider(), "alone");
  // Half of what a launcher sets is none.
  setenv("PMIX_RANK", "0", 1);
  EXPECT_EQ(join_job()->provider(), "alone");
  unsetenv("PMIX_RANK");
}
// NOLINTEND(concurrency-mt-unsafe)

}  // namespace
}  // namespace weft::fabric
