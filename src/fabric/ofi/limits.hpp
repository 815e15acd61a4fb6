// What the limits that a process runs under may have to do with a failure, for its message.
#pragma once

#include <string>

namespace weft::fabric::ofi {

/// Empty while the process may open some more files; else a remark that names the limit.
std::string files_remark();
/// Empty where its address space has no limit; else a remark that names it.
std::string memory_remark();
/// Empty where it may lock as much memory as it likes; else a remark that names the limit.
std::string locked_memory_remark();

}  // namespace weft::fabric::ofi
