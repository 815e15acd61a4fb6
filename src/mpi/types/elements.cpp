// How many elements a message had: MPI_Get_count and its kin.
#include "mpi/abi/calls.hpp"
#include "mpi/datatype.hpp"
#include "mpi/failure.hpp"
#include "mpi/status.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/recipe.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {
namespace {

/// Walks down a type map from its begin until `left` (bytes, or elements) is used up. Whole inner
/// types are stepped over; `kOf` says what is counted down, the result counts the other.
enum class Given : uint8_t { bytes, elements };

template <Given kOf>
int64_t given(const Datatype& type) noexcept {
  return kOf == Given::bytes ? type.size() : type.elements();
}
template <Given kOf>
int64_t asked(const Datatype& type) noexcept {
  return kOf == Given::bytes ? type.elements() : type.size();
}

/// Takes as many of `copies` whole elements as fit. True: all.
template <Given kOf>
bool take(const Datatype& type, int64_t copies, int64_t& left, int64_t& result) noexcept {
  const int64_t each = given<kOf>(type);
  if (each == 0) return true;
  const int64_t whole = left / each < copies ? left / each : copies;
  left -= whole * each;
  result += whole * asked<kOf>(type);
  return whole == copies;
}

/// The part of one element that `left` covers.
template <Given kOf>
void take_part(const Datatype& type, int64_t& left, int64_t& result) noexcept {
  if (type.predefined()) {
    if (type.element() != Element::pair) return;
    const int64_t value = sizes_of(type.value()).size;
    const int64_t needed = kOf == Given::bytes ? value : 1;
    if (left < needed) return;
    left -= needed;
    result += kOf == Given::bytes ? 1 : value;
    return;
  }
  // One round of the loops after the other has the same parts.
  const Shape& shape = type.recipe->shape;
  int64_t round = 0;
  int64_t worth = 0;
  for (const Part& part : shape.parts) {
    round += part.copies * given<kOf>(*shape.inners[part.inner]);
    worth += part.copies * asked<kOf>(*shape.inners[part.inner]);
  }
  if (round == 0) return;
  result += left / round * worth;
  left %= round;
  for (const Part& part : shape.parts) {
    const Datatype& inner = *shape.inners[part.inner];
    if (take<kOf>(inner, part.copies, left, result)) continue;
    return take_part<kOf>(inner, left, result);
  }
}

/// From bytes to elements, or back. `left`: what was not used. False: more than can be told.
template <Given kOf>
bool convert(const Datatype& type, int64_t& left, int64_t& result) noexcept {
  result = 0;
  const int64_t each = given<kOf>(type);
  if (each == 0) return true;
  int64_t whole;
  if (__builtin_mul_overflow(left / each, asked<kOf>(type), &whole)) return false;
  left %= each;
  if (left != 0) take_part<kOf>(type, left, result);
  return !__builtin_add_overflow(whole, result, &result);
}

}  // namespace

int64_t elements_in(const Datatype& type, int64_t bytes) {
  int64_t result;
  (void)convert<Given::bytes>(type, bytes, result);  // each element has a byte at least
  return bytes == 0 ? result : MPI_UNDEFINED;
}

namespace calls {

void Get_count(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  const Datatype& type = any_datatype(datatype);
  require(status != MPI_STATUS_IGNORE, MPI_ERR_ARG, "no status given");
  require(count != nullptr, MPI_ERR_ARG, "no place for the count");
  const int64_t bytes = bytes_of(*status);
  if (type.size() == 0) {
    *count = bytes == 0 ? 0 : MPI_UNDEFINED;
  } else {
    *count = bytes % type.size() == 0 ? bytes / type.size() : MPI_UNDEFINED;
  }
}

void Get_elements(const MPI_Status* status, MPI_Datatype datatype, MPI_Count* count) {
  const Datatype& type = any_datatype(datatype);
  require(status != MPI_STATUS_IGNORE, MPI_ERR_ARG, "no status given");
  require(count != nullptr, MPI_ERR_ARG, "no place for the count");
  *count = elements_in(type, bytes_of(*status));
}

void Status_set_elements(MPI_Status* status, MPI_Datatype datatype, MPI_Count count) {
  const Datatype& type = any_datatype(datatype);
  require(status != MPI_STATUS_IGNORE, MPI_ERR_ARG, "no status given");
  require(count >= 0, MPI_ERR_COUNT, "a negative count");
  MPI_Count left = count;
  int64_t bytes;
  if (!convert<Given::elements>(type, left, bytes))
    fail(MPI_ERR_COUNT, "so many elements have more bytes than can be counted");
  set_bytes(*status, bytes);
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
