// Reduction operations.
#pragma once

#include <cstdint>

#include "mpi/abi/mpi.h"
#include "mpi/datatype.hpp"
#include "mpi/handle.hpp"

namespace weft::mpi {

/// A predefined operation or a program's own.
class Op final : public Counted {
 public:
  bool commutative = true;
  bool predefined = false;
  int number = 0;                             ///< predefined: the ABI's handle as a number
  uint8_t place = 0;                          ///< predefined: in the tables of types/
  MPI_User_function* function = nullptr;      ///< the program's
  MPI_User_function_c* function_c = nullptr;  ///< the program's, large count
};

/// out[i] = in[i] op with[i] for `count` elements in memory layout. `out` may be `with`; else
/// nothing overlaps. What lies between the parts of a pair is not written.
using ReduceLoop = void (*)(const void* in, const void* with, void* out, int64_t count);

HandleTable<Op, MPI_Op>& ops() noexcept;
/// The object of a handle; throws MPI_ERR_OP.
const Op& op(MPI_Op handle);
/// Throws MPI_ERR_OP if a predefined operation does not go with the type (MPI 6.9.2).
void check_op(const Op& operation, const Datatype& type);
/// inout[i] = in[i] op inout[i] for `count` elements (`in` comes from lower ranks). `handle` is
/// what a program's function is given as its datatype.
void reduce(const Op& operation, const void* in, void* inout, int64_t count, const Datatype& type,
            MPI_Datatype handle);
/// inout[i] = inout[i] op in[i], of operations that commute: the same bits as `reduce` the other
/// way around.
void reduce_turned(const Op& operation, const void* in, void* inout, int64_t count,
                   const Datatype& type, MPI_Datatype handle);
/// What these two call, `turned` the second, of a predefined operation; nullptr: it is a program's
/// own, or not for such elements.
[[nodiscard]] ReduceLoop loop_of(const Op& operation, const Datatype& type, bool turned) noexcept;

}  // namespace weft::mpi
