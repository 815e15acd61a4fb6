// The calls that a suspended stack is in the middle of.
#pragma once

#include "task/stack.hpp"

namespace weft::task {

/// Writes the return addresses of the calls on `stack`, innermost first, at most `most`; how many.
/// The stack must not be run meanwhile: the caller holds what keeps its task from being claimed.
/// Follows frame pointers, each of which must lie on the stack, above the last; functions that were
/// built without one are left out, or end it. 0 where the layout of a saved context is not known.
unsigned calls_on(Stack& stack, void** into, unsigned most) noexcept;

}  // namespace weft::task
