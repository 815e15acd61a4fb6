// A rank beside another program that computes on its core.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/topology.hpp"
#include "weft/comm/config.hpp"

namespace {
std::atomic<bool> yields_are_slow{false};
}

/// In place of the C library's: where calls of the kernel are slow.
extern "C" int sched_yield() noexcept {
  ::syscall(SYS_sched_yield);
  const uint64_t end = weft::base::now_ns() + 3'000;
  while (yields_are_slow && weft::base::now_ns() < end) {
  }
  return 0;
}

namespace weft {
namespace {

/// Calls `body` on a core on which another thread computes meanwhile.
template <class Body>
void beside_one_who_computes(Body body) {
  std::jthread([&] {
    const int core = ::sched_getcpu();
    ASSERT_TRUE(base::bind_this_thread(core));
    std::atomic<int> computes{0};
    const std::jthread other([&](const std::stop_token& stop) {
      computes = base::bind_this_thread(core) ? 1 : -1;
      while (!stop.stop_requested()) {
      }
    });
    while (computes == 0) ::sched_yield();
    ASSERT_EQ(computes, 1);
    body();
  });
}

/// The same beside another process.
template <class Body>
void beside_a_process_that_computes(Body body) {
  std::jthread([&] {
    ASSERT_TRUE(base::bind_this_thread(::sched_getcpu()));
    const pid_t other = ::fork();
    ASSERT_GE(other, 0);
    if (other == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {
      }
    }
    body();
    ::kill(other, SIGKILL);
    EXPECT_EQ(::waitpid(other, nullptr, 0), other);
  });
}

/// Yields until one has lasted a time slice; false: none does here.
bool yield_for_long(Runtime::Impl& impl) {
  const uint64_t until = base::now_ns() + 20'000'000'000;
  while (!impl.keeps_core(base::ticks())) {
    if (base::now_ns() > until) return false;
    impl.yield_core();
  }
  return true;
}

TEST(BesideOthers, WhoComputesIsNotYieldedToAgainAndAgain) {
  test::on_ranks(1, [](Runtime& rt) {
    Runtime::Impl& impl = rt.impl();
    ASSERT_TRUE(impl.ranks_have_cores);
    beside_one_who_computes([&] {
      if (!yield_for_long(impl)) GTEST_SKIP() << "yields are short here";
      EXPECT_FALSE(impl.is_crowded()) << "looks are as on a core of its own";
      EXPECT_FALSE(impl.core_is_shared) << "and peers follow what it writes";
      EXPECT_FALSE(impl.keeps_core(base::ticks(), impl.spin_ticks + 1)) << "after a wait in vain";
      impl.waiting += 64;  // threads of its own want the core, but where they take turns
      EXPECT_EQ(impl.keeps_core(base::ticks()), impl.takes_turns);
      impl.waiting -= 64;
      while (impl.keeps_core(base::ticks())) {
      }
      EXPECT_TRUE(yield_for_long(impl)) << "and so again";
    });
  });
}

TEST(BesideOthers, WhereRanksOrThreadsShareCoresALongYieldTellsNothing) {
  test::on_ranks(1, [](Runtime& rt) {
    Runtime::Impl& impl = rt.impl();
    beside_one_who_computes([&] {
      for (const bool ranks : {false, true}) {
        impl.ranks_have_cores = !ranks;
        impl.waiting += ranks ? 0 : 64;
        for (int i = 0; i < 20; ++i) {
          impl.yield_core();
          EXPECT_FALSE(impl.long_yields.keeps_core(base::ticks()));
        }
        impl.waiting -= ranks ? 0 : 64;
      }
    });
  });
}

TEST(BesideOthers, AYieldThatIsSlowByItselfWasNobodys) {
  test::on_ranks(1, [](Runtime& rt) {
    constexpr int kYields = 40;  // where the core was wanted before, the kernel is not always asked
    Runtime::Impl& impl = rt.impl();
    yields_are_slow = true;
    impl.core_is_wanted = impl.core_is_shared = true;
    // Others may run here, but not all the time.
    const uint64_t until = base::now_ns() + 20'000'000'000;
    bool was_alone = false;
    while (!was_alone && base::now_ns() < until) {
      const uint64_t left = base::this_thread_cores_left();
      for (int i = 0; i < kYields; ++i) impl.yield_core();
      const bool is_so = !impl.core_is_wanted && !impl.core_is_shared;
      was_alone = base::this_thread_cores_left() == left;
      if (was_alone) {
        EXPECT_TRUE(is_so);
      }
    }
    EXPECT_TRUE(was_alone);
    yields_are_slow = false;
  });
}

TEST(BesideOthers, AYieldToSomebodyWhoYieldsTellsThatTheCoreIsWanted) {
  test::on_ranks(1, [](Runtime& rt) {
    Runtime::Impl& impl = rt.impl();
    std::jthread([&] {
      const int core = ::sched_getcpu();
      ASSERT_TRUE(base::bind_this_thread(core));
      const std::jthread other([&](const std::stop_token& stop) {
        (void)base::bind_this_thread(core);
        while (!stop.stop_requested()) ::sched_yield();
      });
      yields_are_slow = true;  // or two short ones may take less than what tells
      impl.yield_core();       // the first may count what was before
      impl.core_is_wanted = false;
      const uint64_t until = base::now_ns() + 20'000'000'000;
      while (!impl.core_is_wanted && base::now_ns() < until) impl.yield_core();
      EXPECT_TRUE(impl.core_is_wanted);
      yields_are_slow = false;
    });
  });
}

/// Of threads that take turns each yield may have been for one of them, unless they did not run.
TEST(BesideOthers, WhetherThreadsThatTakeTurnsHadTheCoreIsMeasured) {
  register_comm_config();
  const test::ConfigOverride one(test::ConfigOverride::List{{"comm.cores", "1"}});
  test::on_ranks(1, [](Runtime& rt) {
    Runtime::Impl& impl = rt.impl();
    ASSERT_TRUE(impl.takes_turns && impl.ranks_have_cores);
    beside_a_process_that_computes([&] {
      if (!yield_for_long(impl)) GTEST_SKIP() << "yields are short here";
      impl.long_yields.forget();
      impl.waiting += 7;
      EXPECT_TRUE(yield_for_long(impl));
      EXPECT_FALSE(impl.core_is_shared);
      impl.waiting -= 7;
    });
    impl.long_yields.forget();
    // Threads of this process, unless others had most of the core.
    beside_one_who_computes([&] {
      const int core = ::sched_getcpu();
      std::vector<std::jthread> more;
      for (int i = 0; i < 3; ++i)
        more.emplace_back([core](const std::stop_token& stop) {
          (void)base::bind_this_thread(core);
          while (!stop.stop_requested()) {
          }
        });
      impl.waiting += 7;
      for (int i = 0; i < 10; ++i) {
        const uint64_t began = base::now_ns(), ran_before = base::process_cpu_ns();
        impl.yield_core();
        const uint64_t took = base::now_ns() - began;
        if (base::process_cpu_ns() - ran_before > took * 3 / 4) {
          EXPECT_FALSE(impl.long_yields.keeps_core(base::ticks()));
        }
        impl.long_yields.forget();
      }
      impl.waiting -= 7;
    });
  });
}

}  // namespace
}  // namespace weft
