// Cross-memory attach: one copy between two processes' ordinary memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "weft/base/error.hpp"

namespace weft::fabric {

/// Lets peers attach to this process where Yama would restrict them to its ancestors.
void permit_cross_memory() noexcept;

/// Reads the word at `address` of process `pid`, expecting `word`; empty if that worked, else the
/// reason in words.
std::string probe_cross_memory(int64_t pid, uint64_t address, uint64_t word) noexcept;

/// Whole copies: partial transfers are continued. ok, peer_died, no_permission, no_memory,
/// bad_memory (see last_missing), or bad_argument.
Errc cross_read(int64_t pid, uint64_t address, std::span<std::byte> local) noexcept;
Errc cross_write(int64_t pid, uint64_t address, std::span<const std::byte> local) noexcept;

/// Where there was none, and whose it would be: of the calling thread's last copy that answered
/// bad_memory.
std::string last_missing();

/// The first byte of this process' memory there that the kernel cannot read for another; nullptr:
/// it can read all.
const std::byte* first_unreadable(std::span<const std::byte> memory) noexcept;

}  // namespace weft::fabric
