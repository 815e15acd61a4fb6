// MPI's type constructors but for those of arrays (arrays.cpp) and of Fortran kinds (nameless.cpp).
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/attributes.hpp"
#include "mpi/counts.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/arguments.hpp"
#include "mpi/types/builder.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {
namespace {

void check_count(MPI_Count count) { require(count >= 0, MPI_ERR_COUNT, "a negative count"); }

void check_length(MPI_Count length) {
  require(length >= 0, MPI_ERR_ARG, "a negative block length");
}

void check_list(bool given, MPI_Count count, const char* what) {
  if (count > 0) require(given, MPI_ERR_ARG, what);
}

void contiguous(Form form, MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  check_count(count);
  Construction type(MPI_COMBINER_CONTIGUOUS, form, newtype);
  type.count(count);
  type.inner(oldtype);
  type.shape.parts.push_back({0, count, 0});
  type.finish();
}

void vector(Form form, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
            MPI_Datatype* newtype) {
  check_count(count);
  check_length(length);
  Construction type(MPI_COMBINER_VECTOR, form, newtype);
  type.count(count);
  type.count(length);
  type.count(stride);
  const Datatype& inner = type.inner(oldtype);
  type.shape.loops.push_back({count, times(stride, inner.extent())});
  type.shape.parts.push_back({0, length, 0});
  type.finish();
}

void hvector(Form form, MPI_Count count, MPI_Count length, MPI_Count stride, MPI_Datatype oldtype,
             MPI_Datatype* newtype) {
  check_count(count);
  check_length(length);
  Construction type(MPI_COMBINER_HVECTOR, form, newtype);
  type.count(count);
  type.count(length);
  type.address(stride);
  type.inner(oldtype);
  type.shape.loops.push_back({count, stride});
  type.shape.parts.push_back({0, length, 0});
  type.finish();
}

/// Puts `count` blocks into the shape; displacements in units of `unit` bytes.
template <class Lengths, class Displacements>
void add_blocks(Shape& shape, MPI_Count count, Lengths lengths, Displacements displacements,
                int64_t unit) {
  shape.parts.reserve(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const MPI_Count length = lengths(i);
    check_length(length);
    shape.parts.push_back({times(displacements(i), unit), length, 0});
  }
}

void indexed(Form form, MPI_Count count, Counts lengths, Counts displacements, MPI_Datatype oldtype,
             MPI_Datatype* newtype) {
  check_count(count);
  check_list(!lengths.null(), count, "no block lengths");
  check_list(!displacements.null(), count, "no displacements");
  Construction type(MPI_COMBINER_INDEXED, form, newtype);
  type.count(count);
  type.counts(lengths, count);
  type.counts(displacements, count);
  const Datatype& inner = type.inner(oldtype);
  add_blocks(
      type.shape, count, [&](std::size_t i) { return lengths[i]; },
      [&](std::size_t i) { return displacements[i]; }, inner.extent());
  type.finish();
}

void hindexed(Form form, MPI_Count count, Counts lengths, const MPI_Count* displacements,
              MPI_Datatype oldtype, MPI_Datatype* newtype) {
  check_count(count);
  check_list(!lengths.null(), count, "no block lengths");
  check_list(displacements != nullptr, count, "no displacements");
  Construction type(MPI_COMBINER_HINDEXED, form, newtype);
  type.count(count);
  type.counts(lengths, count);
  type.addresses(displacements, count);
  type.inner(oldtype);
  add_blocks(
      type.shape, count, [&](std::size_t i) { return lengths[i]; },
      [&](std::size_t i) { return displacements[i]; }, 1);
  type.finish();
}

void indexed_block(Form form, MPI_Count count, MPI_Count length, Counts displacements,
                   MPI_Datatype oldtype, MPI_Datatype* newtype) {
  check_count(count);
  check_length(length);
  check_list(!displacements.null(), count, "no displacements");
  Construction type(MPI_COMBINER_INDEXED_BLOCK, form, newtype);
  type.count(count);
  type.count(length);
  type.counts(displacements, count);
  const Datatype& inner = type.inner(oldtype);
  add_blocks(
      type.shape, count, [&](std::size_t) { return length; },
      [&](std::size_t i) { return displacements[i]; }, inner.extent());
  type.finish();
}

void hindexed_block(Form form, MPI_Count count, MPI_Count length, const MPI_Count* displacements,
                    MPI_Datatype oldtype, MPI_Datatype* newtype) {
  check_count(count);
  check_length(length);
  check_list(displacements != nullptr, count, "no displacements");
  Construction type(MPI_COMBINER_HINDEXED_BLOCK, form, newtype);
  type.count(count);
  type.count(length);
  type.addresses(displacements, count);
  type.inner(oldtype);
  add_blocks(
      type.shape, count, [&](std::size_t) { return length; },
      [&](std::size_t i) { return displacements[i]; }, 1);
  type.finish();
}

void structure(Form form, MPI_Count count, Counts lengths, const MPI_Count* displacements,
               const MPI_Datatype* types, MPI_Datatype* newtype) {
  check_count(count);
  check_list(!lengths.null(), count, "no block lengths");
  check_list(displacements != nullptr, count, "no displacements");
  check_list(types != nullptr, count, "no datatypes");
  Construction type(MPI_COMBINER_STRUCT, form, newtype);
  type.count(count);
  type.counts(lengths, count);
  type.addresses(displacements, count);
  for (MPI_Count i = 0; i < count; ++i) {
    const MPI_Count length = lengths[static_cast<std::size_t>(i)];
    check_length(length);
    type.inner(types[i]);
    type.shape.parts.push_back({displacements[i], length, static_cast<uint32_t>(i)});
  }
  type.finish();
}

void resized(Form form, MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent,
             MPI_Datatype* newtype) {
  Construction type(MPI_COMBINER_RESIZED, form, newtype);
  type.address(lb);
  type.address(extent);
  type.inner(oldtype);
  type.shape.parts.push_back({0, 1, 0});
  Held<Datatype> made = type.make();
  TypeBuilder::mark(*made, lb, extent);
  type.finish(std::move(made));
}

}  // namespace

namespace calls {

// The names without _c serve the plain forms, or both where nobody tells them apart.

void Type_contiguous(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  contiguous(Form::plain, count, oldtype, newtype);
}
void Type_contiguous_c(MPI_Count count, MPI_Datatype oldtype, MPI_Datatype* newtype) {
  contiguous(Form::large, count, oldtype, newtype);
}

void Type_vector(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                 MPI_Datatype* newtype) {
  vector(Form::plain, count, blocklength, stride, oldtype, newtype);
}
void Type_vector_c(MPI_Count count, MPI_Count blocklength, MPI_Count stride, MPI_Datatype oldtype,
                   MPI_Datatype* newtype) {
  vector(Form::large, count, blocklength, stride, oldtype, newtype);
}

void Type_create_hvector(MPI_Count count, MPI_Count blocklength, MPI_Count stride,
                         MPI_Datatype oldtype, MPI_Datatype* newtype) {
  hvector(Form::plain, count, blocklength, stride, oldtype, newtype);
}
void Type_create_hvector_c(MPI_Count count, MPI_Count blocklength, MPI_Count stride,
                           MPI_Datatype oldtype, MPI_Datatype* newtype) {
  hvector(Form::large, count, blocklength, stride, oldtype, newtype);
}

void Type_indexed(MPI_Count count, Counts blocklengths, Counts displacements, MPI_Datatype oldtype,
                  MPI_Datatype* newtype) {
  indexed(Form::plain, count, blocklengths, displacements, oldtype, newtype);
}
void Type_indexed_c(MPI_Count count, Counts blocklengths, Counts displacements,
                    MPI_Datatype oldtype, MPI_Datatype* newtype) {
  indexed(Form::large, count, blocklengths, displacements, oldtype, newtype);
}

void Type_create_hindexed(MPI_Count count, Counts blocklengths, const MPI_Count* displacements,
                          MPI_Datatype oldtype, MPI_Datatype* newtype) {
  hindexed(Form::plain, count, blocklengths, displacements, oldtype, newtype);
}
void Type_create_hindexed_c(MPI_Count count, Counts blocklengths, const MPI_Count* displacements,
                            MPI_Datatype oldtype, MPI_Datatype* newtype) {
  hindexed(Form::large, count, blocklengths, displacements, oldtype, newtype);
}

void Type_create_indexed_block(MPI_Count count, MPI_Count blocklength, Counts displacements,
                               MPI_Datatype oldtype, MPI_Datatype* newtype) {
  indexed_block(Form::plain, count, blocklength, displacements, oldtype, newtype);
}
void Type_create_indexed_block_c(MPI_Count count, MPI_Count blocklength, Counts displacements,
                                 MPI_Datatype oldtype, MPI_Datatype* newtype) {
  indexed_block(Form::large, count, blocklength, displacements, oldtype, newtype);
}

void Type_create_hindexed_block(MPI_Count count, MPI_Count blocklength,
                                const MPI_Count* displacements, MPI_Datatype oldtype,
                                MPI_Datatype* newtype) {
  hindexed_block(Form::plain, count, blocklength, displacements, oldtype, newtype);
}
void Type_create_hindexed_block_c(MPI_Count count, MPI_Count blocklength,
                                  const MPI_Count* displacements, MPI_Datatype oldtype,
                                  MPI_Datatype* newtype) {
  hindexed_block(Form::large, count, blocklength, displacements, oldtype, newtype);
}

void Type_create_struct(MPI_Count count, Counts blocklengths, const MPI_Count* displacements,
                        const MPI_Datatype* types, MPI_Datatype* newtype) {
  structure(Form::plain, count, blocklengths, displacements, types, newtype);
}
void Type_create_struct_c(MPI_Count count, Counts blocklengths, const MPI_Count* displacements,
                          const MPI_Datatype* types, MPI_Datatype* newtype) {
  structure(Form::large, count, blocklengths, displacements, types, newtype);
}

void Type_create_resized(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent,
                         MPI_Datatype* newtype) {
  resized(Form::plain, oldtype, lb, extent, newtype);
}
void Type_create_resized_c(MPI_Datatype oldtype, MPI_Count lb, MPI_Count extent,
                           MPI_Datatype* newtype) {
  resized(Form::large, oldtype, lb, extent, newtype);
}

void Type_dup(MPI_Datatype oldtype, MPI_Datatype* newtype) {
  Construction type(MPI_COMBINER_DUP, Form::plain, newtype);
  const Datatype& old = type.inner(oldtype);
  type.shape.parts.push_back({0, 1, 0});
  Held<Datatype> made = type.make();
  if (old.committed()) TypeBuilder::commit(*made);
  Datatype& copy = *made;
  type.finish(std::move(made));
  try {
    old.attributes->copy_to(AttributeOf::datatype, oldtype, *copy.attributes);
  } catch (...) {  // A copy callback refused, say; then nothing was made.
    copy.attributes->end_all(AttributeOf::datatype, *newtype);
    if (Datatype* removed = datatypes().remove(*newtype)) removed->drop();
    *newtype = MPI_DATATYPE_NULL;
    throw;
  }
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
