// Switching from one stack to another, with what sanitizers and Valgrind need to know.
#pragma once

#include "task/context.hpp"
#include "task/stack.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif
#if defined(WEFT_VALGRIND)
#include <valgrind/valgrind.h>
#endif

namespace weft::task {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#else
inline constexpr bool kThreadSanitized = false;
#endif

/// Whether Valgrind runs this program, and weft was built where its headers are.
inline bool under_valgrind() noexcept {
#if defined(WEFT_VALGRIND)
  return RUNNING_ON_VALGRIND != 0;
#else
  return false;
#endif
}

/// The context of `stack` is to call `entry` with its first arrival.
inline void prepare(Stack& stack, void (*entry)(Arrival)) noexcept {
  stack.context = make_context(stack.high(), stack.bytes(), entry);
#if defined(__SANITIZE_THREAD__)
  stack.tsan_fiber = __tsan_create_fiber(0);
#endif
#if defined(WEFT_VALGRIND)
  stack.valgrind_id = static_cast<uint32_t>(VALGRIND_STACK_REGISTER(stack.low, stack.high()));
#endif
}

inline void forget([[maybe_unused]] Stack& stack) noexcept {
#if defined(__SANITIZE_THREAD__)
  if (stack.tsan_fiber != nullptr) __tsan_destroy_fiber(stack.tsan_fiber);
#endif
#if defined(WEFT_VALGRIND)
  VALGRIND_STACK_DEREGISTER(stack.valgrind_id);
#endif
}

/// No frame of a task lives in this memory any more: whoever maps the addresses next finds no
/// marks.
inline void forget_frames([[maybe_unused]] const void* memory,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
#endif
}

/// Leaves `from` for `to`. Returns when somebody comes back. The caller saves the context of the
/// stack that the arrival came from; what it brings is the worker that made the switch (invariant 7
/// of docs/design/tasks.md).
inline Arrival jump([[maybe_unused]] Stack& from, Stack& to, void* worker) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&from.asan_fake_stack, to.low, to.bytes());
#endif
#if defined(__SANITIZE_THREAD__)
  // 0: what came before the switch happens before what comes after it.
  __tsan_switch_to_fiber(to.tsan_fiber, 0);
#endif
  return switch_context(to.context, worker);
}

/// First thing after a switch to `here`.
inline void arrived([[maybe_unused]] Stack& here) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(here.asan_fake_stack, nullptr, nullptr);
#endif
}

}  // namespace weft::task
