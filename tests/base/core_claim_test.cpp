// Cores for bound threads, on a made-up machine of eight: who shares them gets others.
#include "weft/base/core_claim.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <utility>

#include "weft/base/config.hpp"
#include "weft/base/topology.hpp"

namespace weft::base {
namespace {

using Processors = std::vector<int>;

/// An environment variable, for a scope. (One thread.)
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    ::setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe)
  }
  ~Variable() { ::unsetenv(name_); }  // NOLINT(concurrency-mt-unsafe)
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

class CoreClaims : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // What started this test may itself be one of several.
    for (const char* name :
         {kCoreShareVariable, "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMIX_LOCAL_RANK",
          "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}) {
      ::unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
    }
    set_config("base.topology", "numa:2 core:4 pu:1");
  }
};

// First of all tests: its child reads a topology of its own.
TEST_F(CoreClaims, AMaskThatWasNarrowedIsTheProcesssOwn) {
  const auto child = [](const char* mask, Processors expected) {
    set_config("base.faked_affinity", mask);
    const Variable rank("OMPI_COMM_WORLD_LOCAL_RANK", "1");
    const Variable size("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
    std::_Exit(CoreClaim(2).processors() == expected ? 0 : 1);
  };
  EXPECT_EXIT(child("4-7", {4, 5}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(child("0-7", {4, 5}), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(child("0-3", {0, 1}), testing::ExitedWithCode(0), "");
}

TEST_F(CoreClaims, OneAfterTheOther) {
  ASSERT_EQ(Topology::machine().cores().size(), 8U);
  EXPECT_FALSE(Topology::machine().narrowed());
  const CoreClaim first(3);
  EXPECT_EQ(first.processors(), (Processors{0, 1, 2}));
  std::optional<CoreClaim> second(std::in_place, 2);
  EXPECT_EQ(second->processors(), (Processors{3, 4}));
  const CoreClaim third(2);
  EXPECT_EQ(third.processors(), (Processors{5, 6}));
  second.reset();
  const CoreClaim fourth(4);  // what came back, the one that nobody had, then the second time
  EXPECT_EQ(fourth.processors(), (Processors{3, 4, 7, 0}));
}

TEST_F(CoreClaims, AllComeBack) {
  for (int round = 0; round < 3; ++round) {
    CoreClaim moved;
    {
      CoreClaim claim(8);
      EXPECT_EQ(claim.processors(), (Processors{0, 1, 2, 3, 4, 5, 6, 7}));
      moved = std::move(claim);
    }
    EXPECT_EQ(CoreClaim(100).count(), 8U);
    moved = CoreClaim();
    EXPECT_EQ(CoreClaim(1).processors(), (Processors{0}));
  }
}

TEST_F(CoreClaims, NeighboursBeginApart) {
  const std::pair<const char*, Processors> shares[] = {
      {"0/2", {0, 1}}, {"1/2", {4, 5}}, {"1/3", {2, 3}}, {"7/8", {7, 0}},  {"15/16", {7, 0}},
      {"2/2", {0, 1}}, {"x/2", {0, 1}}, {"1", {0, 1}},   {"-1/2", {0, 1}}, {"", {0, 1}}};
  for (const auto& [text, expected] : shares) {
    const Variable told(kCoreShareVariable, text);
    EXPECT_EQ(CoreClaim(2).processors(), expected) << text;
  }
}

TEST_F(CoreClaims, OtherLaunchersTellTheLocalRank) {
  {
    const Variable rank("MPI_LOCALRANKID", "3");
    const Variable size("MPI_LOCALNRANKS", "4");
    EXPECT_EQ(CoreClaim(1).processors(), (Processors{6}));
    const Variable ours(kCoreShareVariable, "1/2");
    EXPECT_EQ(CoreClaim(1).processors(), (Processors{4}));
  }
  // How many there are is not known: as many cores each as are claimed now.
  const Variable rank("SLURM_LOCALID", "2");
  EXPECT_EQ(CoreClaim(1).processors(), (Processors{2}));
  EXPECT_EQ(CoreClaim(3).processors(), (Processors{6, 7, 0}));
}

}  // namespace
}  // namespace weft::base
