// Elements that are combined as they come (Combining in mpi/transfer.hpp).
#pragma once

#include <cstddef>
#include <span>

#include "mpi/transfer.hpp"
#include "weft/comm/matcher.hpp"

namespace weft::mpi {

/// Combines the pieces of one message, in order, with what lies where they belong. What is not a
/// whole element at the end is left out. The caller's stack; not thread-safe.
class Combiner final : public PieceTaker {
 public:
  Combiner(const Combining& how, std::byte* into) noexcept
      : how_(how), base_(how.base), into_(into) {}
  void take(std::span<const std::byte> piece) noexcept override;

 private:
  void combine(std::span<const std::byte> elements) noexcept;

  const Combining& how_;
  const std::byte* base_;
  std::byte* into_;
};

}  // namespace weft::mpi
