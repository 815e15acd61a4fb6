// What a Fortran binding tells of its compiler (MPI 21.4.1): sizes of default kinds, optional types
// that there are not, the values of LOGICALs.
#pragma once

#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/datatype.hpp"
#include "mpi/types/numbers.hpp"

namespace weft::mpi {

class Info;

/// The default kinds, until told otherwise as most compilers have them.
struct FortranTypes {
  Element logical = Element::l32;
  Element integer = Element::i32;
  Element real = Element::f32;
  Element complex = Element::c32;
  Element double_precision = Element::f64;
  Element double_complex = Element::c64;
  std::vector<MPI_Datatype> lacking;  ///< optional ones

  /// What a named type or the parts of a named pair are; `usual` where Fortran has no say.
  [[nodiscard]] Element element_of(MPI_Datatype handle, Element usual) const noexcept;
  [[nodiscard]] bool lacks(MPI_Datatype handle) const noexcept;
};

/// By the keys of MPI_Abi_set_fortran_info. Throws MPI_ERR_INFO_VALUE for a size that no element
/// has, or a value that says nothing.
[[nodiscard]] FortranTypes fortran_types(const Info& told);

/// The named types are so from now on; those in use stay as they were. Thread-safe, at any time.
void tell_fortran_types(FortranTypes types);

/// Of LOGICALs of any size: narrower ones have the low bytes.
struct FortranBooleans {
  Int128 yes;
  Int128 no;
};
/// nullptr: not told; then zero is false, and all else true. Thread-safe.
[[nodiscard]] const FortranBooleans* fortran_booleans() noexcept;
/// Once. `size`: 1, 2, 4, 8 or 16 bytes.
void tell_fortran_booleans(int size, const void* yes, const void* no);
/// A value of that size.
void store_logical(Int128 value, int size, void* to) noexcept;

}  // namespace weft::mpi
