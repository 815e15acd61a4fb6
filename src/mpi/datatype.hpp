// Datatypes: what a program described, and the plan that was compiled from it at commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mpi/abi/mpi.h"
#include "mpi/failure.hpp"
#include "mpi/handle.hpp"
#include "weft/base/types.hpp"

namespace weft::mpi {

class TypeRecipe;  // types/: how it was constructed, for get_contents and get_envelope
class PackPlan;    // types/: compiled at commit
class AttributeSet;

/// The basic element that all of a type consists of; `mixed` where there are several. Letters and
/// bits: i, u: integers; f: floating point (f80: long double); c: complex, by the bits of one part;
/// l: Fortran's LOGICAL. `pair`: a value and an index, for MINLOC and MAXLOC.
enum class Element : uint8_t {
  none,
  mixed,
  pair,
  i8,
  i16,
  i32,
  i64,
  i128,
  u8,
  u16,
  u32,
  u64,
  c_long,
  c_unsigned_long,
  f16,
  f32,
  f64,
  f80,
  f128,
  c16,
  c32,
  c64,
  c80,
  c128,
  boolean,
  l8,
  l16,
  l32,
  l64,
  l128,
  character,
  wide_character,
  byte,
  packed
};
inline constexpr std::size_t kElements = static_cast<std::size_t>(Element::packed) + 1;

/// The groups that say which predefined operations go with a basic type (MPI 6.9.2). Derived types
/// have none.
enum class Family : uint8_t {
  none,
  c_integer,
  character,
  fortran_integer,
  multi_language,
  floating,
  complex,
  logical,
  byte,
  pair
};

/// A datatype. Immutable once committed, but for name and attributes (own locks).
///
/// Held by its handle and by each operation under way. Sizes in bytes. Layout of `count` elements:
/// element i lies at `buffer + i * extent()`.
class Datatype : public Counted {
 public:
  // The fast path's fields first.
  [[nodiscard]] int64_t size() const noexcept { return size_; }
  /// True: `count` elements are one run of count * size() bytes that starts at the buffer.
  [[nodiscard]] bool contiguous() const noexcept { return contiguous_; }
  [[nodiscard]] int64_t extent() const noexcept { return extent_; }
  [[nodiscard]] int64_t lower_bound() const noexcept { return lower_bound_; }
  [[nodiscard]] int64_t true_lower_bound() const noexcept { return true_lower_bound_; }
  [[nodiscard]] int64_t true_extent() const noexcept { return true_extent_; }
  [[nodiscard]] bool committed() const noexcept { return committed_; }
  [[nodiscard]] bool predefined() const noexcept { return predefined_; }
  [[nodiscard]] int64_t true_upper_bound() const noexcept {
    return true_lower_bound_ + true_extent_;
  }
  /// The basic element, and how many of them one datatype has. A pair counts as two.
  [[nodiscard]] Element element() const noexcept { return element_; }
  [[nodiscard]] int64_t elements() const noexcept { return elements_; }

  /// Of basic types; derived ones have none.
  [[nodiscard]] Family family() const noexcept { return family_; }
  /// Of pairs (`element()` is Element::pair).
  [[nodiscard]] Element value() const noexcept { return value_; }
  [[nodiscard]] Element index() const noexcept { return index_; }
  /// Alignment of its strictest element; whether its bounds were set by the program (resized), and
  /// so hold for types made of it.
  [[nodiscard]] int64_t alignment() const noexcept { return alignment_; }
  [[nodiscard]] bool marked() const noexcept { return marked_; }
  /// False: an optional type of Fortran's that its compiler lacks (MPI 21.4.1).
  [[nodiscard]] bool supported() const noexcept { return supported_; }
  /// The handle of a predefined type.
  [[nodiscard]] MPI_Datatype predefined_handle() const noexcept { return predefined_handle_; }

  /// Copies bytes [`offset`, `offset + into.size()`) of the packed form of `count` elements at
  /// `buffer`. Needs a commit. Thread-safe.
  void pack(const void* buffer, int64_t count, int64_t offset, std::span<std::byte> into) const;
  /// The other way; bytes of the buffer that belong to no element are left alone.
  void unpack(void* buffer, int64_t count, int64_t offset, std::span<const std::byte> from) const;

 protected:
  friend class TypeBuilder;  // types/
  Datatype();
  ~Datatype() override;
  int64_t size_ = 0;
  int64_t extent_ = 0;
  int64_t lower_bound_ = 0;
  int64_t true_lower_bound_ = 0;
  int64_t true_extent_ = 0;
  int64_t elements_ = 0;
  int64_t alignment_ = 1;
  MPI_Datatype predefined_handle_ = MPI_DATATYPE_NULL;
  Element element_ = Element::none;
  Element value_ = Element::none;
  Element index_ = Element::none;
  Family family_ = Family::none;
  bool marked_ = false;
  bool contiguous_ = false;
  bool committed_ = false;
  bool predefined_ = false;
  bool supported_ = true;

 public:
  std::shared_ptr<const TypeRecipe> recipe;  ///< none: a named type
  std::shared_ptr<const PackPlan> plan;      ///< none: not committed
  std::unique_ptr<AttributeSet> attributes;  ///< never empty
  std::string name;                          ///< under a lock of types/
};

inline constinit HandleTable<Datatype, MPI_Datatype> datatype_table;
inline HandleTable<Datatype, MPI_Datatype>& datatypes() noexcept { return datatype_table; }

/// The type of a handle, for communication: throws MPI_ERR_TYPE for null, bad or (when checking)
/// uncommitted ones.
inline const Datatype& datatype(MPI_Datatype handle) {
  const Datatype* type = datatypes().find(handle);
  if (type == nullptr) [[unlikely]]
    fail(MPI_ERR_TYPE, "not a datatype: null, freed, or never made");
  if (!type->committed()) [[unlikely]]
    require(false, MPI_ERR_TYPE, "the datatype was not committed");
  return *type;
}
/// The same for calls that take uncommitted ones.
Datatype& any_datatype(MPI_Datatype handle);

/// No message is longer: a process has not so many addresses.
inline constexpr int64_t kLongestMessage = int64_t{1} << 47;
/// Whether a count is to be looked at: it is negative, or may come to more than kLongestMessage.
[[nodiscard]] inline bool is_doubtful(int64_t count, const Datatype& type) noexcept {
  return (static_cast<uint64_t>(count) | static_cast<uint64_t>(type.size())) >> 23 != 0;
}
/// Throws MPI_ERR_COUNT for such a count, if arguments are checked.
void require_count(int64_t count, const Datatype& type);

/// Number of basic elements in `bytes` of packed data of this type (MPI_Get_elements);
/// MPI_UNDEFINED if the last one is not whole.
int64_t elements_in(const Datatype& type, int64_t bytes);

}  // namespace weft::mpi
