// What weftrun and its daemons say to each other over TCP: messages, their bytes, and their check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weftrun/hosts.hpp"
#include "weftrun/options.hpp"

namespace weft::run {

/// The first byte of a message; the table in wire.cpp says what each carries.
enum class Say : uint8_t {
  // Until both ends have shown that they know the job's key.
  hello,      ///< daemon: who it is; 16 bytes of its own that nobody knew
  challenge,  ///< parent: 16 such bytes, and its proof
  proof,      ///< daemon: its proof
  // Down, from weftrun to all daemons or to one.
  job,        ///< what to run: JobSpec
  start,      ///< all hosts are ready: start the ranks
  signal,     ///< send all ranks signal `value`
  pause,      ///< weftrun will be stopped: its silence means nothing until it speaks again
  death,      ///< `rank` died with wait(2) status `value`; `text` says how
  left,       ///< `rank` left the job in order
  fence_out,  ///< fence `number` ended, well (`value` 0) or not; `text`: what all collected
  credit,     ///< to `member`: `number` more bytes of stream `value` may come
  input,      ///< bytes for rank 0's standard input
  input_end,  ///< it has no more
  sweep,      ///< all ranks ended: kill what they left
  bye,        ///< the job is over
  // Up, from a daemon to weftrun.
  ready,         ///< `member` could start its ranks now
  started,       ///< `rank` runs as process `value`; `text`: where it is bound
  start_failed,  ///< `rank` could not be started: errno `value`, step `text`
  all_started,   ///< `member` started its ranks
  ended,         ///< `rank` ended with wait(2) status `value`
  joined,        ///< `rank` joined the job
  finalized,     ///< `rank` left the job in order
  aborted,       ///< `rank` ended the job with code `value` and message `text`
  output,        ///< `rank` printed `text` to its stream `value`: 0 output, 1 errors
  output_end,    ///< it closed it
  input_credit,  ///< `number` bytes of input were taken; `value` 1: no more is wanted
  fence_in,      ///< all ranks of a branch came to fence `number`, well or not (`value` 0, 1);
                 ///< `text`: what they collected
  swept,         ///< `member` has no process of the job left
  lost,          ///< `member` and all below it are gone; `text`: how
  said,          ///< `member`'s launch agent or daemon printed a line
  // From a member to any other.
  modex_ask,     ///< `member` asks, as its question `number`, for what `rank` published
  modex_answer,  ///< to `member`: the answer, PMIx status `value`, values `text`
  // Between neighbours.
  beat,  ///< still there
};

struct Message {
  Say say = Say::beat;
  int member = 0;
  int rank = 0;
  int value = 0;
  uint64_t number = 0;
  std::string text;
};

/// What the numbers in messages of a job must stay below.
struct WireLimits {
  int members = 1;
  int ranks = 1;
};

/// In front of every message: its length, four bytes, the lowest first.
constexpr std::size_t kLengthBytes = 4;
/// A message without its text: say, member, rank, value, number.
constexpr std::size_t kFixedBytes = 1 + 4 + 4 + 4 + 8;
/// The longest text that there is, and the longest before the other end is known.
constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kMostGreeting = 64;
/// Bytes of a number that nobody can guess, and of a proof.
constexpr std::size_t kNonceBytes = 16;
constexpr std::size_t kProofBytes = 16;

/// The bytes of a message, its length in front. A text that is too long is an error of the caller.
std::string encode(const Message& message);

/// How many bytes follow a length; nothing if no message can be that long (`most_text`).
std::optional<std::size_t> decode_length(std::string_view four_bytes, std::size_t most_text);

/// The message in `bytes`, what followed its length: nothing unless every field that its kind
/// carries is in range, the others are 0, and the text has a length that it may have.
std::optional<Message> decode(std::string_view bytes, const WireLimits& limits);

/// All that a daemon has to know of the job. weftrun is node `root_node` of it, or none (-1).
struct JobSpec {
  std::string nspace;
  std::string folder;                    ///< the ranks' working folder
  std::vector<std::string> environment;  ///< "K=V": weftrun's, as far as it goes for other hosts
  std::vector<std::string> agent;        ///< words of the launch agent's command
  std::string daemon;                    ///< the file of weftrun, on every host
  int root_node = -1;
  int degree = 1;
  int silence_ms = 0;  ///< who says nothing for so long is lost
  int launch_ms = 0;   ///< a daemon that does not answer for so long never will
  Bind bind = Bind::none;
  std::vector<std::string> env;  ///< "K=V": --env of all ranks
  std::vector<App> apps;
  std::vector<NodePart> nodes;

  [[nodiscard]] int ranks() const noexcept { return nodes.back().first + nodes.back().ranks; }
  /// Members of the tree: weftrun, and a daemon for each other node.
  [[nodiscard]] int members() const noexcept {
    return static_cast<int>(nodes.size()) + (root_node < 0 ? 1 : 0);
  }
  /// The node of a member; -1: weftrun, where it is none.
  [[nodiscard]] int node_of_member(int member) const noexcept {
    if (member == 0) return root_node;
    return root_node >= 0 && member > root_node ? member : member - 1;
  }
  [[nodiscard]] int member_of_node(int node) const noexcept {
    if (node == root_node) return 0;
    return root_node < 0 || node < root_node ? node + 1 : node;
  }
  [[nodiscard]] int member_of_rank(int rank) const;
  [[nodiscard]] const NodePart& node_part(int member) const {
    return nodes.at(static_cast<std::size_t>(node_of_member(member)));
  }
};

std::string encode_spec(const JobSpec& spec);
/// Nothing unless all of it is there, in range, and fits together.
std::optional<JobSpec> decode_spec(std::string_view bytes);

/// What a launch agent's standard input brings a daemon. The key is nowhere else.
struct Summons {
  std::string key;  ///< 32 hexadecimal digits
  int member = 0;
  int port = 0;
  int launch_ms = 0;
  std::vector<std::string> addresses;  ///< numeric, of the parent
};
constexpr std::size_t kMostSummons = 16384;

std::string encode_summons(const Summons& summons);
std::optional<Summons> decode_summons(std::string_view text);

}  // namespace weft::run
