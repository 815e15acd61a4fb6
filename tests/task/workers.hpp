// Every test of tasks runs with these numbers of workers.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "weft/task/scheduler.hpp"

namespace weft::test {

class WithWorkers : public testing::TestWithParam<int> {
 protected:
  [[nodiscard]] task::Options options() const {
    task::Options options;
    options.workers = GetParam();
    return options;
  }
};

#define WEFT_WITH_WORKERS(Suite)                                            \
  INSTANTIATE_TEST_SUITE_P(Workers, Suite, testing::Values(1, 2, 4, 8, 64), \
                           [](const auto& with) { return std::to_string(with.param); })

}  // namespace weft::test
