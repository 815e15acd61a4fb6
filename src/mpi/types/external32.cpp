// Converts basic elements to and from external32.
#include "mpi/types/external32.hpp"

#include <cstring>

#include "mpi/failure.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/fortran.hpp"
#include "mpi/types/numbers.hpp"
#include "mpi/types/recipe.hpp"
#include "mpi/types/walk.hpp"

namespace weft::mpi {
namespace {

/// `bytes` low bytes of a number, the highest first.
void store_big(Uint128 value, std::size_t bytes, std::byte* to) noexcept {
  for (std::size_t i = bytes; i-- > 0;) {
    to[i] = static_cast<std::byte>(value & 0xff);
    value >>= 8;
  }
}
Uint128 load_big(const std::byte* from, std::size_t bytes) noexcept {
  Uint128 value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | std::to_integer<uint8_t>(from[i]);
  return value;
}

/// The same in this machine's order.
Uint128 load_native(const std::byte* from, std::size_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return std::to_integer<uint8_t>(*from);
    case 2: {
      uint16_t v;
      std::memcpy(&v, from, sizeof v);
      return v;
    }
    case 4: {
      uint32_t v;
      std::memcpy(&v, from, sizeof v);
      return v;
    }
    case 8: {
      uint64_t v;
      std::memcpy(&v, from, sizeof v);
      return v;
    }
    default: {
      Uint128 v;
      std::memcpy(&v, from, sizeof v);
      return v;
    }
  }
}
void store_native(Uint128 value, std::size_t bytes, std::byte* to) noexcept {
  switch (bytes) {
    case 1:
      *to = static_cast<std::byte>(value);
      return;
    case 2: {
      const auto v = static_cast<uint16_t>(value);
      std::memcpy(to, &v, sizeof v);
      return;
    }
    case 4: {
      const auto v = static_cast<uint32_t>(value);
      std::memcpy(to, &v, sizeof v);
      return;
    }
    case 8: {
      const auto v = static_cast<uint64_t>(value);
      std::memcpy(to, &v, sizeof v);
      return;
    }
    default:
      std::memcpy(to, &value, sizeof value);
  }
}

/// What a number of so many bits is with its sign, or without, in all bits.
Uint128 widen(Uint128 value, std::size_t bytes, bool has_sign) noexcept {
  const auto shift = static_cast<unsigned>(128 - 8 * bytes);
  value <<= shift;
  return has_sign ? static_cast<Uint128>(static_cast<Int128>(value) >> shift) : value >> shift;
}

/// Integers, and whatever else is only bits: the widths may differ.
struct Integer {
  std::size_t native;
  std::size_t external;
  bool has_sign;
};

bool fits(const Integer& form, Uint128 value, std::size_t from, std::size_t to) noexcept {
  return to >= from || widen(value, to, form.has_sign) == widen(value, from, form.has_sign);
}

void integer_out(const Integer& form, const std::byte* from, std::byte* to) {
  const Uint128 value = load_native(from, form.native);
  if (!fits(form, value, form.native, form.external))
    fail(MPI_ERR_CONVERSION, "an integer is larger than external32 has room for");
  store_big(widen(value, form.native, form.has_sign), form.external, to);
}
void integer_in(const Integer& form, const std::byte* from, std::byte* to) {
  const Uint128 value = load_big(from, form.external);
  if (!fits(form, value, form.external, form.native))
    fail(MPI_ERR_CONVERSION, "an integer of external32 is larger than its type here");
  store_native(widen(value, form.external, form.has_sign), form.native, to);
}

/// long double, which external32 knows as a quad.
void long_double_out(const std::byte* from, std::byte* to) {
  long double value;
  std::memcpy(&value, from, sizeof value);
  const auto quad = static_cast<Quad>(value);
  Uint128 bits;
  static_assert(sizeof bits == sizeof quad);
  std::memcpy(&bits, &quad, sizeof bits);
  store_big(bits, sizeof bits, to);
}
void long_double_in(const std::byte* from, std::byte* to) {
  const Uint128 bits = load_big(from, sizeof bits);
  Quad quad;
  std::memcpy(&quad, &bits, sizeof quad);
  const auto value = static_cast<long double>(quad);
  // A long double has bytes of padding on some machines: they are left alone.
  constexpr std::size_t kUsed = LDBL_MANT_DIG == 64 ? 10 : sizeof value;
  std::memcpy(to, &value, kUsed);
}

void boolean_out(const std::byte* from, std::byte* to) {
  *to = *from != std::byte{0} ? std::byte{1} : std::byte{0};
}
void boolean_in(const std::byte* from, std::byte* to) { boolean_out(from, to); }

/// LOGICALs, too: .TRUE. may be -1.
bool has_sign(Element element) noexcept {
  switch (element) {
    case Element::l8:
    case Element::l16:
    case Element::l32:
    case Element::l64:
    case Element::l128:
    case Element::i8:
    case Element::i16:
    case Element::i32:
    case Element::i64:
    case Element::i128:
    case Element::c_long:
      return true;
    default:
      return false;
  }
}

/// Elements that are several of another: complex numbers.
Element part_of(Element element) noexcept {
  switch (element) {
    case Element::c16:
      return Element::f16;
    case Element::c32:
      return Element::f32;
    case Element::c64:
      return Element::f64;
    case Element::c80:
      return Element::f80;
    case Element::c128:
      return Element::f128;
    default:
      return Element::none;
  }
}

bool is_floating(Element element) noexcept {
  return element == Element::f16 || element == Element::f32 || element == Element::f64 ||
         element == Element::f128;
}

template <class T>
Quad load_number(const std::byte* from) noexcept {
  T number;
  std::memcpy(&number, from, sizeof number);
  return static_cast<Quad>(number);
}
template <class T>
void store_number(Quad value, std::byte* to) noexcept {
  const auto number = static_cast<T>(value);
  std::memcpy(to, &number, sizeof number);
}

/// A floating-point number of this machine as one of another width: rounded, or infinite. Throws
/// MPI_ERR_CONVERSION for what the compiler has no type of.
void resize(Element element, const std::byte* from, Element wanted, std::byte* to) {
  if (!WEFT_MPI_HAS_HALF && (element == Element::f16 || wanted == Element::f16))
    fail(MPI_ERR_CONVERSION, "this library was built without numbers of 16 bits");
  Quad value{};
  switch (element) {
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      value = load_number<Half>(from);
      break;
#endif
    case Element::f32:
      value = load_number<float>(from);
      break;
    case Element::f64:
      value = load_number<double>(from);
      break;
    default:
      value = load_number<Quad>(from);
  }
  switch (wanted) {
#if WEFT_MPI_HAS_HALF
    case Element::f16:
      return store_number<Half>(value, to);
#endif
    case Element::f32:
      return store_number<float>(value, to);
    case Element::f64:
      return store_number<double>(value, to);
    default:
      return store_number<Quad>(value, to);
  }
}

/// Floating-point numbers that are wider here or there.
template <bool kOut>
void convert_resized(Element native, Element external, const std::byte* from, std::byte* to) {
  const ElementSizes sizes = sizes_of(external);
  const Integer bits{sizes.size, sizes.external, false};
  std::byte between[sizeof(Quad)];
  if constexpr (kOut) {
    resize(native, from, external, between);
    integer_out(bits, between, to);
  } else {
    integer_in(bits, from, between);
    resize(external, between, native, to);
  }
}

/// What external32 takes an element of a basic type for: the standard's table knows one size of
/// Fortran's default kinds, whatever the compiler's is.
Element external_element(const Datatype& basic, Element element) noexcept {
  static const FortranTypes& usual = never_destroyed<FortranTypes>();
  return usual.element_of(basic.predefined_handle(), element);
}

/// What a pair's value, or else its index, is an element of: a type of its own where the pair was
/// made of two.
const Datatype* half_of(const Datatype& pair, bool value) noexcept {
  return pair.recipe ? &*pair.recipe->types[value ? 0 : 1] : &pair;
}

/// Converts one element. `kOut`: to external32.
template <bool kOut>
void convert(Element element, Element external, const std::byte* from, std::byte* to) {
  const ElementSizes sizes = sizes_of(element);
  if (const Element part = part_of(element); part != Element::none) {
    const Element outside = part_of(external);
    convert<kOut>(part, outside, from, to);
    const int64_t native_bytes = sizes_of(part).size;
    const int64_t external_bytes = sizes_of(outside).external;
    convert<kOut>(part, outside, from + (kOut ? native_bytes : external_bytes),
                  to + (kOut ? external_bytes : native_bytes));
  } else if (element != external && is_floating(element)) {
    convert_resized<kOut>(element, external, from, to);
  } else if (element == Element::f80) {
    kOut ? long_double_out(from, to) : long_double_in(from, to);
  } else if (element == Element::boolean) {
    kOut ? boolean_out(from, to) : boolean_in(from, to);
  } else {
    const Integer form{sizes.size, sizes_of(external).external, has_sign(element)};
    kOut ? integer_out(form, from, to) : integer_in(form, from, to);
  }
}

/// Converts one element that lies at `native`; moves `external` on.
template <bool kOut, class Byte>
void convert_at(const Datatype& basic, Element element, uintptr_t native, Byte*& external) {
  auto* const here = reinterpret_cast<std::byte*>(native);
  const Element outside = external_element(basic, element);
  if constexpr (kOut) {
    convert<true>(element, outside, here, external);
  } else {
    convert<false>(element, outside, external, here);
  }
  external += sizes_of(outside).external;
}

template <bool kOut, class Byte>
void convert_all(const Datatype& type, const void* buffer, int64_t count, Byte* external) {
  walk(type, buffer, count, [&](const Datatype& basic, uintptr_t address, int64_t copies) {
    for (int64_t i = 0; i < copies; ++i, address += static_cast<uintptr_t>(basic.extent())) {
      if (basic.element() == Element::pair) {
        const PairLayout pair = pair_layout(basic.value(), basic.index());
        convert_at<kOut>(*half_of(basic, true), basic.value(), address, external);
        convert_at<kOut>(*half_of(basic, false), basic.index(),
                         address + static_cast<uintptr_t>(pair.index_offset), external);
      } else {
        convert_at<kOut>(basic, basic.element(), address, external);
      }
    }
  });
}

}  // namespace

int64_t external_size(const Datatype& type) {
  if (type.predefined()) {
    const auto bytes_of_one = [](const Datatype& basic, Element element) {
      return sizes_of(external_element(basic, element)).external;
    };
    if (type.element() != Element::pair) return bytes_of_one(type, type.element());
    return bytes_of_one(*half_of(type, true), type.value()) +
           bytes_of_one(*half_of(type, false), type.index());
  }
  const Shape& shape = type.recipe->shape;
  int64_t bytes = 0;
  for (const Part& part : shape.parts) {
    bytes = plus(bytes, times(part.copies, external_size(*shape.inners[part.inner])));
  }
  for (const Repetition& loop : shape.loops) bytes = times(bytes, loop.count);
  return bytes;
}

void pack_external(const Datatype& type, const void* buffer, int64_t count, std::byte* packed) {
  convert_all<true>(type, buffer, count, packed);
}

void unpack_external(const Datatype& type, void* buffer, int64_t count, const std::byte* packed) {
  convert_all<false>(type, buffer, count, packed);
}

}  // namespace weft::mpi
