// A message's pieces become part of a result.
#include "mpi/messages/combining.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "weft/base/copy.hpp"

namespace weft::mpi {

namespace {

/// So many at once, that what is copied for the loop stays in the first-level cache.
constexpr std::size_t kStretch = 4096;

}  // namespace

void Combiner::take(std::span<const std::byte> piece) noexcept {
  // Where a message begins is the transport's choice; elements want to lie at their multiples.
  const bool lies_well = reinterpret_cast<uintptr_t>(piece.data()) % how_.element == 0;
  const std::byte* from = piece.data();
  const std::size_t at_once = base_ != nullptr || !lies_well ? kStretch : piece.size();
  for (std::size_t left = piece.size() / how_.element * how_.element; left != 0;) {
    const std::size_t bytes = std::min(left, at_once);
    if (base_ != nullptr) {
      base::copy_bytes(into_, base_, bytes);
      base_ += bytes;
    }
    const auto count = static_cast<int64_t>(bytes / how_.element);
    if (lies_well) {
      how_.loop(from, into_, count);
    } else {
      alignas(64) std::byte aside[kStretch];
      std::memcpy(aside, from, bytes);
      how_.loop(aside, into_, count);
    }
    into_ += bytes;
    from += bytes;
    left -= bytes;
  }
}

}  // namespace weft::mpi
