#include "fabric/pmi1_wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

/// What a server must take at the least, for keys and values to make sense at all.
constexpr std::size_t kLeastValue = 64;
constexpr std::size_t kLeastKey = 31;
/// Longer keys than this are not used, whatever the server takes: they leave no room for a value.
constexpr std::size_t kMostKey = 255;
/// A server's limit above this is no limit that somebody chose.
constexpr int64_t kMostLimit = int64_t{1} << 30;
/// Bytes of the largest value that is put together: nobody publishes more of himself.
constexpr std::size_t kMostLength = 1 << 24;
constexpr std::string_view kDigits = "0123456789abcdef";

[[noreturn]] void refuse(const std::string& what) { throw Error(Errc::launcher, "PMI-1: " + what); }

/// As much of it as a message to a person may hold.
std::string quoted(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, 60)) shown += c >= ' ' && c <= '~' ? c : '?';
  return fmt::format("'{}'{}", shown, text.size() > 60 ? "…" : "");
}

bool carried_as_it_is(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-.:/+,").find(c) != std::string_view::npos;
}

/// All of `text` as a number in the range, or false.
template <class Number>
bool whole_number(std::string_view text, int64_t low, int64_t high, Number& number) {
  int64_t wide = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), wide);
  if (bad != std::errc() || end != text.data() + text.size() || wide < low || wide > high)
    return false;
  number = static_cast<Number>(wide);
  return true;
}

/// Takes what stands before the first `mark` off `text`, with the mark; false if there is none.
bool take_until(std::string_view& text, char mark, std::string_view& taken) {
  const std::size_t at = text.find(mark);
  if (at == std::string_view::npos) return false;
  taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return true;
}

}  // namespace

Pmi1Message parse_pmi1(std::string_view line) {
  if (line.size() > kPmi1MostAnswer) refuse("an answer without an end");
  if (!std::ranges::all_of(line, [](char c) { return c >= ' ' && c <= '~'; }))
    refuse(fmt::format("an answer that is no text: {}", quoted(line)));
  Pmi1Message message;
  bool sense = line.starts_with("cmd=");
  for (std::string_view rest = line; sense && !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const std::size_t is = word.find('=');
    if (is == std::string_view::npos) continue;
    if (message.command.empty()) {
      message.command = word.substr(is + 1);
      sense = !message.command.empty();
    } else {
      sense = is > 0 && message.fields.emplace(word.substr(0, is), word.substr(is + 1)).second;
    }
  }
  if (!sense) refuse(fmt::format("an answer that makes no sense: {}", quoted(line)));
  return message;
}

std::string pmi1_line(std::string_view command,
                      const std::vector<std::pair<std::string_view, std::string_view>>& fields) {
  std::string line = fmt::format("cmd={}", command);
  for (const auto& [key, value] : fields) line += fmt::format(" {}={}", key, value);
  return line;
}

int64_t pmi1_number(const Pmi1Message& message, std::string_view key, int64_t low, int64_t high) {
  const std::string& text = pmi1_word(message, key);
  int64_t number = 0;
  if (!whole_number(text, low, high, number))
    refuse(fmt::format("{} of {} is {}, not a number from {} to {}", key, quoted(message.command),
                       quoted(text), low, high));
  return number;
}

const std::string& pmi1_word(const Pmi1Message& message, std::string_view key) {
  const auto found = message.fields.find(key);
  if (found == message.fields.end() || found->second.empty())
    refuse(fmt::format("{} without {}", quoted(message.command), key));
  return found->second;
}

std::string encode_pmi1(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const char c : bytes) {
    if (carried_as_it_is(c)) {
      text.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text.push_back('_');
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string decode_pmi1(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '_') {
      if (!carried_as_it_is(text[at]))
        refuse(fmt::format("a value with {}", quoted(text.substr(at, 1))));
      bytes.push_back(text[at]);
      continue;
    }
    const std::size_t high = at + 1 < text.size() ? kDigits.find(text[at + 1]) : kDigits.npos;
    const std::size_t low = at + 2 < text.size() ? kDigits.find(text[at + 2]) : kDigits.npos;
    const auto byte = static_cast<char>(high << 4 | low);
    if (high == kDigits.npos || low == kDigits.npos || carried_as_it_is(byte))
      refuse(fmt::format("a value with {}", quoted(text.substr(at, 3))));
    bytes.push_back(byte);
    at += 2;
  }
  return bytes;
}

Pmi1Space pmi1_space(const Pmi1Message& maxes, const Pmi1Message& name) {
  Pmi1Space space;
  space.name = pmi1_word(name, "kvsname");
  // Servers differ in whether they count a terminating zero.
  space.most_key = static_cast<std::size_t>(pmi1_number(maxes, "keylen_max", 2, kMostLimit)) - 1;
  space.most_key = std::min(space.most_key, kMostKey);
  const auto said = static_cast<std::size_t>(pmi1_number(maxes, "vallen_max", 2, kMostLimit)) - 1;
  const std::size_t around =
      pmi1_line("put", {{"kvsname", space.name}, {"key", ""}, {"value", ""}}).size() +
      space.most_key + 1;
  space.most_value = around < kPmi1MostLine ? std::min(said, kPmi1MostLine - around) : 0;
  if (space.most_key < kLeastKey || space.most_value < kLeastValue)
    refuse(fmt::format("the server takes keys of {} and values of {} characters: too few",
                       space.most_key, space.most_value));
  return space;
}

std::string pmi1_key(const Pmi1Space& space, Rank rank, std::string_view key, int generation,
                     int piece) {
  std::string full = fmt::format("w{}.{}.{}.{}", rank.value, generation, piece, encode_pmi1(key));
  if (full.size() > space.most_key)
    throw Error(
        Errc::bad_argument,
        fmt::format("a job key of {} characters, '{}': this launcher carries {}, of which "
                    "{} are needed for rank and number",
                    key.size(), key, space.most_key, full.size() - encode_pmi1(key).size()));
  return full;
}

std::vector<std::string> split_pmi1(std::string_view value, std::size_t most) {
  const std::string text = encode_pmi1(value);
  if (text.size() > kMostLength)
    throw Error(Errc::bad_argument, fmt::format("a job value of {} bytes", value.size()));
  // The head is shorter than this: two numbers up to 2^24 and two colons.
  constexpr std::size_t kHead = 18;
  const std::size_t count = (text.size() + kHead + most - 1) / most;
  std::vector<std::string> pieces;
  std::string_view rest = text;
  for (std::size_t i = 0; i < count; ++i) {
    std::string piece = i == 0 ? fmt::format("{}:{}:", count, text.size()) : std::string();
    const std::string_view part = rest.substr(0, i == 0 ? most - kHead : most);
    rest.remove_prefix(part.size());
    pieces.push_back(piece.append(part));
  }
  return pieces;
}

Pmi1Head parse_pmi1_head(std::string_view piece) {
  Pmi1Head head;
  std::string_view rest = piece;
  std::string_view pieces;
  std::string_view length;
  if (!take_until(rest, ':', pieces) || !take_until(rest, ':', length) ||
      !whole_number(length, 0, kMostLength, head.length) ||
      !whole_number(pieces, 1, static_cast<int64_t>(head.length) + 1, head.pieces) ||
      rest.size() > head.length || (head.pieces == 1) != (rest.size() == head.length))
    refuse(fmt::format("a value that begins with {}", quoted(piece)));
  head.begin = rest;
  return head;
}

std::string join_pmi1(const Pmi1Head& head, std::string_view text) {
  if (text.size() != head.length)
    refuse(fmt::format("a value of {} characters came as {}: the launcher cuts values", head.length,
                       text.size()));
  return decode_pmi1(text);
}

std::vector<int> parse_pmi1_mapping(std::string_view text, int size) {
  const auto no_mapping = [&] { refuse(fmt::format("PMI_process_mapping is {}", quoted(text))); };
  struct Block {
    int first = 0, nodes = 0, ranks = 0;
  };
  std::vector<Block> blocks;
  std::string_view rest = text;
  constexpr std::string_view kBegin = "(vector,";
  if (!rest.starts_with(kBegin) || !rest.ends_with("))")) no_mapping();
  rest.remove_prefix(kBegin.size());
  rest.remove_suffix(1);
  while (!rest.empty()) {
    Block block;
    std::string_view first;
    std::string_view nodes;
    std::string_view ranks;
    const bool follows = blocks.empty() || rest.starts_with(',');
    if (!blocks.empty()) rest.remove_prefix(1);
    if (!follows || !rest.starts_with('(')) no_mapping();
    rest.remove_prefix(1);
    if (!take_until(rest, ',', first) || !take_until(rest, ',', nodes) ||
        !take_until(rest, ')', ranks) || !whole_number(first, 0, kPmi1MostRanks, block.first) ||
        !whole_number(nodes, 1, kPmi1MostRanks, block.nodes) ||
        !whole_number(ranks, 1, kPmi1MostRanks, block.ranks))
      no_mapping();
    blocks.push_back(block);
  }
  std::vector<int> node_of;
  std::map<int, int> numbers;  // the launcher's number of a node → ours
  while (static_cast<int>(node_of.size()) < size) {
    for (const Block& block : blocks) {
      for (int node = block.first; node < block.first + block.nodes; ++node) {
        if (static_cast<int>(node_of.size()) == size) return node_of;
        const int number = numbers.emplace(node, static_cast<int>(numbers.size())).first->second;
        const int room = size - static_cast<int>(node_of.size());
        node_of.insert(node_of.end(), static_cast<std::size_t>(std::min(block.ranks, room)),
                       number);
      }
    }
  }
  return node_of;
}

}  // namespace weft::fabric
