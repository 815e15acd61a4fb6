// MPI_MINLOC and MPI_MAXLOC: the extreme value and the lowest index at which it is.
#include "mpi/types/numbers.hpp"
#include "mpi/types/op_loops.hpp"

namespace weft::mpi {
namespace {

template <class Value, class Index>
struct Pair {
  Value value;
  Index index;
};

/// Turned: what comes in is of higher ranks. Of pairs that are equal, but perhaps not the same
/// bits, that of the higher rank is taken.
template <class Value, class Index, bool kMax, bool kTurned>
void locate(const void* in, const void* with, void* out, int64_t count) {
  const auto* const a = static_cast<const Pair<Value, Index>*>(in);
  const auto* const b = static_cast<const Pair<Value, Index>*>(with);
  auto* const c = static_cast<Pair<Value, Index>*>(out);
  for (int64_t i = 0; i < count; ++i) {
    // A NaN is better than all numbers, and as good as another (op_order.cpp).
    const bool extreme = kMax ? b[i].value < a[i].value : a[i].value < b[i].value;
    const bool unordered = is_nan(b[i].value);
    const bool better = extreme || (is_nan(a[i].value) && !unordered);
    const bool equal = unordered ? is_nan(a[i].value) : a[i].value == b[i].value;
    const bool taken =
        better || (equal && (kTurned ? a[i].index <= b[i].index : a[i].index < b[i].index));
    // Of equal ones too, which are perhaps not the same bits. What lies between stays as it is.
    c[i].value = taken ? a[i].value : b[i].value;
    c[i].index = taken ? a[i].index : b[i].index;
  }
}

template <class Value, class Index>
ReduceLoop of(Operation operation, bool turned) noexcept {
  if (turned) {
    return operation == Operation::maxloc ? locate<Value, Index, true, true>
                                          : locate<Value, Index, false, true>;
  }
  return operation == Operation::maxloc ? locate<Value, Index, true, false>
                                        : locate<Value, Index, false, false>;
}

template <class Value>
ReduceLoop by_index(Operation operation, Element index, bool turned) noexcept {
  switch (index) {
    case Element::i8:
      return of<Value, int8_t>(operation, turned);
    case Element::i16:
      return of<Value, int16_t>(operation, turned);
    case Element::i32:
      return of<Value, int32_t>(operation, turned);
    case Element::i64:
      return of<Value, int64_t>(operation, turned);
    case Element::c_long:
      return of<Value, long>(operation, turned);
    case Element::i128:
      return of<Value, Int128>(operation, turned);
    case Element::u8:
      return of<Value, uint8_t>(operation, turned);
    case Element::u16:
      return of<Value, uint16_t>(operation, turned);
    case Element::u32:
      return of<Value, uint32_t>(operation, turned);
    case Element::u64:
      return of<Value, uint64_t>(operation, turned);
    case Element::c_unsigned_long:
      return of<Value, unsigned long>(operation, turned);
    // Fortran's pairs have the index as a number of the value's type.
    case Element::f32:
      if constexpr (std::is_same_v<Value, float>) return of<Value, float>(operation, turned);
      return nullptr;
    case Element::f64:
      if constexpr (std::is_same_v<Value, double>) return of<Value, double>(operation, turned);
      return nullptr;
    case Element::f80:
      if constexpr (std::is_same_v<Value, long double>)
        return of<Value, long double>(operation, turned);
      return nullptr;
    case Element::f128:
      if constexpr (std::is_same_v<Value, Quad>) return of<Value, Quad>(operation, turned);
      return nullptr;
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      if constexpr (std::is_same_v<Value, Half>) return of<Value, Half>(operation, turned);
      return nullptr;
#endif
    default:
      return nullptr;
  }
}

}  // namespace

ReduceLoop location_loop(Operation operation, Element value, Element index, bool turned) noexcept {
  switch (value) {
    case Element::i8:
      return by_index<int8_t>(operation, index, turned);
    case Element::i16:
      return by_index<int16_t>(operation, index, turned);
    case Element::i32:
      return by_index<int32_t>(operation, index, turned);
    case Element::i64:
      return by_index<int64_t>(operation, index, turned);
    case Element::c_long:
      return by_index<long>(operation, index, turned);
    case Element::i128:
      return by_index<Int128>(operation, index, turned);
    case Element::u8:
      return by_index<uint8_t>(operation, index, turned);
    case Element::u16:
      return by_index<uint16_t>(operation, index, turned);
    case Element::u32:
      return by_index<uint32_t>(operation, index, turned);
    case Element::u64:
      return by_index<uint64_t>(operation, index, turned);
    case Element::c_unsigned_long:
      return by_index<unsigned long>(operation, index, turned);
    case Element::f32:
      return by_index<float>(operation, index, turned);
    case Element::f64:
      return by_index<double>(operation, index, turned);
    case Element::f80:
      return by_index<long double>(operation, index, turned);
    case Element::f128:
      return by_index<Quad>(operation, index, turned);
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      return by_index<Half>(operation, index, turned);
#endif
    default:
      return nullptr;
  }
}

}  // namespace weft::mpi
