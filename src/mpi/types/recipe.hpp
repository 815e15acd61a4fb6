// How a datatype was constructed: the arguments, for get_contents, and what they amount to.
#pragma once

#include <cstdint>
#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/datatype.hpp"
#include "mpi/handle.hpp"

namespace weft::mpi {

/// `copies` elements of a shape's inner type number `inner`, one after the other, from `offset` on.
struct Part {
  int64_t offset = 0;
  int64_t copies = 1;
  uint32_t inner = 0;
};

/// What is inside is repeated `count` times, `stride` bytes apart.
struct Repetition {
  int64_t count = 0;
  int64_t stride = 0;
};

/// What every constructor amounts to: the parts in order, all of them repeated by the loops, the
/// outermost first. The order is that of the type map.
struct Shape {
  std::vector<Repetition> loops;
  std::vector<Part> parts;
  std::vector<Held<Datatype>> inners;
};

/// Immutable. Shared by a type and its duplicates.
class TypeRecipe {
 public:
  int combiner = MPI_COMBINER_NAMED;
  /// Made by the large-count form: what would be integers and addresses are counts.
  bool large = false;
  std::vector<int> integers;
  std::vector<MPI_Aint> addresses;
  std::vector<MPI_Count> counts;
  std::vector<Held<Datatype>> types;  ///< as the program named them
  Shape shape;                        ///< empty for predefined types
};

}  // namespace weft::mpi
