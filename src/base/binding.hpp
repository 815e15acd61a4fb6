// What topology and binding share, and what tests look at.
#pragma once

#include <cstddef>

namespace weft::base {

/// The made-up processor that the calling thread was bound to under a faked topology; -1: none.
int faked_binding() noexcept;

/// Asks the system to prefer its memory node `os_index` for the pages that the range touches.
bool prefer_system_node(void* address, std::size_t bytes, int os_index) noexcept;

}  // namespace weft::base
