// Makes Datatype objects: computes sizes and bounds, compiles plans at commit.
#pragma once

#include <cstdint>
#include <memory>

#include "mpi/datatype.hpp"
#include "mpi/handle.hpp"
#include "mpi/types/recipe.hpp"

namespace weft::mpi {

/// The only maker of datatypes. Stateless.
class TypeBuilder {
 public:
  /// A predefined type of one basic element. Committed.
  static Held<Datatype> basic(MPI_Datatype handle, Element element, Family family,
                              const char* name);
  /// A predefined pair of value and index, laid out as a C struct. Committed.
  static Held<Datatype> pair(MPI_Datatype handle, Element value, Element index, const char* name);
  /// A type of the recipe's shape. Throws MPI_ERR_ARG where addresses would not hold it.
  static Held<Datatype> derived(std::shared_ptr<const TypeRecipe> recipe);
  /// Another object that is the same type, committed if `type` is; without name and attributes.
  static Held<Datatype> copy(const Datatype& type);
  /// Sets bounds that hold whatever the type consists of (resized, subarray, darray).
  static void mark(Datatype& type, int64_t lower_bound, int64_t extent);
  static void commit(Datatype& type);
  /// Makes `type` one of the predefined ones (those that have a recipe but no constructor that
  /// programs free after).
  static void make_predefined(Datatype& type, std::shared_ptr<const TypeRecipe> recipe);
  static void set_unsupported(Datatype& type) { type.supported_ = false; }
  static void set_handle(Datatype& type, MPI_Datatype handle) { type.predefined_handle_ = handle; }

 private:
  static Held<Datatype> make();
};

/// Size and alignment in memory, and size in external32, of basic elements.
struct ElementSizes {
  uint8_t size;
  uint8_t alignment;
  uint8_t external;
};
[[nodiscard]] ElementSizes sizes_of(Element element) noexcept;
/// Where the index of a pair lies, and how far pairs are apart.
struct PairLayout {
  int64_t index_offset;
  int64_t extent;
};
[[nodiscard]] PairLayout pair_layout(Element value, Element index) noexcept;

/// Checked arithmetic on what programs give: throws MPI_ERR_ARG on overflow.
[[nodiscard]] int64_t times(int64_t a, int64_t b);
[[nodiscard]] int64_t plus(int64_t a, int64_t b);

}  // namespace weft::mpi
