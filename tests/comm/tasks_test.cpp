// Tasks that wait for messages: they are suspended, workers and idle workers go on.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "base/captured_stderr.hpp"
#include "base/config_override.hpp"
#include "base/idle.hpp"
#include "base/stress.hpp"
#include "comm/ranks.hpp"
#include "weft/task/config.hpp"
#include "weft/task/scheduler.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::on_ranks;
using test::writable;

struct TasksSetting {
  Progress progress;
  int workers;
  uint32_t devices;
};

class TasksAndMessages : public testing::TestWithParam<TasksSetting> {
 protected:
  [[nodiscard]] RuntimeOptions runtime_options() const {
    return {.devices = GetParam().devices, .progress = GetParam().progress};
  }
  [[nodiscard]] task::Options task_options() const { return {.workers = GetParam().workers}; }
};

INSTANTIATE_TEST_SUITE_P(
    Settings, TasksAndMessages,
    testing::Values(TasksSetting{Progress::workers, 1, 1}, TasksSetting{Progress::workers, 2, 1},
                    TasksSetting{Progress::workers, 4, 3}, TasksSetting{Progress::workers, 8, 1},
                    TasksSetting{Progress::workers, 64, 2}, TasksSetting{Progress::server, 2, 1},
                    TasksSetting{Progress::server, 64, 1}, TasksSetting{Progress::waiters, 1, 1},
                    TasksSetting{Progress::waiters, 2, 2}, TasksSetting{Progress::waiters, 8, 1},
                    TasksSetting{Progress::waiters, 64, 2},
                    TasksSetting{Progress::explicit_, 2, 1}));

TEST_P(TasksAndMessages, ConversationsBlockTheirTaskAlone) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        constexpr uint32_t kTasks = 100;
        constexpr uint32_t kRounds = 20 / test::kLess;
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler(task_options());
        const bool first = runtime.rank().value == 0;
        const Rank peer{first ? 1 : 0};
        scheduler.run([&] {
          std::vector<task::Handle<void>> all;
          for (uint32_t t = 0; t < kTasks; ++t) {
            all.push_back(task::spawn([&, t] {
              for (uint32_t round = 0; round < kRounds; ++round) {
                uint32_t value = t * 1000 + round;
                if (first) endpoint.send_wait(peer, Tag{t}, bytes_of(value));
                uint32_t came = 0;
                const Event event = endpoint.recv_wait(peer, Tag{t}, writable(came));
                EXPECT_EQ(event.error, Errc::ok);
                EXPECT_EQ(came, value);
                if (!first) endpoint.send_wait(peer, Tag{t}, bytes_of(value));
              }
            }));
          }
          for (auto& each : all) each.join();
        });
      },
      runtime_options());
}

// The only worker's task waits for what another task of it sends.
TEST_P(TasksAndMessages, ATaskCannotAskForADevice) {
  on_ranks(
      1,
      [&](Runtime& runtime) {
        task::Scheduler scheduler(task_options());
        scheduler.run([&] {
          EXPECT_THROW(runtime.use_device(0), Error);
          runtime.prefer_device(&runtime.device(0));  // does nothing
        });
      },
      runtime_options());
}

TEST_P(TasksAndMessages, ATaskThatWaitsDoesNotKeepItsWorker) {
  on_ranks(
      1,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler(task_options());
        scheduler.run([&] {
          auto waits = task::spawn([&] {
            int came = 0;
            endpoint.recv_wait(Rank{0}, Tag{1}, writable(came));
            return came;
          });
          task::yield();
          endpoint.send_wait(Rank{0}, Tag{1}, bytes_of(7));
          EXPECT_EQ(waits.join(), 7);
        });
      },
      runtime_options());
}

// Long after all workers and the runtime sleep.
TEST_P(TasksAndMessages, AMessageWakesSleepingWorkers) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        if (runtime.rank().value == 1) {
          for (int i = 0; i < 3; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(30));
            endpoint.send_wait(Rank{0}, Tag{2}, bytes_of(i));
          }
          return;
        }
        task::Scheduler scheduler(task_options());
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(scheduler.run([&] {
            int came = -1;
            endpoint.recv_wait(Rank{1}, Tag{2}, writable(came));
            return came;
          }),
                    i);
        }
      },
      runtime_options());
}

// A thread sleeps on the doorbells, and the workers, which come later, on their parkers. When it
// has what it waited for and goes, one of them is to follow: who hears of what comes for their
// tasks else?
TEST_P(TasksAndMessages, AWorkerFollowsAThreadThatSlept) {
  const bool sleeps_on_bells = GetParam().progress == Progress::workers;
  on_ranks(
      1,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        const auto slept = [&] {
          uint64_t sum = 0;
          for (uint32_t d = 0; d < runtime.device_count(); ++d) {
            sum += runtime.device_counts(d).sleeps;
          }
          return sum != 0;
        };
        std::jthread first([&] {
          int came = 0;
          endpoint.recv_wait(Rank{0}, Tag{1}, writable(came));
          EXPECT_EQ(came, 1);
        });
        while (sleeps_on_bells && !slept()) std::this_thread::yield();
        task::Scheduler scheduler(task_options());
        auto waits = scheduler.spawn([&] {
          int came = 0;
          endpoint.recv_wait(Rank{0}, Tag{2}, writable(came));
          return came;
        });
        // Until all workers sleep.
        for (uint64_t sleeps = 0, before = 1;
             sleeps != before || sleeps < static_cast<uint64_t>(GetParam().workers);) {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          before = std::exchange(sleeps, scheduler.stats().sleeps);
          if (!sleeps_on_bells) break;  // they may poll for ever
        }
        endpoint.send_wait(Rank{0}, Tag{1}, bytes_of(1));
        first.join();
        endpoint.send_wait(Rank{0}, Tag{2}, bytes_of(2));
        EXPECT_EQ(waits.join(), 2);
      },
      runtime_options());
}

// No thread looks on: not the workers, not who would poll for messages.
TEST_P(TasksAndMessages, AnIdleProcessUsesNoProcessorTime) {
  if (GetParam().progress == Progress::explicit_ || GetParam().progress == Progress::waiters) {
    GTEST_SKIP() << "a task that waits for a message polls";
  }
  on_ranks(
      1,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler(task_options());
        auto waits = scheduler.spawn([&] {
          int came = 0;
          endpoint.recv_wait(Rank{0}, Tag{1}, writable(came));
        });
        EXPECT_LT(test::processors_while_idle(), test::kAlmostNone);
        endpoint.send_wait(Rank{0}, Tag{1}, bytes_of(1));
        waits.join();
      },
      runtime_options());
}

TEST_P(TasksAndMessages, AStandstillSaysWhoWaitsForAMessage) {
  if (GetParam().progress == Progress::explicit_ || GetParam().progress == Progress::waiters) {
    GTEST_SKIP() << "a task that waits for a message polls";
  }
  task::register_task_config();
  const test::ConfigOverride soon(test::ConfigOverride::List{{"task.report_quiet", "20ms"}});
  test::CapturedStderr err;
  on_ranks(
      1,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler(task_options());
        auto waits = scheduler.spawn(
            [&] {
              int came = 0;
              endpoint.recv_wait(Rank{0}, Tag{1}, writable(came));
              return came;
            },
            {.name = "abandoned"});
        err.wait_for("nothing can run");
        err.wait_for("'abandoned': waits");
        endpoint.send_wait(Rank{0}, Tag{1}, bytes_of(1));  // and goes on
        EXPECT_EQ(waits.join(), 1);
      },
      runtime_options());
}

TEST_P(TasksAndMessages, ThreadsAndTasksWaitSideBySide) {
  on_ranks(
      2,
      [&](Runtime& runtime) {
        Endpoint endpoint(runtime, {});
        task::Scheduler scheduler(task_options());
        const Rank peer{1 - runtime.rank().value};
        const auto converse = [&](uint32_t tag) {
          for (uint32_t i = 0; i < 100 / test::kLess; ++i) {
            endpoint.send_wait(peer, Tag{tag}, bytes_of(i));
            uint32_t came = 0;
            endpoint.recv_wait(peer, Tag{tag}, writable(came));
            EXPECT_EQ(came, i);
          }
        };
        std::vector<task::Handle<void>> tasks;
        for (uint32_t t = 0; t < 20; ++t) {
          tasks.push_back(scheduler.spawn([&, t] { converse(t); }));
        }
        test::on_threads(3, [&](int t) { converse(100 + static_cast<uint32_t>(t)); });
        for (auto& each : tasks) each.join();
      },
      runtime_options());
}

}  // namespace
}  // namespace weft
