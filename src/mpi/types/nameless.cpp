// Predefined types without a name: Fortran's by precision and range, pairs by their parts; the size
// and pair look-ups that find named ones.
#include <cfloat>
#include <initializer_list>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/numbers.hpp"
#include "mpi/types/predefined.hpp"

namespace weft::mpi {
namespace {

/// Combiner, and its two arguments: p and r, or two handles.
using Key = std::tuple<int, intptr_t, intptr_t>;

struct Nameless {
  std::mutex lock;
  std::map<Key, MPI_Datatype> handles;
  std::vector<MPI_Datatype> former;  ///< of before Fortran's types were told
};
Nameless& nameless() {
  static Nameless& all = *new Nameless;  // not destroyed: see release at exit, process.cpp
  return all;
}

template <class Make>
MPI_Datatype look_up(const Key& key, Make make) {
  Nameless& all = nameless();
  const std::scoped_lock guard(all.lock);
  if (const auto found = all.handles.find(key); found != all.handles.end()) return found->second;
  Held<Datatype> type = make();
  const MPI_Datatype handle = datatypes().add(type.get());
  TypeBuilder::set_handle(*type.release(), handle);
  all.handles.emplace(key, handle);
  return handle;
}

/// Indices of MINLOC and MAXLOC: any integers that the compiler has (MPI 6.9.4).
bool is_index(const Datatype& type) noexcept {
  switch (type.family()) {
    case Family::c_integer:
    case Family::fortran_integer:
    case Family::multi_language:
      return true;
    default:
      return false;
  }
}

/// What they compare: floating-point numbers, too.
bool is_value(const Datatype& type) noexcept {
  const bool computes = WEFT_MPI_HAS_HALF != 0 || type.element() != Element::f16;
  return is_index(type) || (type.family() == Family::floating && computes);
}

MPI_Datatype named_pair(MPI_Datatype value, MPI_Datatype index) noexcept {
  if (index == MPI_INT) {
    if (value == MPI_FLOAT) return MPI_FLOAT_INT;
    if (value == MPI_DOUBLE) return MPI_DOUBLE_INT;
    if (value == MPI_LONG) return MPI_LONG_INT;
    if (value == MPI_INT) return MPI_2INT;
    if (value == MPI_SHORT) return MPI_SHORT_INT;
    if (value == MPI_LONG_DOUBLE) return MPI_LONG_DOUBLE_INT;
  }
  if (value != index) return MPI_DATATYPE_NULL;
  if (value == MPI_REAL) return MPI_2REAL;
  if (value == MPI_DOUBLE_PRECISION) return MPI_2DOUBLE_PRECISION;
  if (value == MPI_INTEGER) return MPI_2INTEGER;
  return MPI_DATATYPE_NULL;
}

/// The first that has enough, and that Fortran's compiler has.
MPI_Datatype first_supported(std::initializer_list<std::pair<bool, MPI_Datatype>> kinds) {
  for (const auto& [is_enough, type] : kinds) {
    if (is_enough && any_datatype(type).supported()) return type;
  }
  fail(MPI_ERR_ARG, "no type has that precision and range");
}

}  // namespace

MPI_Datatype f90_type(int combiner, int precision, int range, const Datatype& base) {
  return look_up({combiner, precision, range}, [&] {
    Held<Datatype> type = TypeBuilder::basic(MPI_DATATYPE_NULL, base.element(), base.family(), "");
    auto recipe = std::make_shared<TypeRecipe>();
    recipe->combiner = combiner;
    if (combiner != MPI_COMBINER_F90_INTEGER) recipe->integers.push_back(precision);
    recipe->integers.push_back(range);
    TypeBuilder::make_predefined(*type, std::move(recipe));
    return type;
  });
}

MPI_Datatype unnamed_pair(MPI_Datatype value, MPI_Datatype index) {
  const Key key{MPI_COMBINER_VALUE_INDEX, reinterpret_cast<intptr_t>(value),
                reinterpret_cast<intptr_t>(index)};
  return look_up(key, [&] {
    Datatype& values = any_datatype(value);
    Datatype& indices = any_datatype(index);
    Held<Datatype> type =
        TypeBuilder::pair(MPI_DATATYPE_NULL, values.element(), indices.element(), "");
    auto recipe = std::make_shared<TypeRecipe>();
    recipe->combiner = MPI_COMBINER_VALUE_INDEX;
    recipe->types.emplace_back(&values);
    recipe->types.emplace_back(&indices);
    TypeBuilder::make_predefined(*type, std::move(recipe));
    return type;
  });
}

void close_nameless_types() noexcept {
  Nameless& all = nameless();
  const std::scoped_lock guard(all.lock);
  const auto close = [](MPI_Datatype handle) {
    if (Datatype* type = datatypes().remove(handle); type != nullptr) type->drop();
  };
  for (const auto& [key, handle] : all.handles) close(handle);
  for (const MPI_Datatype handle : all.former) close(handle);
  all.handles.clear();
  all.former.clear();
}

void forget_nameless_types() {
  Nameless& all = nameless();
  const std::scoped_lock guard(all.lock);
  for (const auto& [key, handle] : all.handles) all.former.push_back(handle);
  all.handles.clear();
}

namespace calls {

void Type_create_f90_integer(int r, MPI_Datatype* newtype) {
  require(newtype != nullptr, MPI_ERR_ARG, "no place for the new datatype");
  if (r < 0 || r > 38) fail(MPI_ERR_ARG, "no integer type has that range");
  const MPI_Datatype base = first_supported({{r <= 2, MPI_INTEGER1},
                                             {r <= 4, MPI_INTEGER2},
                                             {r <= 9, MPI_INTEGER4},
                                             {r <= 18, MPI_INTEGER8},
                                             {true, MPI_INTEGER16}});
  *newtype = f90_type(MPI_COMBINER_F90_INTEGER, MPI_UNDEFINED, r, any_datatype(base));
}

namespace {

/// Kinds of REAL. `extended`: x87's, of 80 bits in 16 bytes, where C's long double is that.
enum class RealKind : uint8_t { single, twice, extended, quad };

/// The smallest that serves; MPI_UNDEFINED leaves one of the two open.
RealKind real_kind(int precision, int range) {
  if (precision == MPI_UNDEFINED && range == MPI_UNDEFINED) {
    fail(MPI_ERR_ARG, "neither a precision nor a range is given");
  }
  if ((precision < 0 && precision != MPI_UNDEFINED) || (range < 0 && range != MPI_UNDEFINED)) {
    fail(MPI_ERR_ARG, "a negative precision or range");
  }
  if (precision <= 6 && range <= 37) return RealKind::single;
  if (precision <= 15 && range <= 307) return RealKind::twice;
  if (LDBL_MANT_DIG == 64 && precision <= LDBL_DIG && range <= LDBL_MAX_10_EXP - 1)
    return RealKind::extended;
  if (precision <= 33 && range <= 4931) return RealKind::quad;
  fail(MPI_ERR_ARG, "no floating-point type has that precision and range");
}

}  // namespace

void Type_create_f90_real(int p, int r, MPI_Datatype* newtype) {
  require(newtype != nullptr, MPI_ERR_ARG, "no place for the new datatype");
  const RealKind kind = real_kind(p, r);
  const MPI_Datatype base = first_supported({{kind == RealKind::single, MPI_REAL4},
                                             {kind <= RealKind::twice, MPI_REAL8},
                                             {kind == RealKind::extended, MPI_LONG_DOUBLE},
                                             {true, MPI_REAL16}});
  *newtype = f90_type(MPI_COMBINER_F90_REAL, p, r, any_datatype(base));
}

void Type_create_f90_complex(int p, int r, MPI_Datatype* newtype) {
  require(newtype != nullptr, MPI_ERR_ARG, "no place for the new datatype");
  const RealKind kind = real_kind(p, r);
  const MPI_Datatype base =
      first_supported({{kind == RealKind::single, MPI_COMPLEX8},
                       {kind <= RealKind::twice, MPI_COMPLEX16},
                       {kind == RealKind::extended, MPI_C_LONG_DOUBLE_COMPLEX},
                       {true, MPI_COMPLEX32}});
  *newtype = f90_type(MPI_COMBINER_F90_COMPLEX, p, r, any_datatype(base));
}

void Type_get_value_index(MPI_Datatype value_type, MPI_Datatype index_type,
                          MPI_Datatype* pair_type) {
  require(pair_type != nullptr, MPI_ERR_ARG, "no place for the pair datatype");
  const Datatype& value = any_datatype(value_type);
  const Datatype& index = any_datatype(index_type);
  *pair_type = named_pair(value_type, index_type);
  const bool exist = value.supported() && index.supported();
  if (*pair_type == MPI_DATATYPE_NULL && exist && is_value(value) && is_index(index)) {
    *pair_type = unnamed_pair(value_type, index_type);
  }
}

void Type_match_size(int typeclass, int size, MPI_Datatype* datatype) {
  require(datatype != nullptr, MPI_ERR_ARG, "no place for the datatype");
  struct Match {
    int typeclass;
    int size;
    MPI_Datatype type;
  };
  const Match matches[] = {
      {MPI_TYPECLASS_INTEGER, 1, MPI_INTEGER1},   {MPI_TYPECLASS_INTEGER, 2, MPI_INTEGER2},
      {MPI_TYPECLASS_INTEGER, 4, MPI_INTEGER4},   {MPI_TYPECLASS_INTEGER, 8, MPI_INTEGER8},
      {MPI_TYPECLASS_INTEGER, 16, MPI_INTEGER16}, {MPI_TYPECLASS_REAL, 2, MPI_REAL2},
      {MPI_TYPECLASS_REAL, 4, MPI_REAL4},         {MPI_TYPECLASS_REAL, 8, MPI_REAL8},
      {MPI_TYPECLASS_REAL, 16, MPI_REAL16},       {MPI_TYPECLASS_COMPLEX, 4, MPI_COMPLEX4},
      {MPI_TYPECLASS_COMPLEX, 8, MPI_COMPLEX8},   {MPI_TYPECLASS_COMPLEX, 16, MPI_COMPLEX16},
      {MPI_TYPECLASS_COMPLEX, 32, MPI_COMPLEX32}, {MPIX_TYPECLASS_LOGICAL, 1, MPI_LOGICAL1},
      {MPIX_TYPECLASS_LOGICAL, 2, MPI_LOGICAL2},  {MPIX_TYPECLASS_LOGICAL, 4, MPI_LOGICAL4},
      {MPIX_TYPECLASS_LOGICAL, 8, MPI_LOGICAL8},  {MPIX_TYPECLASS_LOGICAL, 16, MPI_LOGICAL16},
  };
  for (const Match& match : matches) {
    if (match.typeclass == typeclass && match.size == size &&
        any_datatype(match.type).supported()) {
      *datatype = match.type;
      return;
    }
  }
  fail(MPI_ERR_ARG, "no datatype of that class has that size");
}

}  // namespace calls
}  // namespace weft::mpi
