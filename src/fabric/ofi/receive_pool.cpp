#include "fabric/ofi/receive_pool.hpp"

#include <fmt/format.h>

#include <array>

#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::ofi {

namespace {

/// Those whose buffers for several messages have been looked at: no gaps between messages, and the
/// last one says that it is the last. Others may align what comes.
constexpr std::array<std::string_view, 3> kMultiReceiveProviders = {"net", "tcp", "tcp;ofi_rxm"};

}  // namespace

ReceiveStrategy configured_receive_strategy() {
  register_fabric_config();
  const std::string name = base::config_text("fabric.ofi.receive");
  if (name == "multi") return ReceiveStrategy::multi;
  return name == "sized" ? ReceiveStrategy::sized : ReceiveStrategy::single;
}

std::string_view name_of(ReceiveStrategy strategy) noexcept {
  switch (strategy) {
    case ReceiveStrategy::single:
      return "single";
    case ReceiveStrategy::multi:
      return "multi";
    case ReceiveStrategy::sized:
      break;
  }
  return "sized";
}

uint64_t capabilities_for(ReceiveStrategy strategy) noexcept {
  switch (strategy) {
    case ReceiveStrategy::single:
      return 0;
    case ReceiveStrategy::multi:
      return FI_MULTI_RECV;
    case ReceiveStrategy::sized:
      break;
  }
  return FI_TAGGED;
}

void check_receive_strategy(ReceiveStrategy strategy, std::string_view provider) {
  if (strategy != ReceiveStrategy::multi) return;
  std::string known;
  for (const std::string_view one : kMultiReceiveProviders) {
    if (one == provider) return;
    known += known.empty() ? "" : ", ";
    known += one;
  }
  throw Error(Errc::bad_config,
              fmt::format("fabric.ofi.receive is 'multi', which takes a provider that is known to "
                          "lay messages one right after the other; '{}' is not, but {} are",
                          provider, known));
}

std::unique_ptr<ReceivePool> make_receive_pool(Endpoint& endpoint, const ReceiveSetup& setup) {
  switch (setup.strategy) {
    case ReceiveStrategy::single:
      return make_single_receives(endpoint, setup);
    case ReceiveStrategy::multi:
      return make_multi_receives(endpoint, setup);
    case ReceiveStrategy::sized:
      break;
  }
  return make_sized_receives(endpoint, setup);
}

}  // namespace weft::fabric::ofi
