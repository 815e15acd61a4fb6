// How a datatype was made: MPI_Type_get_envelope and MPI_Type_get_contents.
#include <algorithm>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/combiners.hpp"
#include "mpi/types/recipe.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {

const char* maker_name(int combiner) noexcept {
  switch (combiner) {
    case MPI_COMBINER_DUP:
      return "MPI_Type_dup";
    case MPI_COMBINER_CONTIGUOUS:
      return "MPI_Type_contiguous";
    case MPI_COMBINER_VECTOR:
      return "MPI_Type_vector";
    case MPI_COMBINER_HVECTOR:
      return "MPI_Type_create_hvector";
    case MPI_COMBINER_INDEXED:
      return "MPI_Type_indexed";
    case MPI_COMBINER_HINDEXED:
      return "MPI_Type_create_hindexed";
    case MPI_COMBINER_INDEXED_BLOCK:
      return "MPI_Type_create_indexed_block";
    case MPI_COMBINER_HINDEXED_BLOCK:
      return "MPI_Type_create_hindexed_block";
    case MPI_COMBINER_STRUCT:
      return "MPI_Type_create_struct";
    case MPI_COMBINER_SUBARRAY:
      return "MPI_Type_create_subarray";
    case MPI_COMBINER_DARRAY:
      return "MPI_Type_create_darray";
    case MPI_COMBINER_RESIZED:
      return "MPI_Type_create_resized";
    default:
      return "a predefined datatype";
  }
}

namespace {

const TypeRecipe& recipe_of(const Datatype& type) {
  static const TypeRecipe& named = never_destroyed<TypeRecipe>();
  return type.recipe != nullptr ? *type.recipe : named;
}

/// Recipes in the large form do not fit the plain calls.
void check_plain(const TypeRecipe& recipe) {
  if (recipe.large && !recipe.counts.empty()) {
    fail(
        MPI_ERR_TYPE,
        "the datatype was made with large counts: only the large-count form of this call can tell");
  }
}

/// A handle for what a program passed as an inner type: predefined ones stay what they are, for
/// others there is a new handle that the program frees.
MPI_Datatype handle_for(const Datatype& type) {
  if (type.predefined()) return type.predefined_handle();
  Held<Datatype> copy = TypeBuilder::copy(type);
  const MPI_Datatype handle = datatypes().add(copy.get());
  (void)copy.release();
  return handle;
}

template <class T>
void give(const std::vector<T>& values, MPI_Count room, T* to, const char* too_small) {
  require(room >= static_cast<MPI_Count>(values.size()), MPI_ERR_ARG, too_small);
  require(values.empty() || to != nullptr, MPI_ERR_ARG, "no array for the arguments");
  std::copy(values.begin(), values.end(), to);
}

}  // namespace

namespace calls {

void Type_get_envelope_c(MPI_Datatype datatype, MPI_Count* num_integers, MPI_Count* num_addresses,
                         MPI_Count* num_large_counts, MPI_Count* num_datatypes, int* combiner) {
  const TypeRecipe& recipe = recipe_of(any_datatype(datatype));
  require(num_integers != nullptr && num_addresses != nullptr && num_large_counts != nullptr &&
              num_datatypes != nullptr && combiner != nullptr,
          MPI_ERR_ARG, "no place for the numbers of arguments");
  *num_integers = static_cast<MPI_Count>(recipe.integers.size());
  *num_addresses = static_cast<MPI_Count>(recipe.addresses.size());
  *num_large_counts = static_cast<MPI_Count>(recipe.counts.size());
  *num_datatypes = static_cast<MPI_Count>(recipe.types.size());
  *combiner = recipe.combiner;
}

void Type_get_envelope(MPI_Datatype datatype, int* num_integers, int* num_addresses,
                       int* num_datatypes, int* combiner) {
  const TypeRecipe& recipe = recipe_of(any_datatype(datatype));
  check_plain(recipe);
  require(num_integers != nullptr && num_addresses != nullptr && num_datatypes != nullptr &&
              combiner != nullptr,
          MPI_ERR_ARG, "no place for the numbers of arguments");
  *num_integers = static_cast<int>(recipe.integers.size());
  *num_addresses = static_cast<int>(recipe.addresses.size());
  *num_datatypes = static_cast<int>(recipe.types.size());
  *combiner = recipe.combiner;
}

void Type_get_contents_c(MPI_Datatype datatype, MPI_Count max_integers, MPI_Count max_addresses,
                         MPI_Count max_large_counts, MPI_Count max_datatypes, int* integers,
                         MPI_Aint* addresses, MPI_Count* large_counts, MPI_Datatype* types) {
  const TypeRecipe& recipe = recipe_of(any_datatype(datatype));
  if (recipe.combiner == MPI_COMBINER_NAMED) {
    fail(MPI_ERR_TYPE, "a named datatype was not constructed and has no contents");
  }
  give(recipe.integers, max_integers, integers, "fewer places than integer arguments");
  give(recipe.addresses, max_addresses, addresses, "fewer places than addresses");
  give(recipe.counts, max_large_counts, large_counts, "fewer places than large counts");
  require(max_datatypes >= static_cast<MPI_Count>(recipe.types.size()), MPI_ERR_ARG,
          "fewer places than datatypes");
  require(recipe.types.empty() || types != nullptr, MPI_ERR_ARG, "no array for the datatypes");
  for (const Held<Datatype>& inner : recipe.types) *types++ = handle_for(*inner);
}

void Type_get_contents(MPI_Datatype datatype, int max_integers, int max_addresses,
                       int max_datatypes, int* integers, MPI_Aint* addresses, MPI_Datatype* types) {
  check_plain(recipe_of(any_datatype(datatype)));
  Type_get_contents_c(datatype, max_integers, max_addresses, 0, max_datatypes, integers, addresses,
                      nullptr, types);
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
