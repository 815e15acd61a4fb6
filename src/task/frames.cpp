#include "task/frames.hpp"

#include <cstdint>
#include <cstring>

#include "task/context.hpp"

namespace weft::task {

#if WEFT_OWN_SWITCH
namespace {

/// Not by the sanitizers' rules: it is others' frames that are read here.
__attribute__((no_sanitize("address", "thread", "undefined"))) uintptr_t word_at(
    uintptr_t at) noexcept {
  return *reinterpret_cast<const volatile uintptr_t*>(at);
}

}  // namespace

unsigned calls_on(Stack& stack, void** into, unsigned most) noexcept {
  const auto context = reinterpret_cast<uintptr_t>(stack.context);
  const auto low = reinterpret_cast<uintptr_t>(stack.low);
  const auto high = reinterpret_cast<uintptr_t>(stack.high());
  if (context < low || context + kSavedBytes > high || most == 0) return 0;
  unsigned count = 0;
  into[count++] = reinterpret_cast<void*>(word_at(context + kReturnAddress));
  uintptr_t below = context + kSavedBytes;  // frames lie above it
  uintptr_t frame = word_at(context + kSavedFramePointer);
  while (count < most && frame >= below && frame % sizeof(uintptr_t) == 0 &&
         frame <= high - 2 * sizeof(uintptr_t)) {
    const uintptr_t caller = word_at(frame + sizeof(uintptr_t));
    if (caller == 0) break;
    into[count++] = reinterpret_cast<void*>(caller);
    below = frame + 2 * sizeof(uintptr_t);
    frame = word_at(frame);
  }
  return count;
}
#else
unsigned calls_on(Stack& /*stack*/, void** /*into*/, unsigned /*most*/) noexcept { return 0; }
#endif

}  // namespace weft::task
