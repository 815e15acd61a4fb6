// How a process is started, told from made-up environments.
#include "fabric/launch_signs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace weft::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Variables = std::map<std::string, std::string>;

LaunchSigns signs(const Variables& variables, bool pmi_fd_is_open = true) {
  return read_launch_signs({[&](const char* name) -> base::Environment {
                              const auto found = variables.find(name);
                              if (found == variables.end()) return {};
                              return {found->second, true};
                            },
                            [=](std::string_view) { return pmi_fd_is_open; }});
}

const Variables kHydra{{"PMI_FD", "9"},          {"PMI_RANK", "1"},
                       {"PMI_SIZE", "4"},        {"HYDI_CONTROL_FD", "7"},
                       {"MPI_LOCALNRANKS", "4"}, {"MPI_LOCALRANKID", "1"}};

Variables pmix(const std::string& name) {
  return {{"PMIX_NAMESPACE", name}, {"PMIX_RANK", "0"}, {"WEFTRUN_KEY", "k"}};
}

Variables both(Variables one, const Variables& other) {
  one.insert(other.begin(), other.end());
  return one;
}

TEST(LaunchSigns, OfNothingAreThoseOfAJobOfOne) {
  const LaunchSigns found = signs({});
  EXPECT_EQ(found.by, JoinBy::alone);
  EXPECT_EQ(found.launcher, "");
  EXPECT_THAT(found.decided, IsEmpty());
  EXPECT_THAT(found.unused, IsEmpty());
  EXPECT_EQ(found.warning, "");
  EXPECT_FALSE(found.warns);
}

TEST(LaunchSigns, NameTheLauncher) {
  EXPECT_EQ(signs(pmix("weft-12-abcd")).launcher, "weftrun");
  EXPECT_EQ(signs(pmix("prterun-host-7@1")).launcher, "prterun");
  EXPECT_EQ(signs(pmix("slurm.pmix.5.0")).launcher, "srun");
  EXPECT_EQ(signs(pmix("somebody")).launcher, "a PMIx launcher");
  EXPECT_EQ(signs(kHydra).launcher, "Hydra's mpiexec");
  Variables slurm = kHydra;
  slurm.erase("HYDI_CONTROL_FD");
  EXPECT_EQ(signs(slurm).launcher, "a PMI-1 launcher");
  slurm.insert({{"SLURM_STEP_ID", "0"}, {"PMI_JOBID", "5.0"}});
  EXPECT_EQ(signs(slurm).launcher, "srun");
}

TEST(LaunchSigns, SayWhatDecided) {
  const LaunchSigns by_pmix = signs(pmix("weft-12-abcd"));
  EXPECT_EQ(by_pmix.by, JoinBy::pmix);
  EXPECT_THAT(by_pmix.decided, ElementsAre("PMIX_NAMESPACE=weft-12-abcd", "PMIX_RANK=0"));
  const LaunchSigns by_pmi1 = signs(kHydra);
  EXPECT_EQ(by_pmi1.by, JoinBy::pmi1);
  EXPECT_THAT(by_pmi1.decided, ElementsAre("PMI_FD=9", "PMI_RANK=1", "PMI_SIZE=4"));
  EXPECT_EQ(by_pmi1.warning, "");
}

TEST(LaunchSigns, OfTwoLaunchersAreReadFromTheSocket) {
  const Variables two = both(pmix("prterun-host-7@1"), kHydra);
  const LaunchSigns hydra_inside = signs(two, true);
  EXPECT_EQ(hydra_inside.by, JoinBy::pmi1);
  ASSERT_EQ(hydra_inside.unused.size(), 1U);
  EXPECT_EQ(hydra_inside.unused[0].variable, "PMIX_NAMESPACE=prterun-host-7@1");
  const LaunchSigns hydra_outside = signs(two, false);
  EXPECT_EQ(hydra_outside.by, JoinBy::pmix);
  ASSERT_EQ(hydra_outside.unused.size(), 1U);
  EXPECT_EQ(hydra_outside.unused[0].variable, "PMI_FD=9");
  // Alone, a socket that is not open is an error of the joining, not a job of one.
  EXPECT_EQ(signs(kHydra, false).by, JoinBy::pmi1);
}

TEST(LaunchSigns, HalfOfWhatALauncherSetsIsNone) {
  for (const char* name : {"PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD", "PMI_PORT"}) {
    const LaunchSigns found = signs({{name, "1"}});
    EXPECT_EQ(found.by, JoinBy::alone) << name;
    ASSERT_EQ(found.unused.size(), 1U) << name;
    EXPECT_EQ(found.unused[0].variable, std::string(name) + "=1");
  }
}

TEST(LaunchSigns, WarnOfSeveralJobsOfOne) {
  const std::map<std::string, Variables> starters{
      {"--mpi=pmix", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}}},
      {"mpirun", {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "3"}}},
      {"-pmi-port", {{"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"PMI_PORT", "host:7"}}},
      {"Hydra", {{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}}}};
  for (const auto& [word, variables] : starters) {
    const LaunchSigns found = signs(variables);
    EXPECT_EQ(found.by, JoinBy::alone);
    EXPECT_THAT(found.warning, HasSubstr("one of 3 processes"));
    EXPECT_THAT(found.warning, HasSubstr(word));
    EXPECT_TRUE(found.warns) << word;
    // One of them says it for all.
    Variables second = variables;
    for (auto& [name, value] : second)
      if (value == "0") value = "1";
    EXPECT_FALSE(signs(second).warns) << word;
    EXPECT_NE(signs(second).warning, "");
    // One process is none of several.
    Variables single = variables;
    for (auto& [name, value] : single)
      if (value == "3") value = "1";
    EXPECT_EQ(signs(single).warning, "") << word;
  }
}

TEST(LaunchSigns, OfABatchScriptAreThoseOfAJobOfOne) {
  const LaunchSigns found = signs({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "3"}});
  EXPECT_EQ(found.by, JoinBy::alone);
  EXPECT_EQ(found.warning, "");
}

}  // namespace
}  // namespace weft::fabric
