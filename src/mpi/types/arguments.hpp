// Gathers the arguments of a type constructor in the order in which get_contents gives them back.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/counts.hpp"
#include "mpi/datatype.hpp"
#include "mpi/types/recipe.hpp"

namespace weft::mpi {

/// The form of a constructor that a program called. Values that an int cannot hold make any form
/// the large one.
enum class Form : uint8_t { plain, large };

/// One constructor call under way. Counts and addresses are told apart because the plain form gives
/// them back in two arrays; the large form gives all of them back as counts.
class Construction {
 public:
  Construction(int combiner, Form form, MPI_Datatype* newtype);

  /// An argument that is an int in both forms.
  void integer(int value) { integers_.push_back({Kind::integer, value}); }
  void count(MPI_Count value);
  void address(MPI_Aint value) { integers_.push_back({Kind::address, value}); }
  void counts(Counts values, MPI_Count number);
  void addresses(const MPI_Aint* values, MPI_Count number);
  /// An inner type, as the program named it. Throws MPI_ERR_TYPE.
  Datatype& inner(MPI_Datatype type);

  Shape shape;

  /// Makes the type of what was gathered; `finish` also gives it a handle.
  [[nodiscard]] Held<Datatype> make();
  void finish() { finish(make()); }
  void finish(Held<Datatype> type);

 private:
  enum class Kind : uint8_t { integer, count, address };
  struct Argument {
    Kind kind;
    MPI_Count value;
  };
  std::vector<Argument> integers_;
  std::shared_ptr<TypeRecipe> recipe_;
  MPI_Datatype* newtype_;
};

}  // namespace weft::mpi
