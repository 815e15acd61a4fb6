// Cache-line sizes, padding, and the processor hints that waiting loops use.
#pragma once

#include <cstddef>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::base {

inline constexpr std::size_t kCacheLine = 64;

/// A value alone on its own cache line(s), so that writing it disturbs no neighbour.
template <class T>
struct alignas(kCacheLine) OwnLine {
  T value{};
  OwnLine() = default;
  template <class... A>
  explicit OwnLine(std::in_place_t, A&&... args) : value(std::forward<A>(args)...) {}
  T& operator*() noexcept { return value; }
  const T& operator*() const noexcept { return value; }
  T* operator->() noexcept { return &value; }
  const T* operator->() const noexcept { return &value; }
};
static_assert(sizeof(OwnLine<int>) == kCacheLine);

/// Tells the core that this is a waiting loop. No system call.
inline void cpu_relax() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Ends an empty look at a line that another core is about to write: nothing is executed ahead of
/// it. Otherwise a loop of looks runs ahead of itself, and all of that is thrown away and done
/// again when the line changes, just when it matters. A few cycles, unlike cpu_relax.
inline void settle() noexcept {
#if defined(__x86_64__)
  _mm_lfence();
#endif
}

/// Starts fetching the line at `p` for writing.
inline void prefetch_for_write(const void* p) noexcept {
#if defined(__x86_64__)
  // Compilers make the builtin a prefetch for reading unless told of a newer processor; older
  // ones take this instruction for a no-op.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1, 3);
#endif
}

}  // namespace weft::base
