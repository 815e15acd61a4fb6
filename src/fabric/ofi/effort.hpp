// How much an engine does of one thing before it turns to the next: the "restrained effort" of 001
// §6.3.3, where a thread that sends all there is leaves what comes lying meanwhile, and the other
// way round.
#pragma once

#include <cstdint>
#include <limits>

namespace weft::fabric::ofi {

/// Caps, by configuration. What is left over is done in the next steps.
struct Effort {
  static constexpr uint32_t kAll = std::numeric_limits<uint32_t>::max();

  uint32_t receives = 64;     ///< completions that a step reads (fabric.ofi.step_receives)
  uint32_t sends = kAll;      ///< messages handed over between two receives (step_sends)
  uint32_t under_way = kAll;  ///< that the provider has in its hands, and still to tell (under_way)
};

}  // namespace weft::fabric::ofi
