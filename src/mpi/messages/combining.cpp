// A message's pieces become part of a result.
#include "mpi/messages/combining.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weft::mpi {

namespace {

/// So many at once, that what is copied for the loop stays in the first-level cache.
constexpr std::size_t kStretch = 4096;

}  // namespace

void Combiner::take(std::span<const std::byte> piece) noexcept {
  const std::size_t element = how_.element;
  piece = piece.first(piece.size() / element * element);
  // Where a message begins is the transport's choice; elements want to lie at their multiples.
  if (reinterpret_cast<uintptr_t>(piece.data()) % element == 0) {
    combine(piece);
    return;
  }
  while (!piece.empty()) {
    alignas(64) std::byte aside[kStretch];
    const std::size_t bytes = std::min(piece.size(), kStretch);
    std::memcpy(aside, piece.data(), bytes);
    combine({aside, bytes});
    piece = piece.subspan(bytes);
  }
}

void Combiner::combine(std::span<const std::byte> elements) noexcept {
  how_.loop(elements.data(), base_ != nullptr ? base_ : into_, into_,
            static_cast<int64_t>(elements.size() / how_.element));
  if (base_ != nullptr) base_ += elements.size();
  into_ += elements.size();
}

}  // namespace weft::mpi
