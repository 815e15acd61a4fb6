// The datatypes and operations that exist without being made.
#pragma once

#include <memory>

#include "mpi/abi/mpi.h"
#include "mpi/datatype.hpp"
#include "mpi/types/recipe.hpp"

namespace weft::mpi {

/// Makes all named types and gives them their handles; takes them back.
void open_predefined_types();
void close_predefined_types() noexcept;
void open_predefined_ops();
void close_predefined_ops() noexcept;

/// The predefined but nameless types: kept until finalization, one per recipe.
/// For numbers p and r (MPI_Type_create_f90_…): like the named type `base`.
MPI_Datatype f90_type(int combiner, int precision, int range, const Datatype& base);
/// For pairs that have no name.
MPI_Datatype unnamed_pair(MPI_Datatype value, MPI_Datatype index);
void close_nameless_types() noexcept;
/// Those made so far stay, and are not found again.
void forget_nameless_types();

}  // namespace weft::mpi
