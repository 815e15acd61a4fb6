// The lines of the PMI-1 wire protocol as pure functions: what is sent, and what came from outside.
//
// Owner: job_pmi1. Who may call: any thread; nothing here has state or touches a descriptor.
// A line is `cmd=NAME key=value key=value…` and ends with '\n', which these functions neither add
// nor expect. Nothing that came from outside is believed: what makes no sense is Error(launcher).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/types.hpp"

namespace weft::fabric {

struct Pmi1Message {
  std::string command;
  std::map<std::string, std::string, std::less<>> fields;
};

/// The longest line that this side sends, '\n' included. Slurm's server reads lines into 1,024
/// bytes and answers "success" to what it cut.
inline constexpr std::size_t kPmi1MostLine = 1000;
/// The longest line that is taken from a server: far more than any has reason to send.
inline constexpr std::size_t kPmi1MostAnswer = 1 << 16;
/// The most ranks a job may claim to have.
inline constexpr int kPmi1MostRanks = 1 << 22;

/// Takes a line apart. A word without '=' belongs to a sentence that the server wrote unquoted, and
/// is dropped. Throws Error(launcher) if there is no command, a key twice, or a byte that is no
/// printable character.
Pmi1Message parse_pmi1(std::string_view line);
/// Puts one together. The caller answers for words without spaces (`encode_pmi1`).
std::string pmi1_line(
    std::string_view command,
    const std::vector<std::pair<std::string_view, std::string_view>>& fields = {});

/// The number in field `key`, decimal and nothing else, low ≤ it ≤ high. Throws Error(launcher).
int64_t pmi1_number(const Pmi1Message& message, std::string_view key, int64_t low, int64_t high);
/// The word in field `key`, which must be there and may not be empty. Throws Error(launcher).
const std::string& pmi1_word(const Pmi1Message& message, std::string_view key);

/// `bytes` in characters that every server carries: letters, digits and -.:/+, as they are, all
/// others as '_' and two hexadecimal digits.
std::string encode_pmi1(std::string_view bytes);
/// The reverse. Throws Error(launcher) for what `encode_pmi1` never writes.
std::string decode_pmi1(std::string_view text);

/// What the server said that it takes, and the name of the job's key-value space.
struct Pmi1Space {
  std::string name;
  std::size_t most_key = 0;    ///< characters of a key
  std::size_t most_value = 0;  ///< characters of a value, such that no line is too long
};
/// From the answers to get_maxes and get_my_kvsname. Throws Error(launcher) if nothing could be
/// put with such limits.
Pmi1Space pmi1_space(const Pmi1Message& maxes, const Pmi1Message& name);

/// The name under which piece `piece` of the `generation`th publication of `key` by `rank` stands.
/// Throws Error(bad_argument) if it would be longer than the server allows.
std::string pmi1_key(const Pmi1Space& space, Rank rank, std::string_view key, int generation,
                     int piece);

/// `value`, encoded, in pieces that fit: never none, none ever empty (MPICH 5's server ends the job
/// that puts an empty value). The first begins with the number of pieces and of characters, so that
/// a server that cuts or mixes up values is found out.
std::vector<std::string> split_pmi1(std::string_view value, std::size_t most);
/// What the first piece says of the whole.
struct Pmi1Head {
  int pieces = 0;
  std::size_t length = 0;  ///< characters of all pieces, this one's head apart
  std::string begin;       ///< what of them is in this piece
};
/// Throws Error(launcher).
Pmi1Head parse_pmi1_head(std::string_view piece);
/// `text`: the pieces in their order, without the head. Throws Error(launcher) if some are missing.
std::string join_pmi1(const Pmi1Head& head, std::string_view text);

/// The node, counted from 0 in the order of first appearance, of each of `size` ranks, from
/// PMI_process_mapping: `(vector,(first node,nodes,ranks on each),…)`, begun again from the left
/// until all ranks have a node. Throws Error(launcher).
std::vector<int> parse_pmi1_mapping(std::string_view text, int size);

}  // namespace weft::fabric
