// Whether this is a forked child, for those who cannot afford a system call to know.
#pragma once

#include <atomic>
#include <cstdint>

namespace weft::base {

namespace detail {
inline constinit std::atomic<uint32_t> forks{0};
}

/// Forks between the process that first called this and the calling one: another number than an
/// object was made with says that the object is a parent's. Thread-safe.
uint32_t count_forks() noexcept;
/// The same, for those who have called it. relaxed: who looks is of the one thread that a child
/// has, or was made by it.
inline uint32_t forks_so_far() noexcept { return detail::forks.load(std::memory_order_relaxed); }

}  // namespace weft::base
