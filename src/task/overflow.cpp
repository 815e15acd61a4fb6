// The handler of faults: see overflow.hpp.
#include "task/overflow.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "task/scheduler_impl.hpp"
#include "task/switch.hpp"
#include "task/worker.hpp"

namespace weft::task {
namespace {

constexpr std::size_t kHandlerBytes = 64 << 10;
struct sigaction before_us;

/// In a handler: takes no memory.
void say_overflowed(const detail::Worker& worker, const Stack& stack) noexcept {
  const detail::Record* task = worker.running();
  // relaxed: its own.
  const char* name = task != nullptr ? task->name.load(std::memory_order_relaxed) : nullptr;
  char text[256];
  // Numbered as in dumps: by its home, wherever it runs.
  const auto end = fmt::format_to_n(
      text, sizeof text, "weft: task '{}' ({}.{}) overflowed its stack of {} KiB\n",
      name != nullptr ? name : "unnamed",
      task != nullptr ? task->home()->number() : worker.number(),
      task != nullptr ? task->index() : 0, (std::size_t{1} << stack.size_class) / 1024);
  (void)!::write(STDERR_FILENO, text, std::min(end.size, sizeof text));
}

/// Says which task it was, if it was one; then the fault takes its course.
void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  if (detail::Worker* worker = detail::Worker::current(); worker != nullptr) {
    if (Stack* stack = worker->scheduler().stacks.guarded_by(info->si_addr)) {
      say_overflowed(*worker, *stack);
    }
  }
  // What was there before us decides; without anything, the fault again, and the default. One that
  // was sent (kill, raise) does not come again by itself.
  if ((before_us.sa_flags & SA_SIGINFO) != 0 && before_us.sa_sigaction != nullptr) {
    before_us.sa_sigaction(signal, info, context);
    return;
  }
  ::sigaction(signal, &before_us, nullptr);
  if (info->si_code <= 0) (void)::raise(signal);
}

void install_once() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGSEGV, &action, &before_us);
  });
}

}  // namespace

OverflowHandler::OverflowHandler() : memory_(std::make_unique<char[]>(kHandlerBytes)) {
  install_once();
  stack_t apart{};
  apart.ss_sp = memory_.get();
  apart.ss_size = kHandlerBytes;
  ::sigaltstack(&apart, &before_);
}

OverflowHandler::~OverflowHandler() { ::sigaltstack(&before_, nullptr); }

void look_at_canary(const detail::Worker& worker, const Stack& stack) noexcept {
  if (!StackPool::overflowed(stack)) return;
  say_overflowed(worker, stack);
  std::abort();
}

void describe_native_stack(Stack& stack) noexcept {
  pthread_attr_t attributes;
  void* low = nullptr;
  std::size_t bytes = 0;
  if (::pthread_getattr_np(::pthread_self(), &attributes) == 0) {
    ::pthread_attr_getstack(&attributes, &low, &bytes);
    ::pthread_attr_destroy(&attributes);
  }
  stack.low = static_cast<char*>(low);
  stack.native_bytes = bytes;
#if defined(__SANITIZE_THREAD__)
  stack.tsan_fiber = __tsan_get_current_fiber();
#endif
}

}  // namespace weft::task
