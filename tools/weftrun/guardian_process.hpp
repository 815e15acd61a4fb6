// The guardian's own life, after the fork.
#pragma once

#include "weftrun/guardian.hpp"

namespace weft::run {

/// The guardian's main function; ends the process.
[[noreturn]] void run_guardian(GuardPlan plan, Fd socket);

}  // namespace weft::run
