// weft-graph as a user meets it: its answers, and a sentence and an exit code for bad input.
#include <gmock/gmock.h>

#include <regex>

#include "graph_support.hpp"
#include "run_command.hpp"

namespace weft::graph {
namespace {

using test::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;
using tools::test::Outcome;
using tools::test::run;

Outcome alone(const std::string& arguments) { return run(WEFT_GRAPH " " + arguments); }
Outcome job(int ranks, const std::string& arguments) {
  return run(WEFTRUN " -n " + std::to_string(ranks) + " --timeout 120 " WEFT_GRAPH " " + arguments);
}

/// The parts of an outcome that no number of ranks and threads may change.
std::string answer(const Outcome& outcome) {
  std::string lines;
  const std::regex line("(graph +[0-9]+ vertices, [0-9]+ edges|(checksum|result) .*)");
  for (std::sregex_iterator it(outcome.output.begin(), outcome.output.end(), line), end; it != end;
       ++it) {
    lines += it->str() + "\n";
  }
  return lines;
}

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

class GraphCommand : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string small_ =
      folder_.write("small_.el", "10 20\n20 30\n30 10\n30 40\n5000000000 6000000000\n");
};

TEST_F(GraphCommand, SaysThatNobodyCanReadItsReport) {
  const auto full = run("(" WEFT_GRAPH " cc " + small_ + " 2>&1 >/dev/full)");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.output, HasSubstr("standard output"));
}

TEST_F(GraphCommand, AnswersAlone) {
  const auto bfs = alone("bfs " + small_ + " --verify");
  EXPECT_EQ(bfs.code, 0) << bfs.output;
  EXPECT_THAT(bfs.output, HasSubstr("graph     6 vertices, 5 edges"));
  EXPECT_THAT(bfs.output, HasSubstr("from vertex 30"));
  EXPECT_THAT(bfs.output, HasSubstr("reached 4, highest level 1, sum of levels 3"));
  EXPECT_THAT(bfs.output, HasSubstr("verify    all 6 values equal"));
  const auto far = alone("bfs " + small_ + " --root 6000000000 --verify --threads 3");
  EXPECT_EQ(far.code, 0) << far.output;
  EXPECT_THAT(far.output, HasSubstr("reached 2, highest level 1, sum of levels 1"));
  EXPECT_THAT(alone("cc " + small_ + " --verify").output, HasSubstr("components 2"));
  const auto ranks = alone("pagerank " + small_ + " --verify");
  EXPECT_EQ(ranks.code, 0) << ranks.output;
  EXPECT_THAT(ranks.output, HasSubstr("sum 1.000000000"));
  EXPECT_THAT(ranks.output, HasSubstr("vertex 5000000000 has rank"));
}

TEST_F(GraphCommand, GivesTheSameAnswerForAnyRanksAndThreads) {
  for (const std::string algorithm : {"bfs", "cc", "pagerank"}) {
    const std::string task = algorithm + " --generate kron:10 --parallel-from 100 --verify";
    const auto reference = alone(task);
    EXPECT_EQ(reference.code, 0) << reference.output;
    EXPECT_EQ(count(answer(reference), "\n"), 3U) << reference.output;
    for (const auto& [ranks, threads] : {std::pair{1, 3}, {2, 1}, {2, 2}, {5, 2}}) {
      const auto outcome = job(ranks, task + " --threads " + std::to_string(threads));
      EXPECT_EQ(outcome.code, 0) << outcome.output;
      EXPECT_EQ(answer(outcome), answer(reference)) << ranks << " ranks";
    }
  }
}

TEST_F(GraphCommand, WorksWithMoreRanksThanVertices) {
  for (const std::string algorithm : {"bfs", "cc", "pagerank"}) {
    const auto outcome = job(9, algorithm + " " + small_ + " --verify");
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(answer(outcome), answer(alone(algorithm + " " + small_)));
  }
}

TEST_F(GraphCommand, RefusesBadFilesWithOneSentence) {
  const std::string text = test::file_content(test::own_data("road-USA-NY.el.xz"));
  const std::vector<std::pair<std::string, std::string>> cases{
      {"/nonexistent.el", "cannot be opened"},
      {folder_.write("empty.el", ""), "is empty"},
      {folder_.path().string(), "is a directory"},
      {folder_.write("cut.xz", text.substr(0, text.size() / 2)), "truncated"},
      {folder_.write("binary.el", std::string("\1\2\0\3", 4)), "binary file?"},
      {folder_.write("negative.el", "0 1\n-3 4\n"), "negative.el:2: vertex id '-3' is negative"},
      {folder_.write("words.el", "0 1\n0 2\nzero one\n"), "words.el:3: 'zero' is not a vertex id"},
  };
  for (const auto& [path, sentence] : cases) {
    for (const auto& outcome : {alone("bfs " + path), job(2, "cc " + path)}) {
      EXPECT_EQ(outcome.code, 2) << path;
      EXPECT_THAT(outcome.output, HasSubstr(sentence));
      EXPECT_EQ(count(outcome.output, "weft-graph: "), 1U) << outcome.output;
      EXPECT_THAT(outcome.output, Not(HasSubstr("checksum")));
    }
  }
}

TEST_F(GraphCommand, RefusesBadArgumentsWithOneSentence) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"bfs " + small_ + " --threads 0", "--threads"},
      {"bfs " + small_ + " --threads -1", "--threads"},
      {"bfs " + small_ + " --threads many", "--threads"},
      {"bfs " + small_ + " --root 11", "--root 11"},
      {"bfs " + small_ + " --root -1", "--root"},
      {"cc " + small_ + " --root 10", "--root is for bfs alone; cc has no use for it"},
      {"pagerank " + small_ + " --root 10", "--root is for bfs alone"},
      {"bfs " + small_ + " --iterations 3", "--iterations is for pagerank alone; bfs has"},
      {"cc " + small_ + " --iterations 3", "--iterations is for pagerank alone"},
      {"sort " + small_, "sort"},
      {"bfs", "FILE"},
      {"", "algorithm"},
      {"bfs " + small_ + " --generate kron:4", "exclude each other"},
      {"bfs --generate kron:0", "scale from 1 to 30"},
      {"bfs --generate kron:31", "scale from 1 to 30"},
      {"bfs --generate grid:4", "kron:SCALE"},
      {"bfs " + small_ + " --colour red", "--colour"},
  };
  for (const auto& [arguments, sentence] : cases) {
    for (const auto& outcome : {alone(arguments), job(2, arguments)}) {
      EXPECT_EQ(outcome.code, 2) << arguments << "\n" << outcome.output;
      EXPECT_THAT(outcome.output, HasSubstr(sentence));
      EXPECT_EQ(count(outcome.output, "weft-graph: "), 1U) << outcome.output;
    }
  }
}

TEST_F(GraphCommand, HelpsOnce) {
  const auto outcome = job(2, "--help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(count(outcome.output, "--verify"), 1U) << outcome.output;
}

}  // namespace
}  // namespace weft::graph
