// Walks the type map of buffers, for what depends on each basic element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/datatype.hpp"
#include "mpi/types/recipe.hpp"

namespace weft::mpi {

namespace walking {

template <class Leaf>
void elements(const Datatype& type, uintptr_t address, int64_t count, Leaf& leaf);

template <class Leaf>
void loops(const Shape& shape, std::size_t level, uintptr_t address, Leaf& leaf) {
  if (level == shape.loops.size()) {
    for (const Part& part : shape.parts) {
      elements(*shape.inners[part.inner], address + static_cast<uintptr_t>(part.offset),
               part.copies, leaf);
    }
    return;
  }
  for (int64_t i = 0; i < shape.loops[level].count; ++i) {
    loops(shape, level + 1, address + static_cast<uintptr_t>(i * shape.loops[level].stride), leaf);
  }
}

template <class Leaf>
void elements(const Datatype& type, uintptr_t address, int64_t count, Leaf& leaf) {
  if (type.size() == 0 || count == 0) return;
  if (type.predefined()) {
    leaf(type, address, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    loops(type.recipe->shape, 0, address + static_cast<uintptr_t>(i * type.extent()), leaf);
  }
}

}  // namespace walking

/// Calls `leaf(basic type, address, copies)` for the runs of basic elements in the order of the
/// type map; copies lie the basic type's extent apart. Not for hot paths.
template <class Leaf>
void walk(const Datatype& type, const void* buffer, int64_t count, Leaf leaf) {
  walking::elements(type, reinterpret_cast<uintptr_t>(buffer), count, leaf);
}

}  // namespace weft::mpi
