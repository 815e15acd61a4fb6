// MPI_BAND, MPI_BOR, MPI_BXOR and their logical namesakes.
#include "mpi/types/fortran.hpp"
#include "mpi/types/numbers.hpp"
#include "mpi/types/op_loops.hpp"

namespace weft::mpi {
namespace {

template <class T>
struct BitAnd {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept { return static_cast<T>(a & b); }
};
template <class T>
struct BitOr {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept { return static_cast<T>(a | b); }
};
template <class T>
struct BitXor {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept { return static_cast<T>(a ^ b); }
};

// Anything but zero is true; results are 0 and 1.
template <class T>
struct LogicalAnd {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<int>(a != 0) & static_cast<int>(b != 0));
  }
};
template <class T>
struct LogicalOr {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<int>(a != 0) | static_cast<int>(b != 0));
  }
};
template <class T>
struct LogicalXor {
  [[gnu::always_inline]] T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<int>(a != 0) ^ static_cast<int>(b != 0));
  }
};

/// Of Fortran's LOGICALs, whose values a binding may have told: all but false is true.
template <class T, template <class> class Function>
void fortran_loop(const void* in, const void* with, void* out, int64_t count) {
  const FortranBooleans* const told = fortran_booleans();
  if (told == nullptr) return reduce_loop<T, Function<T>>(in, with, out, count);
  const auto yes = static_cast<T>(told->yes);
  const auto no = static_cast<T>(told->no);
  const T* const a = static_cast<const T*>(in);
  const T* const b = static_cast<const T*>(with);
  T* const c = static_cast<T*>(out);
  const Function<bool> function{};
  WEFT_MPI_TURNS_APART
  for (int64_t i = 0; i < count; ++i) c[i] = function(a[i] != no, b[i] != no) ? yes : no;
}

template <class T>
ReduceLoop fortran(Operation operation) noexcept {
  switch (operation) {
    case Operation::land:
      return fortran_loop<T, LogicalAnd>;
    case Operation::lor:
      return fortran_loop<T, LogicalOr>;
    case Operation::lxor:
      return fortran_loop<T, LogicalXor>;
    default:
      return nullptr;
  }
}

template <class T>
ReduceLoop bits(Operation operation) noexcept {
  switch (operation) {
    case Operation::band:
      return reduce_loop_here<T, BitAnd<T>>();
    case Operation::bor:
      return reduce_loop_here<T, BitOr<T>>();
    case Operation::bxor:
      return reduce_loop_here<T, BitXor<T>>();
    case Operation::land:
      return reduce_loop_here<T, LogicalAnd<T>>();
    case Operation::lor:
      return reduce_loop_here<T, LogicalOr<T>>();
    case Operation::lxor:
      return reduce_loop_here<T, LogicalXor<T>>();
    default:
      return nullptr;
  }
}

/// By width alone: signs do not matter to these operations.
ReduceLoop integer_bits(Operation operation, Element element) noexcept {
  switch (element) {
    case Element::i8:
    case Element::u8:
    case Element::character:
      return bits<uint8_t>(operation);
    case Element::i16:
    case Element::u16:
      return bits<uint16_t>(operation);
    case Element::i32:
    case Element::u32:
      return bits<uint32_t>(operation);
    case Element::i64:
    case Element::u64:
      return bits<uint64_t>(operation);
    case Element::c_long:
    case Element::c_unsigned_long:
      return bits<unsigned long>(operation);
    case Element::i128:
      return bits<Uint128>(operation);
    default:
      return nullptr;
  }
}

}  // namespace

ReduceLoop bit_loop(Operation operation, Element element) noexcept {
  return element == Element::byte ? bits<uint8_t>(operation) : integer_bits(operation, element);
}

ReduceLoop logical_loop(Operation operation, Element element) noexcept {
  switch (element) {
    case Element::boolean:
      return bits<uint8_t>(operation);
    case Element::l8:
      return fortran<uint8_t>(operation);
    case Element::l16:
      return fortran<uint16_t>(operation);
    case Element::l32:
      return fortran<uint32_t>(operation);
    case Element::l64:
      return fortran<uint64_t>(operation);
    case Element::l128:
      return fortran<Uint128>(operation);
    default:
      return integer_bits(operation, element);
  }
}

}  // namespace weft::mpi
