// Memory for what is under way: unexpected messages, packed copies, room of collectives.
#pragma once

#include <cstddef>

namespace weft::base {

// Large buffers that are given back are kept for the next ones, up to a bound for the process. The
// heap gives large memory back to the kernel soon, and the next buffer's pages are then made and
// zeroed anew, which takes longer than what they are for: of 64 KiB, 16 page faults and a copy.
//
// Any thread, at any time; what one took another may give back. Nothing waits: where another
// thread is at the kept buffers, it is the heap's turn. Under AddressSanitizer nothing is kept.

/// At least `bytes` (0 too) at a multiple of 16, large ones of 64. nullptr: there is no memory.
[[nodiscard]] std::byte* take_buffer(std::size_t bytes) noexcept;
/// `buffer` is from take_buffer, or nullptr.
void give_back_buffer(std::byte* buffer) noexcept;
/// Gives the heap all that is kept, but for lists that other threads are at.
void drop_kept_buffers() noexcept;
/// What is kept now, in bytes.
[[nodiscard]] std::size_t kept_buffer_bytes() noexcept;

/// For std::unique_ptr.
struct GiveBackBuffer {
  void operator()(std::byte* buffer) const noexcept { give_back_buffer(buffer); }
};

}  // namespace weft::base
