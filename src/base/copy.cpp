// The copy loop that replaces `rep movsb` where that is slow.
#include "weft/base/copy.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace weft::base {
namespace {

#if defined(__x86_64__)

constexpr std::size_t kVector = sizeof(__m256i);
constexpr std::size_t kTurn = 4 * kVector;
static_assert(kLongCopyBytes > kVector + kTurn);

/// From here on the C library takes vectors, too (the second-level cache, of Zen 4 this size), and
/// past the caches what is far larger.
constexpr std::size_t kLongestCopy = std::size_t{1} << 20;

bool copies_by_vectors() noexcept {
#if defined(__SANITIZE_THREAD__)
  return false;  // every vector would be looked at by itself, or by clang not at all
#else
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2");
#endif
}

// False until it is initialized, which is right, too.
const bool g_by_vectors = copies_by_vectors();

[[gnu::target("avx2")]] inline __m256i load(const std::byte* from) noexcept {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from));
}
[[gnu::target("avx2")]] inline void store(std::byte* to, __m256i bytes) noexcept {
  _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(to), bytes);
}
[[gnu::target("avx2")]] inline void stream(std::byte* to, __m256i bytes) noexcept {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), bytes);
}

}  // namespace

// Stores of whole vectors never cross a line but at both ends.
[[gnu::target("avx2")]] void detail::copy_by_vectors(std::byte* to, const std::byte* from,
                                                     std::size_t n) noexcept {
  const std::byte* const last = from + n - kTurn;
  std::byte* const last_to = to + n - kTurn;
  store(to, load(from));
  const std::size_t skipped = kVector - reinterpret_cast<uintptr_t>(to) % kVector;
  to += skipped;
  from += skipped;
  for (; from < last; from += kTurn, to += kTurn) {
    const __m256i first = load(from);
    const __m256i second = load(from + kVector);
    const __m256i third = load(from + 2 * kVector);
    const __m256i fourth = load(from + 3 * kVector);
    store(to, first);
    store(to + kVector, second);
    store(to + 2 * kVector, third);
    store(to + 3 * kVector, fourth);
  }
  // What is left, and some of what is there already.
  for (std::size_t i = 0; i < kTurn; i += kVector) store(last_to + i, load(last + i));
}

// Lines are written whole, but for both ends, each at once.
[[gnu::target("avx2")]] void detail::copy_nontemporal(std::byte* to, const std::byte* from,
                                                      std::size_t n) noexcept {
  constexpr std::size_t kLine = 64;
  const std::size_t before = -reinterpret_cast<uintptr_t>(to) % kLine;
  std::memcpy(to, from, before);
  to += before;
  from += before;
  n -= before;
  for (; n >= kTurn; n -= kTurn, to += kTurn, from += kTurn) {
    const __m256i first = load(from);
    const __m256i second = load(from + kVector);
    const __m256i third = load(from + 2 * kVector);
    const __m256i fourth = load(from + 3 * kVector);
    stream(to, first);
    stream(to + kVector, second);
    stream(to + 2 * kVector, third);
    stream(to + 3 * kVector, fourth);
  }
  for (; n >= kLine; n -= kLine, to += kLine, from += kLine) {
    const __m256i first = load(from);
    const __m256i second = load(from + kVector);
    stream(to, first);
    stream(to + kVector, second);
  }
  std::memcpy(to, from, n);
  // These stores are not ordered by a release store that follows.
  _mm_sfence();
}

#else

}  // namespace

#endif

void detail::copy_long(std::byte* to, const std::byte* from, std::size_t n) noexcept {
#if defined(__x86_64__)
  if (g_by_vectors && n < kLongestCopy) return copy_by_vectors(to, from, n);
#endif
  std::memcpy(to, from, n);
}

bool has_nontemporal_copies() noexcept {
#if defined(__x86_64__)
  return g_by_vectors;
#else
  return false;
#endif
}

void copy_bytes_nontemporal(void* to, const void* from, std::size_t n) noexcept {
#if defined(__x86_64__)
  if (g_by_vectors && n >= kLongCopyBytes)
    return detail::copy_nontemporal(static_cast<std::byte*>(to),
                                    static_cast<const std::byte*>(from), n);
#endif
  copy_bytes(to, from, n);
}

}  // namespace weft::base
