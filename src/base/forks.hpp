// Whether this is a forked child, for those who cannot afford a system call to know.
#pragma once

#include <cstdint>

namespace weft::base {

/// Forks between the process that first asked and this one: another number than an object was made
/// with says that the object is a parent's. Thread-safe.
uint32_t forks_so_far() noexcept;

}  // namespace weft::base
