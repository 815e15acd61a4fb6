// The room's settings are known before anybody reads them. A process of its own: nothing here has
// made a scheduler.
#include "weft/base/config.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/captured_stderr.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::task {
namespace {

TEST(TaskConfig, IsKnownBeforeTheFirstScheduler) {
  const int before = base::warn_unknown_config();
  // NOLINTBEGIN(concurrency-mt-unsafe): one thread.
  ::setenv("WEFT_TASK_WORKERS", "2", 1);
  ::setenv("WEFT_TASK_WORKRES", "2", 1);
  test::CapturedStderr captured;
  EXPECT_EQ(base::warn_unknown_config(), before + 1);
  EXPECT_EQ(captured.text().find("setting: WEFT_TASK_WORKERS"), std::string::npos);
  EXPECT_NE(captured.text().find("did you mean WEFT_TASK_WORKERS"), std::string::npos);
  ::unsetenv("WEFT_TASK_WORKRES");
  // NOLINTEND(concurrency-mt-unsafe)
  const Scheduler scheduler;  // reads them
  EXPECT_EQ(scheduler.workers(), 2);
  EXPECT_EQ(base::warn_unknown_config(), before);
}

}  // namespace
}  // namespace weft::task
