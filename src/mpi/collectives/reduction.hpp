// What a reduction combines, and how, in the order of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "mpi/collectives/blocks.hpp"
#include "mpi/op.hpp"
#include "mpi/transfer.hpp"

namespace weft::mpi {

/// An operation over vectors of `count` elements. It is for what has come, and nothing else: a
/// program's function must not meet anything but the ranks' vectors, nor a result leave one out.
struct Reduction {
  const Op* op = nullptr;
  const Datatype* type = nullptr;
  MPI_Datatype handle = MPI_DATATYPE_NULL;  ///< for a program's function: what it gave
  MPI_Datatype spare = MPI_DATATYPE_NULL;  ///< the same type, where it may free that before the end
  int64_t count = 0;
  int64_t phase = 0;  ///< how a program's vectors lie in memory, for its function: for Scratch

  [[nodiscard]] int64_t bytes() const noexcept { return count * type->size(); }
  /// Elements lie between those that follow them, as columns of a matrix do, and may overlap them.
  [[nodiscard]] bool interlaces() const noexcept {
    return type->true_extent() > std::abs(type->extent());
  }
  /// Elements [first, first + some) of a vector.
  [[nodiscard]] Block part(const void* vector, int64_t first, int64_t some) const noexcept {
    return {element(vector, first), some, type};
  }
  [[nodiscard]] Block whole(const void* vector) const noexcept { return part(vector, 0, count); }
  [[nodiscard]] std::byte* element(const void* vector, int64_t index) const noexcept {
    return static_cast<std::byte*>(const_cast<void*>(vector)) + index * type->extent();
  }

  /// to = from op to: `from` is of lower ranks.
  void fold(const void* from, void* to, int64_t some) const {
    if (some != 0) mpi::reduce(*op, from, to, some, *type, usable_handle());
  }
  /// to = to op from: `from` is of higher ranks. Operations that commute only.
  void fold_higher(const void* from, void* to, int64_t some) const {
    if (some != 0) mpi::reduce_turned(*op, from, to, some, *type, usable_handle());
  }
  /// Combines `mine` with `other`, of lower or higher ranks. The result is in `mine`: the two may
  /// have changed places.
  void combine(std::byte*& mine, std::byte*& other, bool other_is_lower) const {
    if (other_is_lower) {
      fold(other, mine, count);
    } else if (op->commutative) {
      fold_higher(other, mine, count);
    } else {
      fold(mine, other, count);
      std::swap(mine, other);
    }
  }
  /// Elements that are combined far more slowly than they are copied: those that processors have no
  /// instructions for, or old ones, and pairs, whose loops cannot foresee what they find.
  [[nodiscard]] static bool is_slow(Element element) noexcept {
    switch (element) {
      case Element::f16:
      case Element::f80:
      case Element::f128:
      case Element::c16:
      case Element::c80:
      case Element::c128:
      case Element::pair:
        return true;
      default:
        return false;
    }
  }
  /// How a receive combines what comes of lower or higher ranks; without a loop: it cannot.
  [[nodiscard]] Combining combining(bool other_is_lower) const noexcept {
    const auto element = static_cast<std::size_t>(type->size());
    if (!type->contiguous() || element == 0 || kPieceUnit % element != 0 ||
        is_slow(type->element()))
      return {};
    return {.loop = loop_of(*op, *type, !other_is_lower), .element = element};
  }
  [[nodiscard]] MPI_Datatype usable_handle() const noexcept {
    return spare == MPI_DATATYPE_NULL || datatypes().find(handle) == type ? handle : spare;
  }
  /// The same for a part of a vector, which stays where it is; `other` is spoilt.
  void combine_part(std::byte* mine, std::byte* other, int64_t some, bool other_is_lower) const {
    if (other_is_lower) {
      fold(other, mine, some);
    } else if (op->commutative) {
      fold_higher(other, mine, some);
    } else {
      fold(mine, other, some);
      copy({other, some, type}, {mine, some, type});
    }
  }
};

}  // namespace weft::mpi
