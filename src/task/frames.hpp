// The calls that a suspended stack is in the middle of, and where they begin.
#pragma once

#include "task/stack.hpp"

namespace weft::task {

/// Writes the return addresses of the calls on `stack`, innermost first, at most `most`; how many.
/// The stack must not be run meanwhile: the caller holds what keeps its task from being claimed.
/// Follows frame pointers, each of which must lie on the stack, above the last; functions that were
/// built without one are left out, or end it. 0 where the layout of a saved context is not known.
unsigned calls_on(Stack& stack, void** into, unsigned most) noexcept;

/// First thing in the function that a stack begins with, which never returns: nobody called it. Who
/// walks frames by their pointers (perf), or by what compilers tell of them (debuggers,
/// exceptions), ends there, instead of in what Boost.Context left in the registers.
[[gnu::always_inline]] inline void begin_frames() noexcept {
#if defined(__x86_64__) && defined(__ELF__)
  auto* const frame = static_cast<void* volatile*>(__builtin_frame_address(0));
  frame[0] = nullptr;  // the caller's frame
  frame[1] = nullptr;  // where it would go on
#endif
}

}  // namespace weft::task
