// Arguments of the runtime that nothing could make right.
#include "comm/ranks.hpp"

namespace weft {
namespace {

using test::on_ranks;

// The test's own process as a job of one: not a rank of a local job.
TEST(RuntimeArguments, ARuntimeThatCouldNotBeMadeLeavesRoomForTheNext) {
  EXPECT_THROW(Runtime(RuntimeOptions{.devices = 5000}), Error);
  const Runtime next;
  EXPECT_EQ(next.size(), 1);
  EXPECT_THROW(Runtime(), Error);  // now there is one
}

TEST(RuntimeArguments, RanksAndDevicesThatAreNoneAreRefused) {
  on_ranks(2,
           [](Runtime& rt) {
             EXPECT_FALSE(rt.is_dead(Rank{1}));
             for (const Rank none : {kAnyRank, Rank{2}, Rank{1'000'000'000}}) {
               EXPECT_THROW((void)rt.is_dead(none), Error) << none.value;
             }
             (void)rt.device(0);
             (void)rt.device_counts(0);
             EXPECT_THROW((void)rt.device(1), Error);
             EXPECT_THROW((void)rt.device_counts(4000), Error);
           },
           {.devices = 1});
}

TEST(SynchronizerDeathTest, MoreThanItExpectsIsTold) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto arrive = [](uint32_t expected, uint32_t first, uint32_t second) {
    Synchronizer done(expected);
    done.arrive(first);
    done.arrive(second);
  };
  arrive(3, 1, 2);
  EXPECT_DEATH(arrive(1, 2, 0), "broken contract.*more events");
  EXPECT_DEATH(arrive(3, 2, 2), "broken contract.*more events");
  EXPECT_DEATH(arrive(1, 1, 1), "broken contract.*more operations");
}

}  // namespace
}  // namespace weft
