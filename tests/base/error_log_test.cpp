// Errors, broken contracts and the log.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/base/log.hpp"

namespace weft::base {
namespace {

TEST(Error, EveryCodeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Errc::launcher); ++code) {
    names.insert(to_string(static_cast<Errc>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Errc::launcher) + 1);
  EXPECT_EQ(names.count("unknown"), 0U);
  EXPECT_EQ(to_string(Errc::truncated), "truncated");
  EXPECT_EQ(to_string(static_cast<Errc>(200)), "unknown");
}

TEST(Error, CarriesCodeAndText) {
  const Error error(Errc::no_such_peer, "rank 9 of 4");
  EXPECT_EQ(error.code(), Errc::no_such_peer);
  EXPECT_STREQ(error.what(), "rank 9 of 4");
}

TEST(ErrorDeathTest, ABrokenContractSaysWhereWhatAndHowItCameThere) {
  const auto fail = [] {
    set_log_rank(3);
    const int cells = 3;
    WEFT_CHECK(cells == 4, "the ring lost a cell");
  };
  EXPECT_DEATH(fail(),
               "rank 3: weft broken contract in thread [0-9]+ at .*error_log_test.cpp:[0-9]+"
               ": the ring lost a cell \\[cells == 4\\](.|\n)*0x[0-9a-f]+");
}

TEST(ErrorDeathTest, ManyThreadsBreakingAtOnceEndInOneAbort) {
  const auto fail = [] {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([] { broken("all at once", "x.cpp", 1); });
    for (auto& thread : threads) thread.join();
  };
  EXPECT_EXIT(fail(), testing::KilledBySignal(SIGABRT), "all at once");
}

std::string logged(LogLevel level, std::string_view text) {
  testing::internal::CaptureStderr();
  log(level, text);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesWhatTheLevelAdmits) {
  EXPECT_EQ(log_level(), LogLevel::warn);
  EXPECT_EQ(logged(LogLevel::warn, "w"), "weft warn: w\n");
  EXPECT_EQ(logged(LogLevel::info, "i"), "");
  set_log_level(LogLevel::trace);
  EXPECT_EQ(logged(LogLevel::trace, "t\n"), "weft trace: t\n");
  set_log_level(LogLevel::error);
  EXPECT_EQ(logged(LogLevel::warn, "w"), "");
  EXPECT_EQ(logged(LogLevel::error, ""), "weft error: \n");
}

TEST(Log, ConfigurationSetsTheLevel) {
  set_config("log.level", "debug");
  EXPECT_EQ(log_level(), LogLevel::debug);
  EXPECT_THROW(set_config("log.level", "loud"), Error);
  EXPECT_EQ(log_level(), LogLevel::debug);
  set_config("log.level", "warn");
}

TEST(Log, LeavesErrnoAlone) {
  errno = 77;
  logged(LogLevel::error, "x");
  EXPECT_EQ(errno, 77);
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  // A pipe, since only there a reader sees how writes were cut.
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const int saved = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  constexpr int kThreads = 8;
  constexpr int kLines = 50;
  const std::string body(200, 'x');
  std::string all;
  std::thread reader([&] {
    std::array<char, 4096> part{};
    for (ssize_t n; (n = read(ends[0], part.data(), part.size())) > 0;) {
      all.append(part.data(), static_cast<std::size_t>(n));
    }
  });
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&] {
      for (int i = 0; i < kLines; ++i) log(LogLevel::error, body);
    });
  }
  for (auto& writer : writers) writer.join();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  reader.join();
  close(ends[0]);
  std::istringstream lines(all);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_EQ(line, "weft error: " + body);
  }
  EXPECT_EQ(count, kThreads * kLines);
}

}  // namespace
}  // namespace weft::base
