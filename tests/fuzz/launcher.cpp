// What weftrun and its daemons take from each other, and from users' lists of hosts: what is
// decoded is what would have been encoded.
#include <string>

#include "fuzz/fuzz.hpp"
#include "weftrun/hosts.hpp"
#include "weftrun/wire.hpp"

using namespace weft::run;
using weft::fuzz::demand;

namespace {

void try_message(std::string_view text) {
  const auto message = decode(text, {.members = 5, .ranks = 9});
  if (!message) return;
  const std::string again = encode(*message);
  demand(again.size() == kLengthBytes + text.size() && again.substr(kLengthBytes) == text);
  const auto length = decode_length(std::string_view(again).substr(0, kLengthBytes), kMostText);
  demand(length && *length == text.size());
}

void try_spec(std::string_view text) {
  const auto spec = decode_spec(text);
  if (!spec) return;
  demand(encode_spec(*spec) == text);
  for (int rank = 0; rank < spec->ranks() && rank < 64; ++rank)
    demand(spec->member_of_rank(rank) >= 0 && spec->member_of_rank(rank) < spec->members());
}

void try_hosts(std::string_view text) {
  for (const HostList& list : {parse_host_list(text), parse_host_file(text)}) {
    if (!list.problem.empty()) continue;
    const NodeList nodes = deal(list.value, 7, true);
    if (!nodes.problem.empty()) continue;
    int next = 0;
    for (const NodePart& node : nodes.value) {
      demand(node.first == next && node.ranks > 0);
      next += node.ranks;
    }
    demand(next == 7);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = weft::fuzz::text_of(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      try_message(text);
      break;
    case 1:
      try_spec(text);
      break;
    case 2:
      (void)decode_summons(text);
      break;
    default:
      try_hosts(text);
  }
  return 0;
}
