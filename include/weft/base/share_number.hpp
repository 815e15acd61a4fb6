// The number by which shares of a resource are dealt out to those who use it.
#pragma once

#include "weft/base/thread_slot.hpp"

namespace weft::base {

/// Which share is the caller's: its thread's slot, or, where a room moves contexts between threads
/// (tasks), what that room says, so that a context keeps its share wherever it runs.
unsigned this_share_number() noexcept;

/// For such a room: the calling thread's contexts now use the share of that number.
void set_share_number(unsigned number) noexcept;

}  // namespace weft::base
