// MPI_BAND, MPI_BOR, MPI_BXOR and their logical namesakes.
#include "mpi/types/numbers.hpp"
#include "mpi/types/op_loops.hpp"

namespace weft::mpi {
namespace {

template <class T>
struct BitAnd {
  T operator()(T a, T b) const noexcept { return static_cast<T>(a & b); }
};
template <class T>
struct BitOr {
  T operator()(T a, T b) const noexcept { return static_cast<T>(a | b); }
};
template <class T>
struct BitXor {
  T operator()(T a, T b) const noexcept { return static_cast<T>(a ^ b); }
};

// Anything but zero is true; results are 0 and 1.
template <class T>
struct LogicalAnd {
  T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<int>(a != 0) & static_cast<int>(b != 0));
  }
};
template <class T>
struct LogicalOr {
  T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<int>(a != 0) | static_cast<int>(b != 0));
  }
};
template <class T>
struct LogicalXor {
  T operator()(T a, T b) const noexcept {
    return static_cast<T>(static_cast<int>(a != 0) ^ static_cast<int>(b != 0));
  }
};

template <class T>
ReduceLoop bits(Operation operation) noexcept {
  switch (operation) {
    case Operation::band:
      return reduce_loop<T, BitAnd<T>>;
    case Operation::bor:
      return reduce_loop<T, BitOr<T>>;
    case Operation::bxor:
      return reduce_loop<T, BitXor<T>>;
    case Operation::land:
      return reduce_loop<T, LogicalAnd<T>>;
    case Operation::lor:
      return reduce_loop<T, LogicalOr<T>>;
    case Operation::lxor:
      return reduce_loop<T, LogicalXor<T>>;
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
    case Element::l8:
      return bits<uint8_t>(operation);
    case Element::l16:
      return bits<uint16_t>(operation);
    case Element::l32:
      return bits<uint32_t>(operation);
    case Element::l64:
      return bits<uint64_t>(operation);
    case Element::l128:
      return bits<Uint128>(operation);
    default:
      return integer_bits(operation, element);
  }
}

}  // namespace weft::mpi
