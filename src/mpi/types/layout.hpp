// Where the bytes of a type lie, as few blocks and loops as it takes: what packing runs on.
//
//   struct of two vectors          items ── Layout{offset, loops, core: block}
//                                       └── Layout{offset, loops, core: block}
//   vector of vectors              loops {n, s}{m, t} around one block
//   indexed of contiguous          a list of blocks
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/datatype.hpp"

namespace weft::mpi {

/// A contiguous run of bytes in a list; `at`: where it begins in the packed form.
struct Run {
  int64_t offset;
  int64_t length;
  int64_t at;
};

/// A loop around something whose packed form has `bytes`.
struct Loop {
  int64_t count;
  int64_t stride;
  int64_t bytes;
};

struct Layout;

/// A layout in a list.
struct Item {
  int64_t offset;
  int64_t at;
  std::shared_ptr<const Layout> layout;
};

/// What the innermost loop goes around. Immutable, shared.
struct Core {
  enum class Kind : uint8_t { block, blocks, items };
  Kind kind = Kind::block;
  int64_t length = 0;  ///< block: its bytes; blocks: that of each, or 0 where they differ
  std::vector<Run> blocks;
  std::vector<Item> items;
};

/// Loops around a core, the outermost first. `bytes` of packed form; 0: empty, no core.
struct Layout {
  int64_t offset = 0;
  int64_t bytes = 0;
  std::vector<Loop> loops;
  std::shared_ptr<const Core> core;

  [[nodiscard]] bool is_block() const noexcept {
    return loops.empty() && core != nullptr && core->kind == Core::Kind::block;
  }
};

/// The layout of one element of a type.
[[nodiscard]] Layout compile(const Datatype& type);

}  // namespace weft::mpi
