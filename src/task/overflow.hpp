// A stack that overflows ends in a sentence: the handler of faults, on a stack of its own.
#pragma once

#include <signal.h>

#include <memory>

#include "task/stack.hpp"

namespace weft::task {

namespace detail {
class Worker;
}

/// If `stack`, on which the worker's running task runs, was written over at its end: ends the
/// program with the sentence that a fault in a guard would bring.
void look_at_canary(const detail::Worker& worker, const Stack& stack) noexcept;

/// While it exists, faults of the calling thread are handled on a stack apart, and those in a
/// task's guard name the task. The handler itself is the process's, installed once; other faults go
/// on to whoever had them before.
class OverflowHandler {
 public:
  OverflowHandler();
  ~OverflowHandler();
  OverflowHandler(const OverflowHandler&) = delete;
  OverflowHandler& operator=(const OverflowHandler&) = delete;

 private:
  std::unique_ptr<char[]> memory_;
  stack_t before_{};
};

/// Fills in the calling thread's own stack.
void describe_native_stack(Stack& stack) noexcept;

}  // namespace weft::task
