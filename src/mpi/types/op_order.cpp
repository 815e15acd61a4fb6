// MPI_MIN and MPI_MAX.
#include "mpi/types/numbers.hpp"
#include "mpi/types/op_loops.hpp"

namespace weft::mpi {
namespace {

// A NaN wins against all numbers: whether the result is one does not depend on the order in which
// ranks combine. Of equals (zeros of either sign) the second is taken.
template <class T>
struct Smaller {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return a < b || is_nan(a) ? a : b;
  }
};
template <class T>
struct Larger {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return b < a || is_nan(a) ? a : b;
  }
};
template <class T, template <class> class Function>
struct Turned {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept { return Function<T>{}(b, a); }
};

template <class T>
ReduceLoop ordered(Operation operation) noexcept {
  return operation == Operation::min ? reduce_loop_here<T, Smaller<T>>()
                                     : reduce_loop_here<T, Larger<T>>();
}
template <class T>
ReduceLoop turned(Operation operation) noexcept {
  return operation == Operation::min ? reduce_loop_here<T, Turned<T, Smaller>>()
                                     : reduce_loop_here<T, Turned<T, Larger>>();
}

}  // namespace

ReduceLoop turned_loop(Operation operation, Element element) noexcept {
  if (operation != Operation::min && operation != Operation::max) return nullptr;
  switch (element) {
    case Element::f32:
      return turned<float>(operation);
    case Element::f64:
      return turned<double>(operation);
    case Element::f80:
      return turned<long double>(operation);
    case Element::f128:
      return turned<Quad>(operation);
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      return turned<Half>(operation);
#endif
    default:
      return nullptr;
  }
}

ReduceLoop order_loop(Operation operation, Element element) noexcept {
  switch (element) {
    case Element::i8:
      return ordered<int8_t>(operation);
    case Element::i16:
      return ordered<int16_t>(operation);
    case Element::i32:
      return ordered<int32_t>(operation);
    case Element::i64:
      return ordered<int64_t>(operation);
    case Element::c_long:
      return ordered<long>(operation);
    case Element::i128:
      return ordered<Int128>(operation);
    case Element::u8:
      return ordered<uint8_t>(operation);
    case Element::character:
      return ordered<char>(operation);
    case Element::u16:
      return ordered<uint16_t>(operation);
    case Element::u32:
      return ordered<uint32_t>(operation);
    case Element::u64:
      return ordered<uint64_t>(operation);
    case Element::c_unsigned_long:
      return ordered<unsigned long>(operation);
    case Element::f32:
      return ordered<float>(operation);
    case Element::f64:
      return ordered<double>(operation);
    case Element::f80:
      return ordered<long double>(operation);
    case Element::f128:
      return ordered<Quad>(operation);
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      return ordered<Half>(operation);
#endif
    default:
      return nullptr;
  }
}

}  // namespace weft::mpi
