// A rank beside another program that computes on its core.
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "comm/ranks.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/topology.hpp"

namespace weft {
namespace {

/// Calls `body` on a core on which another thread computes meanwhile.
template <class Body>
void beside_one_who_computes(Body body) {
  std::jthread([&] {
    const int core = ::sched_getcpu();
    ASSERT_TRUE(base::bind_this_thread(core));
    std::atomic<bool> computes{false};
    const std::jthread other([&](const std::stop_token& stop) {
      (void)base::bind_this_thread(core);
      computes = true;
      while (!stop.stop_requested()) {
      }
    });
    while (!computes) ::sched_yield();
    body();
  });
}

TEST(BesideOthers, WhoComputesIsNotYieldedToAgainAndAgain) {
  test::on_ranks(1, [](Runtime& rt) {
    Runtime::Impl& impl = rt.impl();
    ASSERT_TRUE(impl.ranks_have_cores);
    beside_one_who_computes([&] {
      while (!impl.keeps_core(base::ticks())) impl.yield_core();
      EXPECT_FALSE(impl.is_crowded()) << "looks are as on a core of its own";
      EXPECT_TRUE(impl.core_is_shared) << "but nobody follows what it writes";
      while (impl.keeps_core(base::ticks())) {
      }
      while (!impl.keeps_core(base::ticks())) impl.yield_core();
    });
  });
}

TEST(BesideOthers, RanksThatShareCoresYield) {
  test::on_ranks(1, [](Runtime& rt) {
    Runtime::Impl& impl = rt.impl();
    impl.ranks_have_cores = false;
    beside_one_who_computes([&] {
      for (int i = 0; i < 20; ++i) {
        impl.yield_core();
        EXPECT_FALSE(impl.keeps_core(base::ticks()));
      }
    });
  });
}

}  // namespace
}  // namespace weft
