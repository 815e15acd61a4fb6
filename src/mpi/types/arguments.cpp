// Makes recipes of constructor arguments.
#include "mpi/types/arguments.hpp"

#include <limits>
#include <utility>

#include "mpi/failure.hpp"
#include "mpi/types/builder.hpp"

namespace weft::mpi {

Construction::Construction(int combiner, Form form, MPI_Datatype* newtype)
    : recipe_(std::make_shared<TypeRecipe>()), newtype_(newtype) {
  require(newtype != nullptr, MPI_ERR_ARG, "no place for the new datatype");
  recipe_->combiner = combiner;
  recipe_->large = form == Form::large;
}

void Construction::count(MPI_Count value) {
  if (value > std::numeric_limits<int>::max() || value < std::numeric_limits<int>::min()) {
    recipe_->large = true;
  }
  integers_.push_back({Kind::count, value});
}

void Construction::counts(Counts values, MPI_Count number) {
  integers_.reserve(integers_.size() + static_cast<std::size_t>(number));
  for (MPI_Count i = 0; i < number; ++i) count(values[static_cast<std::size_t>(i)]);
}

void Construction::addresses(const MPI_Aint* values, MPI_Count number) {
  integers_.reserve(integers_.size() + static_cast<std::size_t>(number));
  for (MPI_Count i = 0; i < number; ++i) address(values[i]);
}

Datatype& Construction::inner(MPI_Datatype type) {
  Datatype& inner = any_datatype(type);
  recipe_->types.emplace_back(&inner);
  shape.inners.emplace_back(&inner);
  return inner;
}

Held<Datatype> Construction::make() {
  for (const Argument& argument : integers_) {
    if (recipe_->large && argument.kind != Kind::integer) {
      recipe_->counts.push_back(argument.value);
    } else if (argument.kind == Kind::address) {
      recipe_->addresses.push_back(argument.value);
    } else {
      recipe_->integers.push_back(static_cast<int>(argument.value));
    }
  }
  recipe_->shape = std::move(shape);
  return TypeBuilder::derived(std::move(recipe_));
}

void Construction::finish(Held<Datatype> type) {
  *newtype_ = datatypes().add(type.get());
  (void)type.release();
}

}  // namespace weft::mpi
