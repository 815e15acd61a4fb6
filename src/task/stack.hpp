// Stacks: carved out of large maps, guarded below, pooled by size.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"

namespace weft::task {

/// What of a thread's exception handling belongs to the stack that runs (the Itanium C++ ABI's
/// __cxa_eh_globals).
struct ExceptionState {
  void* caught = nullptr;
  unsigned int uncaught = 0;
  friend bool operator==(const ExceptionState&, const ExceptionState&) = default;
};

/// A stack, described at its own upper end, which is not the end of its memory: see kColors. It
/// always has a context to continue: a task's, or the
/// worker's loop (docs/design/tasks.md, "Stacks").
struct alignas(base::kCacheLine) Stack {
  void* context = nullptr;    ///< where to continue, while nobody runs on it
  ExceptionState exceptions;  ///< likewise
  char* low = nullptr;        ///< the lowest usable byte, above the guard
  uint32_t valgrind_id = 0;   ///< Valgrind's name for it
  uint8_t size_class = 0;     ///< 2^size_class bytes, guard and this description included
  bool has_canary = false;    ///< its lowest word is known, there is no guard
  union {
    Stack* next = nullptr;     ///< in a list
    std::size_t native_bytes;  ///< of a thread's own (class 0), which is in none
  };
  void* tsan_fiber = nullptr;       ///< ThreadSanitizer's name for it
  void* asan_fake_stack = nullptr;  ///< AddressSanitizer's, while nobody runs on it

  /// What a switch to it touches, about.
  void prefetch() const noexcept {
    const auto* const end = static_cast<const char*>(context);
    for (std::size_t line = 0; line < kTouched; ++line) {
      __builtin_prefetch(end + line * base::kCacheLine);
    }
  }
  static constexpr std::size_t kTouched = 10;

  [[nodiscard]] char* high() noexcept { return reinterpret_cast<char*>(this); }
  [[nodiscard]] std::size_t bytes() noexcept {
    return size_class == 0 ? native_bytes : static_cast<std::size_t>(high() - low);
  }
};
static_assert(sizeof(Stack) == base::kCacheLine);

/// How an overflow is met (weft-info says which).
enum class Guard : uint8_t {
  install,   ///< MADV_GUARD_INSTALL: a page that faults, no map of its own
  mprotect,  ///< a page without permission: a map each, so up to a configured number of stacks
  canary,    ///< a known word at the low end, looked at when its task waits, yields or ends
};
std::string_view to_string(Guard guard) noexcept;
/// What task.guards says; `automatic`: the best that the kernel has. Error(bad_config): it has not
/// what was asked for.
Guard configured_guard();

/// Purpose: stacks of 2^14 to 2^30 bytes, given out and taken back. Owner: the scheduler; unmapped
/// at its end, unless `keep` was called. Who may call: any thread. Progress: a short lock; maps
/// memory when it has none.
class StackPool {
 public:
  static constexpr uint32_t kSmallest = 14;
  static constexpr uint32_t kLargest = 30;

  /// `start` makes a new stack's first context. `mprotect_guards`: at most so many of those.
  StackPool(Guard guard, uint32_t mprotect_guards, void (*start)(Stack&)) noexcept
      : kind_(guard), guards_left_(guard == Guard::mprotect ? mprotect_guards : 0), start_(start) {}
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// nullptr: no memory.
  Stack* take(uint32_t size_class) noexcept;
  void give(Stack& stack) noexcept;
  /// Tasks are left in the middle: on their stacks lie links of what they wait for, which may be
  /// told yet. So the stacks stay. By the last caller.
  void keep() noexcept { maps_.clear(); }
  /// The stack that has `address` in its guard, or nullptr. For the handler of faults.
  Stack* guarded_by(const void* address) noexcept;
  [[nodiscard]] uint64_t made() const noexcept { return made_.load(std::memory_order_relaxed); }

  static uint32_t class_of(std::size_t bytes) noexcept {
    const auto width = static_cast<uint32_t>(std::bit_width(bytes - 1));
    return width < kSmallest ? kSmallest : width;
  }
  /// A stack without a guard page was written over at its low end.
  static bool overflowed(const Stack& stack) noexcept;
  /// Ends the program if it was.
  static void check(const Stack& stack) noexcept;

 private:
  struct Map {
    char* address;
    std::size_t bytes;
    uint32_t size_class;
    std::size_t carved;
    std::size_t guarded;  ///< so far, guards are installed ahead of carving
  };
  /// Stacks are used near their ends alone. Were all ends at the same place of a page, they would
  /// share a few sets of the caches; so neighbours end a cache line apart.
  static constexpr std::size_t kColors = 32;
  /// The description of the stack in the memory from `low`.
  static Stack* stack_in(char* low, uint32_t size_class) noexcept {
    const std::size_t color = (reinterpret_cast<uintptr_t>(low) >> size_class) % kColors;
    char* const end = low + (std::size_t{1} << size_class) - color * base::kCacheLine;
    return reinterpret_cast<Stack*>(end - sizeof(Stack));
  }
  bool map_more(uint32_t size_class) noexcept;
  Stack* carve(Map& map) noexcept;
  bool guard(char* page) noexcept;
  void guard_ahead(Map& map) noexcept;

  base::SpinLock lock_;
  std::array<Stack*, kLargest + 1> free_ = {};
  std::array<int, kLargest + 1> open_map_ = {};  ///< index + 1 of the map still to be carved
  std::vector<Map> maps_;
  const Guard kind_;
  uint32_t guards_left_;
  bool guards_ahead_ = true;  ///< until the kernel would not
  void (*start_)(Stack&);
  std::atomic<uint64_t> made_{0};
};

}  // namespace weft::task
