// Configuration: parsing, origins, ranges, overrides, typos.
#include "weft/base/config.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "base/config_parse.hpp"
#include "weft/base/error.hpp"

namespace weft::base {
namespace {

/// The message of the bad_config error that `call` throws; empty if it throws none.
template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::bad_config);
    return error.what();
  }
  return {};
}

// These tests run in one thread.
void set_variable(const char* name, const char* value) {
  setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe)
}
void clear_variable(const char* name) {
  unsetenv(name);  // NOLINT(concurrency-mt-unsafe)
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

TEST(ConfigParse, EnvironmentNameIsUpperCaseWithUnderscores) {
  EXPECT_EQ(environment_name("comm.eager_bytes"), "WEFT_COMM_EAGER_BYTES");
}

TEST(ConfigParse, NumbersTakeTheSuffixesOfTheirType) {
  using enum ConfigType;
  EXPECT_EQ(parse_number(integer, "-12"), -12);
  EXPECT_EQ(parse_number(integer, "12K"), std::nullopt);
  EXPECT_EQ(parse_number(bytes, "64"), 64);
  EXPECT_EQ(parse_number(bytes, "64k"), 64 << 10);
  EXPECT_EQ(parse_number(bytes, "3M"), 3 << 20);
  EXPECT_EQ(parse_number(bytes, "2G"), int64_t{2} << 30);
  EXPECT_EQ(parse_number(nanoseconds, "0"), 0);
  EXPECT_EQ(parse_number(nanoseconds, "7"), std::nullopt) << "of what?";
  EXPECT_EQ(parse_number(nanoseconds, "7ns"), 7);
  EXPECT_EQ(parse_number(nanoseconds, "7us"), 7'000);
  EXPECT_EQ(parse_number(nanoseconds, "7ms"), 7'000'000);
  EXPECT_EQ(parse_number(nanoseconds, "7s"), 7'000'000'000);
}

TEST(ConfigParse, NonsenseIsNoNumber) {
  using enum ConfigType;
  for (const char* text : {"", "K", "12Q", "1 K", " 1", "1.5K", "0x10", "--1",
                           "99999999999999999999", "9999999999999G"}) {
    EXPECT_EQ(parse_number(bytes, text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number(nanoseconds, "10000000000s"), std::nullopt);
}

TEST(ConfigParse, NumbersAreWrittenWithTheLargestSuffix) {
  EXPECT_EQ(format_number(ConfigType::bytes, 64 << 10), "64K");
  EXPECT_EQ(format_number(ConfigType::bytes, 1000), "1000");
  EXPECT_EQ(format_number(ConfigType::bytes, 0), "0");
  EXPECT_EQ(format_number(ConfigType::nanoseconds, 1'500'000), "1500us");
  EXPECT_EQ(format_number(ConfigType::integer, 4096), "4096");
  for (int64_t value : {int64_t{1}, int64_t{1} << 20, int64_t{123456789}, int64_t{-5}}) {
    EXPECT_EQ(parse_number(ConfigType::bytes, format_number(ConfigType::bytes, value)), value);
  }
}

TEST(ConfigParse, EditDistanceCountsSwapsOnce) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("level", "levl"), 1U);
  EXPECT_EQ(edit_distance("eager", "aeger"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(Config, ValueOriginAndOverride) {
  set_variable("WEFT_T1_FROM_ENV", "3M");
  static constexpr ConfigKey kTable[] = {
      {"t1.from_env", ConfigType::bytes, "1K", 0, 1 << 30, "", "a"},
      {"t1.from_table", ConfigType::nanoseconds, "5us", 0, 1'000'000, "", "b"},
      {"t1.flag", ConfigType::boolean, "off", 0, 0, "", "c"},
      {"t1.mode", ConfigType::choice, "fast", 0, 0, "fast|slow", "d"},
      {"t1.name", ConfigType::text, "", 0, 0, "", "e"},
  };
  register_config(kTable);
  EXPECT_EQ(config_int("t1.from_env"), 3 << 20);
  EXPECT_EQ(config_int("t1.from_table"), 5'000);
  EXPECT_FALSE(config_bool("t1.flag"));
  set_config("t1.flag", "Yes");
  EXPECT_TRUE(config_bool("t1.flag"));
  EXPECT_EQ(config_text("t1.mode"), "fast");
  set_config("t1.mode", "slow");
  set_config("t1.name", "anything at all");
  EXPECT_EQ(config_text("t1.name"), "anything at all");

  register_config(kTable);  // a second time: values stay
  EXPECT_EQ(config_text("t1.mode"), "slow");

  const std::vector<ConfigValue> all = all_config();
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                             [](const auto& a, const auto& b) { return a.key->key < b.key->key; }));
  const auto value_of = [&](std::string_view key) {
    return *std::find_if(all.begin(), all.end(), [&](const auto& v) { return v.key->key == key; });
  };
  EXPECT_EQ(value_of("t1.from_env").origin, Origin::environment);
  EXPECT_EQ(value_of("t1.from_env").text, "3M");
  EXPECT_EQ(value_of("t1.from_table").origin, Origin::fallback);
  EXPECT_EQ(value_of("t1.mode").origin, Origin::program);
  EXPECT_EQ(value_of("log.level").key->fallback, "warn");  // base's own table is there
}

TEST(Config, NonsenseInTheEnvironmentNamesVariableKeyValueAndRange) {
  set_variable("WEFT_T2_SIZE", "12Q");
  static constexpr ConfigKey kTable[] = {
      {"t2.other", ConfigType::integer, "1", 0, 9, "", "a"},
      {"t2.size", ConfigType::bytes, "1K", 64, 1 << 20, "", "b"},
  };
  const std::string sentence = error_of([&] { register_config(kTable); });
  for (const char* part : {"WEFT_T2_SIZE", "t2.size", "12Q", "64", "1M"}) {
    EXPECT_TRUE(contains(sentence, part)) << sentence;
  }
  // All rows or none; and a corrected environment is read.
  EXPECT_NE(error_of([] { config_int("t2.other"); }), "");
  set_variable("WEFT_T2_SIZE", "2K");
  register_config(kTable);
  EXPECT_EQ(config_int("t2.size"), 2048);
}

TEST(Config, RangesHoldAtBothEndsAndForOverrides) {
  static constexpr ConfigKey kTable[] = {
      {"t3.n", ConfigType::integer, "1", 1, 9, "", "a"},
      {"t3.mode", ConfigType::choice, "fast", 0, 0, "fast|slow", "b"},
      {"t3.flag", ConfigType::boolean, "1", 0, 0, "", "c"},
  };
  register_config(kTable);
  set_config("t3.n", "9");
  set_config("t3.n", "1");
  EXPECT_TRUE(contains(error_of([] { set_config("t3.n", "10"); }), "from 1 to 9, not '10'"));
  EXPECT_TRUE(contains(error_of([] { set_config("t3.n", "0"); }), "t3.n"));
  EXPECT_EQ(config_int("t3.n"), 1);
  for (const char* text : {"", "fas", "fast|slow", "|", "FAST"}) {
    EXPECT_TRUE(contains(error_of([&] { set_config("t3.mode", text); }), "fast|slow")) << text;
  }
  EXPECT_TRUE(contains(error_of([] { set_config("t3.flag", "maybe"); }), "maybe"));
}

TEST(Config, AnUnknownKeyIsAnErrorThatGuesses) {
  static constexpr ConfigKey kTable[] = {
      {"t4.eager_bytes", ConfigType::integer, "1", 1, 9, "", "a"}};
  register_config(kTable);
  const std::string sentence = error_of([] { config_int("t4.aeger_bytes"); });
  EXPECT_TRUE(contains(sentence, "t4.aeger_bytes")) << sentence;
  EXPECT_TRUE(contains(sentence, "'t4.eager_bytes'")) << sentence;
}

TEST(Config, UnknownVariablesAreWarnedOfOnceWithTheNearestKey) {
  static constexpr ConfigKey kTable[] = {
      {"t5.lane_cells", ConfigType::integer, "1", 1, 9, "", "a"},
      {"t5.eager_messages_bytes", ConfigType::integer, "1", 1, 9, "", "b"},
      {"t5.eager_messages", ConfigType::integer, "1", 1, 9, "", "b"},
      {"t5.lager", ConfigType::integer, "1", 1, 9, "", "c"}};
  register_config(kTable);
  set_variable("WEFT_T5_EAGER", "4");  // nearer to another in letters
  set_variable("WEFT_T5_LANE_CELS", "4");
  set_variable("WEFT_ZQXJKVBPWYF", "1");
  testing::internal::CaptureStderr();
  const int unknown = warn_unknown_config();
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_EQ(unknown, 3);
  EXPECT_TRUE(contains(lines, "WEFT_T5_EAGER; did you mean WEFT_T5_EAGER_MESSAGES?")) << lines;
  EXPECT_TRUE(contains(lines, "WEFT_T5_LANE_CELS; did you mean WEFT_T5_LANE_CELLS?")) << lines;
  EXPECT_TRUE(contains(lines, "WEFT_ZQXJKVBPWYF\n")) << lines;

  testing::internal::CaptureStderr();
  EXPECT_EQ(warn_unknown_config(), 3);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  clear_variable("WEFT_T5_EAGER");
  clear_variable("WEFT_T5_LANE_CELS");
  clear_variable("WEFT_ZQXJKVBPWYF");
}

TEST(ConfigDeathTest, ATableWithABadDefaultIsABrokenContract) {
  static constexpr ConfigKey kTable[] = {{"t6.n", ConfigType::integer, "0", 1, 9, "", "a"}};
  EXPECT_DEATH(register_config(kTable), "broken contract.*t6.n");
}

TEST(Config, TheEnvironmentTellsEmptyFromMissing) {
  set_variable("WEFT_T7_EMPTY", "");
  EXPECT_TRUE(environment("WEFT_T7_EMPTY").found);
  EXPECT_FALSE(environment("WEFT_T7_MISSING").found);
  clear_variable("WEFT_T7_EMPTY");
}

}  // namespace
}  // namespace weft::base
