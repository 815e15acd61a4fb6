// Copies between blocks of unlike layout, and room for elements.
#include "mpi/collectives/blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "mpi/failure.hpp"
#include "weft/base/copy.hpp"

namespace weft::mpi {
namespace {

/// Both have holes: through a small window in packed form.
void copy_through(const Block& from, const Block& to, int64_t bytes) {
  std::byte window[4096];
  for (int64_t at = 0; at < bytes;) {
    const int64_t step = std::min<int64_t>(bytes - at, sizeof window);
    from.type->pack(from.at, from.count, at, {window, static_cast<std::size_t>(step)});
    to.type->unpack(to.at, to.count, at, {window, static_cast<std::size_t>(step)});
    at += step;
  }
}

/// Of blocks that overlap, too, which an erroneous program may give.
void copy_plain(const std::byte* from, std::byte* to, std::size_t size) {
  const auto source = reinterpret_cast<uintptr_t>(from);
  const auto target = reinterpret_cast<uintptr_t>(to);
  if (std::max(source, target) - std::min(source, target) >= size) {
    base::copy_bytes(to, from, size);
  } else if (from != to) {
    std::memmove(to, from, size);
  }
}

}  // namespace

void copy(const Block& from, const Block& to) {
  const int64_t bytes = from.bytes();
  if (bytes == 0) return;
  if (bytes > to.bytes()) {
    fail(MPI_ERR_TRUNCATE, "what this rank gives itself in a collective is larger than its room");
  }
  const auto size = static_cast<std::size_t>(bytes);
  if (from.type->contiguous() && to.type->contiguous()) {
    copy_plain(from.at, to.at, size);
  } else if (from.type->contiguous()) {
    to.type->unpack(to.at, to.count, 0, {from.at, size});
  } else if (to.type->contiguous()) {
    from.type->pack(from.at, from.count, 0, {to.at, size});
  } else {
    copy_through(from, to, bytes);
  }
}

std::byte* Scratch::elements(int64_t count, const Datatype& type, int64_t phase) {
  if (count == 0) return small_;
  const int64_t last = (count - 1) * type.extent();
  const int64_t low = std::min<int64_t>(0, last) + type.true_lower_bound();
  const int64_t high = std::max<int64_t>(0, last) + type.true_lower_bound() + type.true_extent();
  // Bytes in front that nothing uses: bytes() begins at a multiple of kAlignment.
  const int64_t before = (low + phase) & (kAlignment - 1);
  // As a number: of types with absolute displacements no pointer may be so far away.
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(bytes(high - low + before)) +
                                      static_cast<uintptr_t>(before - low));
}

}  // namespace weft::mpi
