// The table of named datatypes: what the ABI's handles stand for.
#include "mpi/types/predefined.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include "mpi/types/builder.hpp"
#include "mpi/types/fortran.hpp"

namespace weft::mpi {
namespace {

struct Named {
  MPI_Datatype handle;
  const char* name;
  Element element;
  Family family;
  Element index = Element::none;  ///< pairs: `element` is the value's
};

constexpr Element signed_of(std::size_t bytes) noexcept {
  return bytes == 1   ? Element::i8
         : bytes == 2 ? Element::i16
         : bytes == 4 ? Element::i32
                      : Element::i64;
}
constexpr Element unsigned_of(std::size_t bytes) noexcept {
  return bytes == 1   ? Element::u8
         : bytes == 2 ? Element::u16
         : bytes == 4 ? Element::u32
                      : Element::u64;
}

#define WEFT_NAMED(handle, element, family) \
  Named { handle, #handle, element, Family::family }
#define WEFT_PAIR(handle, value, index) \
  Named { handle, #handle, value, Family::pair, index }

// Handles are pointers made of numbers, which no constant expression may hold: a function's table.
const std::vector<Named>& named_types() {
  using enum Element;
  // Not destroyed: a session may end with a static object.
  static const std::vector<Named>& table = *new std::vector<Named>{
      WEFT_NAMED(MPI_AINT, signed_of(sizeof(MPI_Aint)), multi_language),
      WEFT_NAMED(MPI_COUNT, i64, multi_language),
      WEFT_NAMED(MPI_OFFSET, i64, multi_language),
      WEFT_NAMED(MPI_PACKED, packed, none),
      WEFT_NAMED(MPI_BYTE, byte, byte),
      // C
      WEFT_NAMED(MPI_SHORT, signed_of(sizeof(short)), c_integer),
      WEFT_NAMED(MPI_INT, signed_of(sizeof(int)), c_integer),
      WEFT_NAMED(MPI_LONG, c_long, c_integer),
      WEFT_NAMED(MPI_LONG_LONG_INT, i64, c_integer),
      WEFT_NAMED(MPI_UNSIGNED_SHORT, unsigned_of(sizeof(short)), c_integer),
      WEFT_NAMED(MPI_UNSIGNED, unsigned_of(sizeof(int)), c_integer),
      WEFT_NAMED(MPI_UNSIGNED_LONG, c_unsigned_long, c_integer),
      WEFT_NAMED(MPI_UNSIGNED_LONG_LONG, u64, c_integer),
      WEFT_NAMED(MPI_SIGNED_CHAR, i8, c_integer),
      WEFT_NAMED(MPI_UNSIGNED_CHAR, u8, c_integer),
      WEFT_NAMED(MPI_INT8_T, i8, c_integer),
      WEFT_NAMED(MPI_UINT8_T, u8, c_integer),
      WEFT_NAMED(MPI_INT16_T, i16, c_integer),
      WEFT_NAMED(MPI_UINT16_T, u16, c_integer),
      WEFT_NAMED(MPI_INT32_T, i32, c_integer),
      WEFT_NAMED(MPI_UINT32_T, u32, c_integer),
      WEFT_NAMED(MPI_INT64_T, i64, c_integer),
      WEFT_NAMED(MPI_UINT64_T, u64, c_integer),
      WEFT_NAMED(MPI_FLOAT, f32, floating),
      WEFT_NAMED(MPI_DOUBLE, f64, floating),
      WEFT_NAMED(MPI_LONG_DOUBLE, f80, floating),
      WEFT_NAMED(MPI_C_COMPLEX, c32, complex),
      WEFT_NAMED(MPI_C_DOUBLE_COMPLEX, c64, complex),
      WEFT_NAMED(MPI_C_LONG_DOUBLE_COMPLEX, c80, complex),
      WEFT_NAMED(MPI_CXX_FLOAT_COMPLEX, c32, complex),
      WEFT_NAMED(MPI_CXX_DOUBLE_COMPLEX, c64, complex),
      WEFT_NAMED(MPI_CXX_LONG_DOUBLE_COMPLEX, c80, complex),
      WEFT_NAMED(MPI_C_BOOL, boolean, logical),
      WEFT_NAMED(MPI_CXX_BOOL, boolean, logical),
      WEFT_NAMED(MPI_CHAR, character, character),
      WEFT_NAMED(MPI_WCHAR, wide_character, none),
      // Fortran
      WEFT_NAMED(MPI_LOGICAL, l32, logical),
      WEFT_NAMED(MPI_INTEGER, i32, fortran_integer),
      WEFT_NAMED(MPI_REAL, f32, floating),
      WEFT_NAMED(MPI_COMPLEX, c32, complex),
      WEFT_NAMED(MPI_DOUBLE_PRECISION, f64, floating),
      WEFT_NAMED(MPI_DOUBLE_COMPLEX, c64, complex),
      WEFT_NAMED(MPI_CHARACTER, character, none),
      WEFT_NAMED(MPI_LOGICAL1, l8, logical),
      WEFT_NAMED(MPI_LOGICAL2, l16, logical),
      WEFT_NAMED(MPI_LOGICAL4, l32, logical),
      WEFT_NAMED(MPI_LOGICAL8, l64, logical),
      WEFT_NAMED(MPI_LOGICAL16, l128, logical),
      WEFT_NAMED(MPI_INTEGER1, i8, fortran_integer),
      WEFT_NAMED(MPI_INTEGER2, i16, fortran_integer),
      WEFT_NAMED(MPI_INTEGER4, i32, fortran_integer),
      WEFT_NAMED(MPI_INTEGER8, i64, fortran_integer),
      WEFT_NAMED(MPI_INTEGER16, i128, fortran_integer),
      WEFT_NAMED(MPI_REAL2, f16, floating),
      WEFT_NAMED(MPI_REAL4, f32, floating),
      WEFT_NAMED(MPI_REAL8, f64, floating),
      WEFT_NAMED(MPI_REAL16, f128, floating),
      WEFT_NAMED(MPI_COMPLEX4, c16, complex),
      WEFT_NAMED(MPI_COMPLEX8, c32, complex),
      WEFT_NAMED(MPI_COMPLEX16, c64, complex),
      WEFT_NAMED(MPI_COMPLEX32, c128, complex),
      // Values with an index
      WEFT_PAIR(MPI_FLOAT_INT, f32, i32),
      WEFT_PAIR(MPI_DOUBLE_INT, f64, i32),
      WEFT_PAIR(MPI_LONG_INT, c_long, i32),
      WEFT_PAIR(MPI_2INT, i32, i32),
      WEFT_PAIR(MPI_SHORT_INT, i16, i32),
      WEFT_PAIR(MPI_LONG_DOUBLE_INT, f80, i32),
      WEFT_PAIR(MPI_2REAL, f32, f32),
      WEFT_PAIR(MPI_2DOUBLE_PRECISION, f64, f64),
      WEFT_PAIR(MPI_2INTEGER, i32, i32),
  };
  return table;
}

#undef WEFT_NAMED
#undef WEFT_PAIR

/// What Fortran's types are outlasts the named ones: it is told once, at any time.
struct Definitions {
  std::mutex lock;
  FortranTypes fortran;
  bool are_open = false;
  std::vector<Held<Datatype>> former;  ///< calls that are under way may use them
};
Definitions& definitions() {
  static Definitions& one = *new Definitions;
  return one;
}

Held<Datatype> made(const Named& named, const FortranTypes& fortran) {
  const Element element = fortran.element_of(named.handle, named.element);
  if (named.family == Family::pair) {
    const Element index = fortran.element_of(named.handle, named.index);
    return TypeBuilder::pair(named.handle, element, index, named.name);
  }
  Held<Datatype> type = TypeBuilder::basic(named.handle, element, named.family, named.name);
  if (fortran.lacks(named.handle)) TypeBuilder::set_unsupported(*type);
  return type;
}

}  // namespace

void open_predefined_types() {
  Definitions& all = definitions();
  const std::scoped_lock guard(all.lock);
  for (const Named& named : named_types()) {
    datatypes().define(named.handle, made(named, all.fortran).release());
  }
  all.are_open = true;
}

void close_predefined_types() noexcept {
  Definitions& all = definitions();
  const std::scoped_lock guard(all.lock);
  for (const Named& named : named_types()) {
    Datatype* type = datatypes().find(named.handle);
    datatypes().define(named.handle, nullptr);
    if (type != nullptr) type->drop();
  }
  all.former.clear();
  all.are_open = false;
}

void tell_fortran_types(FortranTypes types) {
  Definitions& all = definitions();
  const std::scoped_lock guard(all.lock);
  all.fortran = std::move(types);
  for (const Named& named : named_types()) {
    if (!all.are_open) break;
    const bool changes = all.fortran.element_of(named.handle, named.element) != named.element ||
                         all.fortran.lacks(named.handle);
    if (!changes) continue;
    all.former.push_back(Held<Datatype>::adopt(datatypes().find(named.handle)));
    datatypes().define(named.handle, made(named, all.fortran).release());
  }
  forget_nameless_types();
}

}  // namespace weft::mpi
