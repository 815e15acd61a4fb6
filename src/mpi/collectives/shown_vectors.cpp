// Vectors that were shown on a board, taken from there and combined as messages would have done it.
#include "mpi/collectives/shown_vectors.hpp"

#include <span>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/halving.hpp"
#include "mpi/collectives/node_board.hpp"
#include "mpi/collectives/settings.hpp"

namespace weft::mpi {
namespace {

/// Whether an operation takes the vector as it was shown.
bool lies_packed(const Reduction& reduction) noexcept {
  return reduction.type->contiguous() && reduction.op->predefined;
}

void fold(std::byte* const* vectors, int to, int from, const Reduction& reduction) {
  reduction.combine_part(vectors[to], vectors[from], reduction.count, false);
}

/// `rest` pairs first; then neighbours, then every second with the next second …
void fold_pairs(const Team& team, int rest, const Reduction& reduction, std::byte* const* vectors) {
  for (int i = 0; i < rest; ++i) fold(vectors, 2 * i, 2 * i + 1, reduction);
  const int numbers = team.size - rest;
  const auto place = [rest](int number) { return number < rest ? 2 * number : number + rest; };
  for (int distance = 1; distance < numbers; distance *= 2) {
    for (int i = 0; i + distance < numbers; i += 2 * distance) {
      fold(vectors, place(i), place(i + distance), reduction);
    }
  }
}

}  // namespace

void fold_as_all_reduce(const Team& team, const Reduction& reduction, std::byte* const* vectors) {
  fold_pairs(team, Pairing(team).rest, reduction, vectors);
}

void fold_as_reduce(const Team& team, int64_t bytes, const Reduction& reduction,
                    std::byte* const* vectors) {
  const ReduceBy by = choices().reduce;
  const bool straight =
      by == ReduceBy::linear || (by == ReduceBy::automatic && goes_straight(team, bytes));
  if (straight && reduction.type->contiguous()) {  // reduce_straight
    for (int i = 1; i < team.size; ++i) fold(vectors, 0, i, reduction);
    return;
  }
  // reduce_halving, or else reduce_tree.
  fold_pairs(team, by == ReduceBy::rabenseifner ? Pairing(team).rest : 0, reduction, vectors);
}

ShownVectors::ShownVectors(const Team& team, const Reduction& reduction, const void* own,
                           int64_t first, int64_t of) {
  const int64_t element = reduction.type->size();
  const auto begin = static_cast<std::size_t>(first * element);
  const auto bytes = static_cast<std::size_t>(reduction.bytes());
  const bool packed = lies_packed(reduction);
  constexpr std::size_t kUnit = Scratch::kAlignment;
  const std::size_t stride = (bytes + kUnit - 1) / kUnit * kUnit;
  if (!packed) rooms_ = std::make_unique<Scratch[]>(static_cast<std::size_t>(team.size));
  for (int rank = 0; rank < team.size; ++rank) {
    const auto i = static_cast<std::size_t>(rank);
    vectors_[i] = packed ? room_ + i * stride
                         : rooms_[i].elements(reduction.count, *reduction.type, reduction.phase);
    if (rank == team.rank) {
      copy(reduction.whole(own), reduction.whole(vectors_[i]));
      continue;
    }
    const std::span<const std::byte> shown = team.board->shown_by(rank);
    if (static_cast<int64_t>(shown.size()) != of * element) {
      trouble_.note(MPI_ERR_TRUNCATE, team.comm->process(rank));
    } else {
      reduction.type->unpack(vectors_[i], reduction.count, 0, shown.subspan(begin, bytes));
    }
  }
}

Trouble combine_of_two(const Team& team, const Reduction& reduction, const void* own, void* to,
                       bool theirs_first) {
  const int other = 1 - team.rank;
  const std::span<const std::byte> shown = team.board->shown_by(other);
  if (static_cast<int64_t>(shown.size()) != reduction.bytes()) {
    Trouble trouble;
    trouble.note(MPI_ERR_TRUNCATE, team.comm->process(other));
    return trouble;
  }
  Scratch room;
  const auto lay_out = [&](void* at) { reduction.type->unpack(at, reduction.count, 0, shown); };
  const auto lay_aside = [&] {
    std::byte* const at = room.elements(reduction.count, *reduction.type, reduction.phase);
    lay_out(at);
    return at;
  };
  if (theirs_first) {
    const std::byte* const theirs = lies_packed(reduction) ? shown.data() : lay_aside();
    if (own != to) copy(reduction.whole(own), reduction.whole(to));
    reduction.fold(theirs, to, reduction.count);
  } else if (own != to) {
    lay_out(to);
    reduction.fold(own, to, reduction.count);
  } else {
    std::byte* const result = lay_aside();
    reduction.fold(own, result, reduction.count);
    copy(reduction.whole(result), reduction.whole(to));
  }
  return {};
}

}  // namespace weft::mpi
