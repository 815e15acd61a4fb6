#include "graph/reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "graph/byte_source.hpp"
#include "weft/base/error.hpp"

namespace weft::graph {
namespace {

/// Longer than any edge: a file without ends of lines is not an edge list.
constexpr std::size_t kLongestLine = std::size_t{1} << 16;

/// What some editors put before a text's first character.
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Lines of a byte source, numbered from 1.
class Lines {
 public:
  explicit Lines(const std::string& path)
      : path_(path), source_(open_bytes(path)), buffer_(std::size_t{1} << 20) {}

  bool next(std::string_view& line) {
    ++number_;
    std::size_t searched = 0;
    for (;;) {
      const std::string_view have(buffer_.data() + at_ + searched, size_ - at_ - searched);
      if (const auto end = have.find('\n'); end != std::string_view::npos) {
        line = {buffer_.data() + at_, searched + end};
        at_ += line.size() + 1;
        return true;
      }
      searched = size_ - at_;
      if (searched > kLongestLine) fail("longer than any edge: not an edge list");
      std::memmove(buffer_.data(), buffer_.data() + at_, searched);
      at_ = 0;
      size_ = searched;
      const std::size_t got = source_->read(std::span(buffer_).subspan(size_));
      size_ += got;
      if (got == 0) {  // the last line may lack its end
        line = {buffer_.data(), size_};
        at_ = size_;
        return !line.empty();
      }
    }
  }
  [[noreturn]] void fail(std::string_view why) const {
    throw Error(Errc::bad_argument, fmt::format("{}:{}: {}", path_, number_, why));
  }

 private:
  std::string path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, size_ = 0;
  uint64_t number_ = 0;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The next word of `line`, cut off its front; empty at its end.
std::string_view take_word(std::string_view& line) {
  std::size_t begin = 0;
  while (begin < line.size() && is_blank(line[begin])) ++begin;
  std::size_t end = begin;
  while (end < line.size() && !is_blank(line[end])) ++end;
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

/// A word as it may be shown on a terminal.
std::string shown(std::string_view word) {
  std::string text;
  for (const char c : word.substr(0, 24)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte >= 0x7F ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text + (word.size() > 24 ? "..." : "");
}

uint64_t parse_id(std::string_view word, const Lines& lines) {
  uint64_t id = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (error == std::errc{} && end == word.data() + word.size()) return id;
  if (word.empty()) lines.fail("one vertex id where two are needed");
  if (error == std::errc::result_out_of_range) {
    lines.fail(fmt::format("vertex id '{}' needs more than 64 bits", shown(word)));
  }
  if (word.size() > 1 && word[0] == '-' && word[1] >= '0' && word[1] <= '9') {
    lines.fail(fmt::format("vertex id '{}' is negative", shown(word)));
  }
  for (const char c : word) {
    if (static_cast<unsigned char>(c) < 0x20) {
      lines.fail(fmt::format("'{}' is not text: is this a binary file?", shown(word)));
    }
  }
  lines.fail(fmt::format("'{}' is not a vertex id", shown(word)));
}

/// What may follow the two ids: a number in any notation.
bool looks_like_number(std::string_view word) {
  return word.find_first_not_of("0123456789+-.eEinfaINFA") == std::string_view::npos;
}

/// The numbers that open a Matrix Market file's data.
struct MatrixSize {
  uint64_t rows = 0, entries = 0;
};

MatrixSize parse_matrix_size(std::string_view line, const Lines& lines) {
  MatrixSize size;
  size.rows = parse_id(take_word(line), lines);
  const uint64_t columns = parse_id(take_word(line), lines);
  size.entries = parse_id(take_word(line), lines);
  if (size.rows != columns) lines.fail("a matrix that is not square is not a graph");
  if (size.rows > std::numeric_limits<Vertex>::max()) lines.fail("more than 2^32-1 vertices");
  return size;
}

using RawEdge = std::pair<uint64_t, uint64_t>;

/// Gives the ids in use numbers 0, 1, 2 …, in order.
EdgeList compact(const std::string& path, const std::vector<RawEdge>& raw) {
  uint64_t highest = 0;
  for (const auto& [a, b] : raw) highest = std::max({highest, a, b});

  EdgeList list;
  list.edges.reserve(raw.size());
  // Ids that lie close together go through a table, others through a search.
  if (highest / 8 <= raw.size() + 1024 && highest < std::numeric_limits<Vertex>::max()) {
    std::vector<Vertex> number(highest + 1, 0);
    for (const auto& [a, b] : raw) number[a] = number[b] = 1;
    for (uint64_t id = 0; id <= highest; ++id) {
      if (number[id] == 0) continue;
      number[id] = static_cast<Vertex>(list.ids.size());
      list.ids.push_back(id);
    }
    for (const auto& [a, b] : raw) list.edges.emplace_back(number[a], number[b]);
    return list;
  }
  list.ids.reserve(raw.size() * 2);
  for (const auto& [a, b] : raw) {
    list.ids.push_back(a);
    list.ids.push_back(b);
  }
  std::sort(list.ids.begin(), list.ids.end());
  list.ids.erase(std::unique(list.ids.begin(), list.ids.end()), list.ids.end());
  if (list.ids.size() >= std::numeric_limits<Vertex>::max()) {
    throw Error(Errc::bad_argument, fmt::format("{}: more than 2^32-1 vertices", path));
  }
  for (const auto& [a, b] : raw) list.edges.emplace_back(*list.find(a), *list.find(b));
  return list;
}

}  // namespace

std::optional<Vertex> EdgeList::find(uint64_t id) const {
  const auto place = std::lower_bound(ids.begin(), ids.end(), id);
  if (place == ids.end() || *place != id) return std::nullopt;
  return static_cast<Vertex>(place - ids.begin());
}

EdgeList read_edge_list(const std::string& path) {
  Lines lines(path);
  std::vector<RawEdge> raw;
  std::optional<MatrixSize> matrix;
  bool matrix_expected = false;

  std::string_view line;
  for (bool first = true; lines.next(line); first = false) {
    if (first && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (first && line.starts_with("%%MatrixMarket")) {
      matrix_expected = true;
      if (line.find("coordinate") == std::string_view::npos) {
        lines.fail("only Matrix Market files in coordinate format are graphs");
      }
      continue;
    }
    std::string_view rest = line;
    std::string_view word = take_word(rest);
    if (word.empty() || word[0] == '#' || word[0] == '%') continue;
    if (matrix_expected && !matrix) {
      matrix = parse_matrix_size(line, lines);
      continue;
    }
    const uint64_t from = parse_id(word, lines);
    const uint64_t to = parse_id(take_word(rest), lines);
    while (!(word = take_word(rest)).empty()) {
      if (!looks_like_number(word)) lines.fail(fmt::format("'{}' after an edge", shown(word)));
    }
    if (matrix && (from == 0 || to == 0 || from > matrix->rows || to > matrix->rows)) {
      lines.fail(fmt::format("entry outside the matrix's 1..{}", matrix->rows));
    }
    raw.emplace_back(from, to);
  }

  if (matrix && raw.size() != matrix->entries) {
    throw Error(Errc::bad_argument, fmt::format("{}: promises {} entries and holds {}: truncated?",
                                                path, matrix->entries, raw.size()));
  }
  if (raw.empty()) throw Error(Errc::bad_argument, fmt::format("{}: holds no edges", path));
  if (!matrix) return compact(path, raw);

  EdgeList list;
  list.ids.resize(matrix->rows);
  std::iota(list.ids.begin(), list.ids.end(), uint64_t{1});
  list.edges.reserve(raw.size());
  for (const auto& [a, b] : raw) {
    list.edges.emplace_back(static_cast<Vertex>(a - 1), static_cast<Vertex>(b - 1));
  }
  return list;
}

}  // namespace weft::graph
