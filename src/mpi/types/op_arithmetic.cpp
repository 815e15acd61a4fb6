// MPI_SUM and MPI_PROD.
#include <algorithm>

#include "mpi/types/numbers.hpp"
#include "mpi/types/op_loops.hpp"

namespace weft::mpi {
namespace {

/// Unsigned integers at least as wide as unsigned int: no promotion to int, where they would
/// overflow.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < sizeof(unsigned)), unsigned, T>;

template <class T>
struct SumInteger {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};
template <class T>
struct ProdInteger {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};
template <class T>
struct SumFloating {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept { return static_cast<T>(a + b); }
};
template <class T>
struct ProdFloating {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept { return static_cast<T>(a * b); }
};
/// By their parts.
template <class T>
void add_complex(const void* in, const void* with, void* out, int64_t count) {
  static const ReduceLoop loop = reduce_loop_here<T, SumFloating<T>>();
  loop(in, with, out, 2 * count);
}
/// A loop of its own, with both parts apart: where they lie beside each other, GCC 12 makes fused
/// operations of them (vfmaddsub) even where it is told not to.
template <class T>
void multiply_complex(const void* in, const void* with, void* out, int64_t count) {
  constexpr int64_t kSome = 64;
  T real[kSome];
  T imaginary[kSome];
  for (int64_t done = 0; done < count; done += kSome) {
    const auto* a = static_cast<const Complex<T>*>(in) + done;
    const auto* b = static_cast<const Complex<T>*>(with) + done;
    auto* c = static_cast<Complex<T>*>(out) + done;
    const int64_t some = std::min(kSome, count - done);
    for (int64_t i = 0; i < some; ++i) {
      real[i] = static_cast<T>(a[i].real * b[i].real - a[i].imaginary * b[i].imaginary);
      imaginary[i] = static_cast<T>(a[i].real * b[i].imaginary + a[i].imaginary * b[i].real);
    }
    for (int64_t i = 0; i < some; ++i) c[i] = {real[i], imaginary[i]};
  }
}

// Signed and unsigned integers wrap alike, so one loop serves both.
template <class T>
ReduceLoop integer(Operation operation) noexcept {
  return operation == Operation::sum ? reduce_loop_here<T, SumInteger<T>>()
                                     : reduce_loop_here<T, ProdInteger<T>>();
}
template <class T>
ReduceLoop floating(Operation operation) noexcept {
  return operation == Operation::sum ? reduce_loop_here<T, SumFloating<T>>()
                                     : reduce_loop_here<T, ProdFloating<T>>();
}
template <class T>
ReduceLoop complex(Operation operation) noexcept {
  return operation == Operation::sum ? add_complex<T> : multiply_complex<T>;
}

}  // namespace

ReduceLoop arithmetic_loop(Operation operation, Element element) noexcept {
  switch (element) {
    case Element::i8:
    case Element::u8:
    case Element::character:
      return integer<uint8_t>(operation);
    case Element::i16:
    case Element::u16:
      return integer<uint16_t>(operation);
    case Element::i32:
    case Element::u32:
      return integer<uint32_t>(operation);
    case Element::i64:
    case Element::u64:
      return integer<uint64_t>(operation);
    case Element::c_long:
    case Element::c_unsigned_long:
      return integer<unsigned long>(operation);
    case Element::i128:
      return integer<Uint128>(operation);
    case Element::f32:
      return floating<float>(operation);
    case Element::f64:
      return floating<double>(operation);
    case Element::f80:
      return floating<long double>(operation);
    case Element::f128:
      return floating<Quad>(operation);
    case Element::c32:
      return complex<float>(operation);
    case Element::c64:
      return complex<double>(operation);
    case Element::c80:
      return complex<long double>(operation);
    case Element::c128:
      return complex<Quad>(operation);
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      return floating<Half>(operation);
    case Element::c16:
      return complex<Half>(operation);
#endif
    default:
      return nullptr;
  }
}

}  // namespace weft::mpi
