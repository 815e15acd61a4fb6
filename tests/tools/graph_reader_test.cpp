// Reading edge lists: every accepted shape, and every refused one with its sentence.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include "graph/reader.hpp"
#include "graph_support.hpp"
#include "weft/base/error.hpp"

namespace weft::graph {
namespace {

using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::string complaint(const std::string& path) {
  try {
    (void)read_edge_list(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

class GraphReader : public testing::Test {
 protected:
  std::string complaint_about(std::string_view content, const std::string& name = "graph.el") {
    return complaint(folder_.write(name, content));
  }
  TemporaryFolder folder_;
};

TEST_F(GraphReader, TakesCommentsBlanksTabsWeightsAndAnyEndOfLine) {
  const auto list = read_edge_list(
      folder_.write("g", "# a comment\n% another\n\n0 1\n1\t2 0.5\r\n  2   3  1.5e-3 77 \n\t3 0"));
  EXPECT_THAT(list.ids, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(list.edges, ElementsAre(Pair(0, 1), Pair(1, 2), Pair(2, 3), Pair(3, 0)));
}

TEST_F(GraphReader, SkipsAByteOrderMark) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_THAT(read_edge_list(folder_.write("g", mark + "0 1\n")).edges, ElementsAre(Pair(0, 1)));
  EXPECT_THAT(read_edge_list(folder_.write_gzip("g.gz", mark + "# a\n0 1")).edges,
              ElementsAre(Pair(0, 1)));
  const std::string matrix = "%%MatrixMarket matrix coordinate\n3 3 1\n1 2\n";
  EXPECT_THAT(read_edge_list(folder_.write("m", mark + matrix)).ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(complaint_about("0 1\n" + mark + "1 2\n"), HasSubstr("is not a vertex id"));
}

TEST_F(GraphReader, TakesSeveralXzStreamsWithZerosBetweenThem) {
  const std::string path = test::own_data("road-USA-NY.el.xz");
  const std::string xz = test::file_content(path);
  const auto once = read_edge_list(path);
  const std::string zeros(8, '\0');
  const auto twice = read_edge_list(folder_.write("twice.xz", xz + zeros + xz + zeros));
  EXPECT_EQ(twice.ids, once.ids);
  EXPECT_EQ(twice.edges.size(), 2 * once.edges.size());
}

TEST_F(GraphReader, MakesOneBasedIdsDense) {
  const auto list = read_edge_list(folder_.write("g", "1 2\n3 2\n"));
  EXPECT_THAT(list.ids, ElementsAre(1, 2, 3));
  EXPECT_THAT(list.edges, ElementsAre(Pair(0, 1), Pair(2, 1)));
}

TEST_F(GraphReader, MakesIdsBeyond32BitsDense) {
  const auto list = read_edge_list(
      folder_.write("g", "4294967296 7\n18446744073709551615 4294967296\n7 9000000000\n"));
  EXPECT_THAT(list.ids, ElementsAre(7, 4294967296U, 9000000000U, 18446744073709551615U));
  EXPECT_THAT(list.edges, ElementsAre(Pair(1, 0), Pair(3, 1), Pair(0, 2)));
  EXPECT_EQ(list.find(9000000000U), Vertex{2});
  EXPECT_EQ(list.find(8), std::nullopt);
}

TEST_F(GraphReader, ReadsMatrixMarketWithVerticesThatHaveNoEdge) {
  const auto list = read_edge_list(folder_.write(
      "g.mtx",
      "%%MatrixMarket matrix coordinate real symmetric\n% c\n4 4 3\n1 1 9.5\n2 1 -1\n3 2 1e3\n"));
  EXPECT_THAT(list.ids, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(list.edges, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(2, 1)));
}

TEST_F(GraphReader, ReadsGzipAlsoInSeveralMembers) {
  const auto first = folder_.write_gzip("a.gz", "0 1\n1 2\n");
  const auto second = folder_.write_gzip("b.gz", "2 3\n");
  const auto both = folder_.write("both", test::file_content(first) + test::file_content(second));
  EXPECT_EQ(read_edge_list(both).edges.size(), 3);  // told by its bytes, not by its name
}

TEST_F(GraphReader, ReadsLinesAcrossItsBuffersEnds) {
  std::string text;
  for (int i = 0; i < 300000; ++i) text += std::to_string(i) + "\t" + std::to_string(i + 1) + "\n";
  for (const auto& path : {folder_.write("plain", text), folder_.write_gzip("packed.gz", text)}) {
    const auto list = read_edge_list(path);
    ASSERT_EQ(list.edges.size(), 300000);
    for (Vertex v = 0; v < 300000; ++v) ASSERT_EQ(list.edges[v], Edge(v, v + 1));
  }
}

TEST_F(GraphReader, ReadsThePackedRoadNetworkOfTheRepository) {
  const auto list = read_edge_list(test::own_data("road-USA-NY.el.xz"));
  EXPECT_EQ(list.ids.size(), 264346);
  EXPECT_EQ(list.edges.size(), 365050);
}

TEST_F(GraphReader, RefusesMissingEmptyAndFolder) {
  EXPECT_THAT(complaint("/nonexistent/graph.el"), HasSubstr("cannot be opened: No such file"));
  EXPECT_THAT(complaint_about(""), HasSubstr("is empty"));
  EXPECT_THAT(complaint_about("# nothing but words\n\n"), HasSubstr("holds no edges"));
  EXPECT_THAT(complaint(folder_.path().string()), HasSubstr("is a directory"));
}

TEST_F(GraphReader, RefusesAFileItMayNotRead) {
  const auto path = folder_.write("secret", "0 1\n");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  // Root may read everything: ask as somebody else, in a process of its own.
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    ::_exit(complaint(path).find("Permission denied") != std::string::npos ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(GraphReader, RefusesTruncatedPacking) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 5000) + " 1\n";
  const std::string gzip = test::file_content(folder_.write_gzip("whole.gz", text));
  const std::string xz = test::file_content(test::own_data("road-USA-NY.el.xz"));
  for (const std::size_t cut : {std::size_t{11}, gzip.size() / 2, gzip.size() - 1}) {
    EXPECT_THAT(complaint_about(gzip.substr(0, cut), "cut.gz"), HasSubstr("truncated"));
  }
  for (const std::size_t cut : {std::size_t{7}, xz.size() / 2, xz.size() - 1}) {
    EXPECT_THAT(complaint_about(xz.substr(0, cut), "cut.xz"), HasSubstr("truncated"));
  }
  EXPECT_THAT(complaint_about(gzip.substr(0, 1), "cut.gz"), HasSubstr("does not begin as gzip"));
  EXPECT_THAT(complaint_about(xz.substr(0, 5), "cut.xz"), HasSubstr("does not begin as xz"));
}

TEST_F(GraphReader, RefusesDamagedPacking) {
  std::string gzip = test::file_content(folder_.write_gzip("whole.gz", "0 1\n1 2\n2 3\n"));
  EXPECT_THAT(complaint_about(gzip + "garbage", "g.gz"), HasSubstr("garbage after its gzip data"));
  gzip[gzip.size() - 6] = static_cast<char>(gzip[gzip.size() - 6] ^ 1);  // in the checksum
  EXPECT_THAT(complaint_about(gzip, "g.gz"), HasSubstr("is damaged"));
  std::string xz = test::file_content(test::own_data("road-USA-NY.el.xz"));
  // Shorter and longer than a stream's header, and one that begins like it.
  for (const std::string garbage : {"g", "garbage", "much more garbage", "\xfd and so on and on"}) {
    EXPECT_THAT(complaint_about(xz + garbage, "g.xz"), HasSubstr("garbage after its xz data"));
  }
  xz[xz.size() / 2] = static_cast<char>(xz[xz.size() / 2] ^ 1);
  EXPECT_THAT(complaint_about(xz, "g.xz"), HasSubstr("is damaged"));
}

TEST_F(GraphReader, NamesTheLineOfWhatIsNotAnEdge) {
  EXPECT_THAT(complaint_about("0 1\n# c\n1 -2\n"),
              HasSubstr("graph.el:3: vertex id '-2' is negative"));
  EXPECT_THAT(complaint_about("0 1\n1 x\n"), HasSubstr(":2: 'x' is not a vertex id"));
  EXPECT_THAT(complaint_about("0 1\n1 2.5\n"), HasSubstr(":2: '2.5' is not a vertex id"));
  EXPECT_THAT(complaint_about("0,1\n"), HasSubstr(":1: '0,1' is not a vertex id"));
  EXPECT_THAT(complaint_about("0 1\n7\n"), HasSubstr(":2: one vertex id where two are needed"));
  EXPECT_THAT(complaint_about("0 1 road\n"), HasSubstr(":1: 'road' after an edge"));
  EXPECT_THAT(complaint_about("0 18446744073709551616\n"), HasSubstr("needs more than 64 bits"));
}

TEST_F(GraphReader, RefusesBinaryFiles) {
  EXPECT_THAT(complaint_about(std::string("\x7f\x45LF\x02\x01\0\0", 8)), HasSubstr("binary file?"));
  EXPECT_THAT(complaint_about(std::string(8, '\0')), HasSubstr("binary file?"));
  EXPECT_THAT(complaint_about(std::string(300000, '7')), HasSubstr("longer than any edge"));
}

TEST_F(GraphReader, RefusesMatricesThatAreNotGraphs) {
  const std::string banner = "%%MatrixMarket matrix coordinate pattern general\n";
  EXPECT_THAT(complaint_about("%%MatrixMarket matrix array real general\n2 2\n"),
              HasSubstr("coordinate format"));
  EXPECT_THAT(complaint_about(banner + "3 4 1\n1 2\n"), HasSubstr("not square"));
  EXPECT_THAT(complaint_about(banner + "3 3 2\n1 2\n"),
              HasSubstr("promises 2 entries and holds 1"));
  EXPECT_THAT(complaint_about(banner + "3 3 1\n1 4\n"), HasSubstr(":3: entry outside"));
  EXPECT_THAT(complaint_about(banner + "3 3 1\n0 1\n"), HasSubstr(":3: entry outside"));
}

}  // namespace
}  // namespace weft::graph
