// Arguments of the runtime that nothing could make right.
#include "comm/ranks.hpp"

namespace weft {
namespace {

// The test's own process as a job of one: not a rank of a local job.
TEST(RuntimeArguments, ARuntimeThatCouldNotBeMadeLeavesRoomForTheNext) {
  EXPECT_THROW(Runtime(RuntimeOptions{.devices = 5000}), Error);
  const Runtime next;
  EXPECT_EQ(next.size(), 1);
  EXPECT_THROW(Runtime(), Error);  // now there is one
}

}  // namespace
}  // namespace weft
