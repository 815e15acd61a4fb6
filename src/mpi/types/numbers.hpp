// The C++ types of basic elements, standard or not.
#pragma once

#include <cfloat>
#include <cstdint>
#include <type_traits>

namespace weft::mpi {

__extension__ typedef __int128 Int128;            // NOLINT(modernize-use-using): only so
__extension__ typedef unsigned __int128 Uint128;  // NOLINT(modernize-use-using)

#if LDBL_MANT_DIG == 113
using Quad = long double;
#else
__extension__ typedef __float128 Quad;  // NOLINT(modernize-use-using)
#endif

#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#define WEFT_MPI_HAS_HALF 1
using Half = __fp16;  // this compiler has _Float16 in C alone
#elif defined(__FLT16_MANT_DIG__)
#define WEFT_MPI_HAS_HALF 1
__extension__ typedef _Float16 Half;    // NOLINT(modernize-use-using)
#else
#define WEFT_MPI_HAS_HALF 0
#endif

template <class T>
[[gnu::always_inline]] constexpr bool is_nan(T number) noexcept {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return !(number == number);
  }
}

/// The unsigned integer of the same size: overflow is defined there, and wraps.
template <class T>
struct UnsignedOf {
  using Type = std::make_unsigned_t<T>;
};
template <>
struct UnsignedOf<Int128> {
  using Type = Uint128;
};

/// Two parts, as C and Fortran lay a complex number out.
template <class T>
struct Complex {
  T real;
  T imaginary;
};

}  // namespace weft::mpi
