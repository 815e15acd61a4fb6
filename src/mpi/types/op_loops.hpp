// The loops of predefined operations, found by operation and element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

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
/// out[i] = with[i] op in[i], where that may be other bits: what is equal need not be the same.
/// Else nullptr.
[[nodiscard]] ReduceLoop turned_loop(Operation operation, Element element) noexcept;
[[nodiscard]] ReduceLoop bit_loop(Operation operation, Element element) noexcept;
[[nodiscard]] ReduceLoop logical_loop(Operation operation, Element element) noexcept;
/// `turned`: as turned_loop.
[[nodiscard]] ReduceLoop location_loop(Operation operation, Element value, Element index,
                                       bool turned = false) noexcept;

/// Of the loop that follows: no turn reads what another writes, though one place may be read and
/// then written; and some turns go together, so that lines which come from afar come side by side.
#if defined(__clang__)
#define WEFT_MPI_TURNS_APART _Pragma("clang loop vectorize(assume_safety) interleave_count(4)")
#else
#define WEFT_MPI_TURNS_APART _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#endif

/// The loop over elements of type T that `Function` combines.
/// Its operator must be always_inline: else GCC calls it from a loop that is for other processors
/// than it, each time.
template <class T, class Function>
[[gnu::always_inline]] inline void combine_each(const void* in, const void* with, void* out,
                                                int64_t count) {
  const T* const a = static_cast<const T*>(in);
  const T* const b = static_cast<const T*>(with);
  T* const c = static_cast<T*>(out);
  const Function function{};
  WEFT_MPI_TURNS_APART
  for (int64_t i = 0; i < count; ++i) c[i] = function(a[i], b[i]);
}

/// The same for any processor.
template <class T, class Function>
void reduce_loop(const void* in, const void* with, void* out, int64_t count) {
  combine_each<T, Function>(in, with, out, count);
}

#if defined(__x86_64__)
/// The same for those with vectors of 32 bytes. The same results (but perhaps of two NaNs the other
/// one): elements are combined by themselves, and nothing is fused.
template <class T, class Function>
[[gnu::target("avx2")]] void wide_reduce_loop(const void* in, const void* with, void* out,
                                              int64_t count) {
  combine_each<T, Function>(in, with, out, count);
}
#endif

/// The one of these for this processor.
template <class T, class Function>
[[nodiscard]] ReduceLoop reduce_loop_here() noexcept {
#if defined(__x86_64__)
  if constexpr (std::is_arithmetic_v<T> && sizeof(T) <= sizeof(int64_t)) {
    if (__builtin_cpu_supports("avx2")) return wide_reduce_loop<T, Function>;
  }
#endif
  return reduce_loop<T, Function>;
}

}  // namespace weft::mpi
