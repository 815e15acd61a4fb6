// The lines of PMI-1, from a launcher that may be anybody's: refused as Error(launcher), or
// understood.
#include <string>

#include "fabric/pmi1_wire.hpp"
#include "fuzz/fuzz.hpp"

using namespace weft;
using namespace weft::fabric;
using fuzz::demand;
using fuzz::or_refuses;

/// A broken contract, in place of the house's, which prints much more.
void weft::base::broken(std::string_view /*what*/, const char* /*file*/, int /*line*/) noexcept {
  __builtin_trap();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = fuzz::text_of(data + 1, size - 1);
  or_refuses(Errc::launcher, [&] {
    switch (data[0] % 5) {
      case 0: {
        const Pmi1Message message = parse_pmi1(text);
        (void)pmi1_number(message, "size", 1, kPmi1MostRanks);
        (void)pmi1_word(message, "value");
        break;
      }
      case 1: {
        const auto nodes = parse_pmi1_mapping(text, 12);
        demand(nodes.size() == 12);
        int most = -1;
        for (const int node : nodes) {
          demand(node >= 0 && node <= most + 1);
          most = node > most ? node : most;
        }
        break;
      }
      case 2:
        demand(decode_pmi1(encode_pmi1(text)) == text);
        break;
      case 3:
        demand(encode_pmi1(decode_pmi1(text)) == text);
        break;
      default: {
        constexpr std::size_t kMost = 64;
        const auto pieces = split_pmi1(text, kMost);
        demand(!pieces.empty());
        const Pmi1Head head = parse_pmi1_head(pieces.front());
        std::string all = head.begin;
        for (std::size_t i = 0; i < pieces.size(); ++i) {
          demand(!pieces[i].empty() && pieces[i].size() <= kMost);
          if (i != 0) all += pieces[i];
        }
        demand(join_pmi1(head, all) == text);
        (void)parse_pmi1_head(text);
      }
    }
  });
  return 0;
}
