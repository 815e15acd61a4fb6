// weft-info as a user meets it: what it shows unasked, and what it says to nonsense.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "run_command.hpp"

namespace weft::tools::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

Outcome info(const std::string& arguments, const std::string& environment = {}) {
  // Of the surroundings, what a sanitizer is told about libraries.
  return run("env -i LSAN_OPTIONS=\"$LSAN_OPTIONS\" " + environment + " " WEFT_INFO " " +
             arguments);
}

TEST(InfoCommand, ShowsWhatWasSetAndWhereTheRestIsToBeSeen) {
  const auto plain = info("");
  EXPECT_EQ(plain.code, 0);
  EXPECT_THAT(plain.output, ContainsRegex("Configuration\n  all keys +every key has its default"));
  EXPECT_THAT(plain.output, HasSubstr("--config"));
  const auto set = info("", "WEFT_FABRIC_PACKETS=512 WEFT_LOG_LEVEL=info");
  EXPECT_EQ(set.code, 0) << set.output;
  EXPECT_THAT(set.output, ContainsRegex("  fabric.packets +512 [(]environment; default "));
  EXPECT_THAT(set.output, ContainsRegex("  log.level +info [(]environment; default "));
  EXPECT_THAT(set.output, ContainsRegex("  all others +have their defaults; .*--config"));
  EXPECT_THAT(set.output, Not(HasSubstr("fabric.lane_cells")));
}

TEST(InfoCommand, ShowsTheSameToPrograms) {
  const auto facts = nlohmann::json::parse(info("--json", "WEFT_LOG_LEVEL=info").output);
  EXPECT_EQ(facts.at("configuration").size(), 2U);
  EXPECT_THAT(facts.at("configuration").at("log.level").get<std::string>(), HasSubstr("info"));
}

TEST(InfoCommand, ShowsValuesThatAreNotText) {
  const auto config = info("--config --json", R"sh(WEFT_STRESS_SEED="$(printf 'a\377b')")sh");
  EXPECT_EQ(config.code, 0) << config.output;
  EXPECT_THAT(config.output, HasSubstr("a\xef\xbf\xbd"
                                       "b"));
  const auto facts = info("--json", R"sh(WEFT_FABRIC_OFI_INTERFACE="$(printf '\377')")sh");
  EXPECT_EQ(facts.code, 0) << facts.output;
}

TEST(InfoCommand, ShowsHowOverflowsOfTaskStacksAreMet) {
  EXPECT_THAT(info("").output, ContainsRegex("  guards of task stacks +(guard|mprotect|canaries)"));
}

TEST(InfoCommand, ShowsWhichTransportWouldBeUsed) {
  const auto said = [](const char* environment) {
    const auto outcome = info("--transports", environment);
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, Not(HasSubstr("Machine")));
    return outcome.output;
  };
  EXPECT_THAT(said(""), ContainsRegex("  used on one node +shm\n  used on several +by_node "));
  EXPECT_THAT(said("WEFT_FABRIC_TRANSPORT=by_node"), ContainsRegex("  used on one node +shm\n"));
  EXPECT_THAT(said("WEFT_FABRIC_TRANSPORT=ofi"),
              ContainsRegex("  used on one node +ofi\n  used on several +ofi\n"));
  EXPECT_THAT(said("WEFT_FABRIC_TRANSPORT=shm"), ContainsRegex("  used on several +shm\n"));
  // What serves on one node alone is told apart.
  const std::string loopback = said("WEFT_FABRIC_OFI_INTERFACE=lo");
  EXPECT_THAT(loopback, ContainsRegex("  ofi +yes: "));
  EXPECT_THAT(loopback, ContainsRegex("  ofi between nodes +no: .*other hosts can reach"));
  EXPECT_THAT(said("WEFT_FABRIC_OFI_PROVIDER=shm"),
              ContainsRegex("  ofi between nodes +no: .*which reaches no other node"));
}

TEST(InfoCommand, SaysHowItWasLaunched) {
  const auto alone = info("--launch");
  EXPECT_EQ(alone.code, 0);
  EXPECT_THAT(alone.output, ContainsRegex("^Launch\n  started by +nobody"));
  EXPECT_THAT(alone.output, ContainsRegex("\n  provider +alone\n  rank +0 of 1\n  nodes +1\n"));
  const auto warned = info("--launch", "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4");
  EXPECT_EQ(warned.code, 0);
  EXPECT_THAT(warned.output, ContainsRegex("\n  not used +SLURM_STEP_NUM_TASKS=4: "));
  EXPECT_THAT(warned.output, ContainsRegex("\n  warning +this is one of 4 processes that srun"));
  EXPECT_THAT(warned.output, HasSubstr("weft warn: this is one of 4 processes"));
  // Two facts of one name are both in the object.
  const auto facts = nlohmann::json::parse(info("--launch --json", "PMI_FD=5 PMIX_RANK=0").output);
  EXPECT_THAT(facts.at("launch").at("not used").get<std::string>(),
              ContainsRegex("^PMIX_RANK=0: .*\nPMI_FD=5: "));
}

TEST(InfoCommand, SaysWhyItCannotJoin) {
  const auto outcome = info("--launch", "PMI_FD=999 PMI_RANK=0 PMI_SIZE=2");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, ContainsRegex("\n  started by +a PMI-1 launcher\n"));
  EXPECT_THAT(outcome.output, ContainsRegex("\n  joined +no: PMI_FD=999 is no open socket"));
  EXPECT_THAT(info("", "PMI_FD=999 PMI_RANK=0 PMI_SIZE=2").output,
              ContainsRegex("  launcher +a PMI-1 launcher; weft-info --launch says more"));
}

TEST(InfoCommand, RefusesBadFlagsLikeTheOtherTools) {
  for (const char* flags :
       {"--colour", "something", "--markdown", "--config --json --markdown", "--launch --config"}) {
    const auto outcome = info(flags);
    EXPECT_EQ(outcome.code, 2) << flags;
    EXPECT_THAT(outcome.output, HasSubstr("--help")) << flags;
  }
  EXPECT_EQ(info("--help").code, 0);
  EXPECT_EQ(info("--version").code, 0);
}

TEST(InfoCommand, NamesAMissingFolderAsAMatterOfConfiguration) {
  const auto outcome = info("", "WEFT_FABRIC_SHM_BACKING=file WEFT_FABRIC_SHM_DIR=/nonexistent");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, ContainsRegex("  shm +no: .*/nonexistent/.*[(]bad_config[)]"));
}

}  // namespace
}  // namespace weft::tools::test
