// Reads what a Fortran binding tells of its compiler.
#include "mpi/types/fortran.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "mpi/failure.hpp"
#include "mpi/info.hpp"

namespace weft::mpi {
namespace {

/// An element of some size in bytes.
using Sized = std::pair<const char*, Element>;
constexpr Sized kLogicals[] = {{"1", Element::l8},
                               {"2", Element::l16},
                               {"4", Element::l32},
                               {"8", Element::l64},
                               {"16", Element::l128}};
constexpr Sized kIntegers[] = {{"1", Element::i8},
                               {"2", Element::i16},
                               {"4", Element::i32},
                               {"8", Element::i64},
                               {"16", Element::i128}};
constexpr Sized kReals[] = {
    {"2", Element::f16}, {"4", Element::f32}, {"8", Element::f64}, {"16", Element::f128}};

template <std::size_t N>
Element sized(const Info& told, const char* key, const Sized (&elements)[N], Element usual) {
  const auto size = told.get(key);
  if (!size) return usual;
  for (const auto& [bytes, element] : elements) {
    if (*size == bytes) return element;
  }
  fail(MPI_ERR_INFO_VALUE, std::string(key) + ": no type has a size of '" + *size + "' bytes here");
}

Element complex_of(Element part) noexcept {
  switch (part) {
    case Element::f16:
      return Element::c16;
    case Element::f32:
      return Element::c32;
    case Element::f64:
      return Element::c64;
    default:
      return Element::c128;
  }
}

struct Optional {
  const char* key;
  MPI_Datatype type;
};
const std::vector<Optional>& optional_types() {
  static const std::vector<Optional>& all = *new std::vector<Optional>{
      {"mpi_logical1_supported", MPI_LOGICAL1},
      {"mpi_logical2_supported", MPI_LOGICAL2},
      {"mpi_logical4_supported", MPI_LOGICAL4},
      {"mpi_logical8_supported", MPI_LOGICAL8},
      {"mpi_logical16_supported", MPI_LOGICAL16},
      {"mpi_integer1_supported", MPI_INTEGER1},
      {"mpi_integer2_supported", MPI_INTEGER2},
      {"mpi_integer4_supported", MPI_INTEGER4},
      {"mpi_integer8_supported", MPI_INTEGER8},
      {"mpi_integer16_supported", MPI_INTEGER16},
      {"mpi_real2_supported", MPI_REAL2},
      {"mpi_real4_supported", MPI_REAL4},
      {"mpi_real8_supported", MPI_REAL8},
      {"mpi_real16_supported", MPI_REAL16},
      {"mpi_complex4_supported", MPI_COMPLEX4},
      {"mpi_complex8_supported", MPI_COMPLEX8},
      {"mpi_complex16_supported", MPI_COMPLEX16},
      {"mpi_complex32_supported", MPI_COMPLEX32},
      {"mpi_double_complex_supported", MPI_DOUBLE_COMPLEX},
  };
  return all;
}

std::atomic<const FortranBooleans*>& booleans() noexcept {
  static std::atomic<const FortranBooleans*> told{nullptr};
  return told;
}

template <class T>
Int128 load_as(const void* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <class T>
void store_as(Int128 value, void* to) noexcept {
  const auto narrow = static_cast<T>(value);
  std::memcpy(to, &narrow, sizeof narrow);
}

Int128 load_logical(int size, const void* from) noexcept {
  switch (size) {
    case 1:
      return load_as<int8_t>(from);
    case 2:
      return load_as<int16_t>(from);
    case 4:
      return load_as<int32_t>(from);
    case 8:
      return load_as<int64_t>(from);
    default:
      return load_as<Int128>(from);
  }
}

}  // namespace

Element FortranTypes::element_of(MPI_Datatype handle, Element usual) const noexcept {
  if (handle == MPI_LOGICAL) return logical;
  if (handle == MPI_INTEGER || handle == MPI_2INTEGER) return integer;
  if (handle == MPI_REAL || handle == MPI_2REAL) return real;
  if (handle == MPI_COMPLEX) return complex;
  if (handle == MPI_DOUBLE_PRECISION || handle == MPI_2DOUBLE_PRECISION) return double_precision;
  if (handle == MPI_DOUBLE_COMPLEX) return double_complex;
  return usual;
}

bool FortranTypes::lacks(MPI_Datatype handle) const noexcept {
  return std::find(lacking.begin(), lacking.end(), handle) != lacking.end();
}

FortranTypes fortran_types(const Info& told) {
  FortranTypes types;
  types.logical = sized(told, "mpi_logical_size", kLogicals, types.logical);
  types.integer = sized(told, "mpi_integer_size", kIntegers, types.integer);
  types.real = sized(told, "mpi_real_size", kReals, types.real);
  types.double_precision = sized(told, "mpi_double_precision_size", kReals, types.double_precision);
  types.complex = complex_of(types.real);
  types.double_complex = complex_of(types.double_precision);
  for (const Optional& each : optional_types()) {
    const auto value = told.get(each.key);
    if (value && *value != "true" && *value != "false")
      fail(MPI_ERR_INFO_VALUE, std::string(each.key) + " is neither true nor false");
    if (value == "false") types.lacking.push_back(each.type);
  }
  return types;
}

const FortranBooleans* fortran_booleans() noexcept {
  // acquire: pairs with tell_fortran_booleans' release.
  return booleans().load(std::memory_order_acquire);
}

void tell_fortran_booleans(int size, const void* yes, const void* no) {
  static FortranBooleans told;
  told = {load_logical(size, yes), load_logical(size, no)};
  booleans().store(&told, std::memory_order_release);
}

void store_logical(Int128 value, int size, void* to) noexcept {
  switch (size) {
    case 1:
      return store_as<int8_t>(value, to);
    case 2:
      return store_as<int16_t>(value, to);
    case 4:
      return store_as<int32_t>(value, to);
    case 8:
      return store_as<int64_t>(value, to);
    default:
      return store_as<Int128>(value, to);
  }
}

}  // namespace weft::mpi
