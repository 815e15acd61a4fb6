// The loops of predefined operations, found by operation and element.
#pragma once

#include <cstdint>

#include "mpi/abi/mpi.h"
#include "mpi/datatype.hpp"
#include "mpi/op.hpp"

namespace weft::mpi {

/// The predefined operations; a dense number for each, for tables.
enum class Operation : uint8_t {
  sum,
  min,
  max,
  prod,
  band,
  bor,
  bxor,
  land,
  lor,
  lxor,
  minloc,
  maxloc,
  replace,
  no_op
};
inline constexpr std::size_t kOperations = static_cast<std::size_t>(Operation::no_op) + 1;

/// nullptr where the operation has no meaning for the element. Whether MPI allows it for the type
/// says check_op.
[[nodiscard]] ReduceLoop arithmetic_loop(Operation operation, Element element) noexcept;
[[nodiscard]] ReduceLoop order_loop(Operation operation, Element element) noexcept;
/// inout[i] = inout[i] op in[i], where that may be other bits: what is equal need not be the same.
/// Else nullptr.
[[nodiscard]] ReduceLoop turned_loop(Operation operation, Element element) noexcept;
[[nodiscard]] ReduceLoop bit_loop(Operation operation, Element element) noexcept;
[[nodiscard]] ReduceLoop logical_loop(Operation operation, Element element) noexcept;
/// `turned`: as turned_loop.
[[nodiscard]] ReduceLoop location_loop(Operation operation, Element value, Element index,
                                       bool turned = false) noexcept;

/// The loop over elements of type T that `Function` combines.
template <class T, class Function>
void reduce_loop(const void* in, void* inout, int64_t count) {
  const T* __restrict a = static_cast<const T*>(in);
  T* __restrict b = static_cast<T*>(inout);
  const Function function{};
  for (int64_t i = 0; i < count; ++i) b[i] = function(a[i], b[i]);
}

}  // namespace weft::mpi
