// Copying the bytes of messages.
#pragma once

#include <cstddef>
#include <cstring>

namespace weft::base {

/// From here on copy_bytes may take another way than the C library.
constexpr std::size_t kLongCopyBytes = 2048;

namespace detail {
void copy_long(std::byte* to, const std::byte* from, std::size_t n) noexcept;
#if defined(__x86_64__)
/// n of kLongCopyBytes at least, on a processor with AVX2.
void copy_by_vectors(std::byte* to, const std::byte* from, std::size_t n) noexcept;
void copy_nontemporal(std::byte* to, const std::byte* from, std::size_t n) noexcept;
#endif
}  // namespace detail

/// std::memcpy, which of no bytes may be given null pointers, for what is long and mostly comes
/// from another core, or goes to one. On AMD's processors with AVX2, 2 KiB to 1 MiB are copied by
/// vectors: the C library (glibc before 2.40) does it by `rep movsb` there, from Zen 3 on, which is
/// slow by five to ten times where the two addresses are at unlike places of their cache lines, as
/// a packet and what malloc gives are (docs/design/copies.md). Any thread.
inline void copy_bytes(void* to, const void* from, std::size_t n) noexcept {
  if (n >= kLongCopyBytes) {
    detail::copy_long(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), n);
  } else if (n != 0) {
    std::memcpy(to, from, n);
  }
}

/// Whether copy_bytes_nontemporal is anything else than copy_bytes: on AMD's processors with AVX2.
[[nodiscard]] bool has_nontemporal_copies() noexcept;

/// The same by stores that go past the caches, but for what is shorter than kLongCopyBytes and what
/// is less than a line at the ends: nobody's cache is asked for the lines first, nor has them
/// afterwards. For what another core will read that is far from this one. As visible as other
/// stores when it returns. Any thread.
void copy_bytes_nontemporal(void* to, const void* from, std::size_t n) noexcept;

}  // namespace weft::base
