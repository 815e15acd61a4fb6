// Subarrays and distributed arrays.
#include <algorithm>
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/counts.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/arguments.hpp"
#include "mpi/types/builder.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {
namespace {

void check_order(int order) {
  require(order == MPI_ORDER_C || order == MPI_ORDER_FORTRAN, MPI_ERR_ARG,
          "the order is neither MPI_ORDER_C nor MPI_ORDER_FORTRAN");
}

/// Dimensions from the one that varies slowest to the one that varies fastest.
std::vector<std::size_t> slow_to_fast(int ndims, int order) {
  std::vector<std::size_t> dims(static_cast<std::size_t>(ndims));
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dims[i] = order == MPI_ORDER_C ? i : dims.size() - 1 - i;
  }
  return dims;
}

void check_subarray(int ndims, Counts sizes, Counts subsizes, Counts starts) {
  require(ndims > 0, MPI_ERR_ARG, "an array has at least one dimension");
  require(!sizes.null() && !subsizes.null() && !starts.null(), MPI_ERR_ARG,
          "no sizes, subsizes or starts");
  for (std::size_t i = 0; i < static_cast<std::size_t>(ndims); ++i) {
    require(sizes[i] > 0, MPI_ERR_ARG, "a size of the array is not positive");
    require(subsizes[i] > 0 && subsizes[i] <= sizes[i], MPI_ERR_ARG,
            "a subsize is not positive, or larger than the array");
    require(starts[i] >= 0 && starts[i] <= sizes[i] - subsizes[i], MPI_ERR_ARG,
            "a start lies outside of the array, or the subarray ends outside");
  }
}

void subarray(Form form, int ndims, Counts sizes, Counts subsizes, Counts starts, int order,
              MPI_Datatype oldtype, MPI_Datatype* newtype) {
  check_subarray(ndims, sizes, subsizes, starts);
  check_order(order);
  Construction type(MPI_COMBINER_SUBARRAY, form, newtype);
  type.integer(ndims);
  type.counts(sizes, ndims);
  type.counts(subsizes, ndims);
  type.counts(starts, ndims);
  type.integer(order);
  const Datatype& inner = type.inner(oldtype);

  int64_t stride = inner.extent();
  int64_t offset = 0;
  std::vector<std::size_t> dims = slow_to_fast(ndims, order);
  const std::size_t fastest = dims.back();
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    offset = plus(offset, times(starts[*dim], stride));
    if (*dim != fastest) type.shape.loops.push_back({subsizes[*dim], stride});
    stride = times(stride, sizes[*dim]);
  }
  std::reverse(type.shape.loops.begin(), type.shape.loops.end());
  type.shape.parts.push_back({offset, subsizes[fastest], 0});
  Held<Datatype> made = type.make();
  TypeBuilder::mark(*made, 0, stride);
  type.finish(std::move(made));
}

/// A process's share of one dimension of a distributed array.
struct DimensionShare {
  MPI_Count size;  ///< of the dimension
  int distribution;
  int argument;
  int processes;  ///< along the dimension
  int place;      ///< of this process among them
};

void check_share(const DimensionShare& share) {
  require(share.size > 0, MPI_ERR_ARG, "a size of the array is not positive");
  require(share.processes > 0, MPI_ERR_ARG, "a size of the process grid is not positive");
  // That of a dimension that is not distributed is ignored (MPI 5.1.4).
  require(share.distribution == MPI_DISTRIBUTE_NONE || share.argument == MPI_DISTRIBUTE_DFLT_DARG ||
              share.argument > 0,
          MPI_ERR_ARG, "a distribution argument is not positive");
  switch (share.distribution) {
    case MPI_DISTRIBUTE_BLOCK:
      require(share.argument == MPI_DISTRIBUTE_DFLT_DARG ||
                  MPI_Count{share.argument} * share.processes >= share.size,
              MPI_ERR_ARG, "the blocks of a distribution do not cover the array");
      break;
    case MPI_DISTRIBUTE_CYCLIC:
      break;
    case MPI_DISTRIBUTE_NONE:
      require(share.processes == 1, MPI_ERR_ARG,
              "a dimension that is not distributed has several processes");
      break;
    default:
      require(false, MPI_ERR_ARG, "not a distribution of an array");
  }
}

/// A type inside of another, which no program sees.
Held<Datatype> internal(Shape shape) {
  auto recipe = std::make_shared<TypeRecipe>();
  recipe->shape = std::move(shape);
  return TypeBuilder::derived(std::move(recipe));
}

/// What the process has of a dimension whose elements are `element`s.
Held<Datatype> share_of(const DimensionShare& share, const Held<Datatype>& element) {
  const bool chosen = share.argument != MPI_DISTRIBUTE_DFLT_DARG;
  MPI_Count block = share.size;
  if (share.distribution == MPI_DISTRIBUTE_BLOCK) {
    block = chosen ? share.argument : (share.size + share.processes - 1) / share.processes;
  } else if (share.distribution == MPI_DISTRIBUTE_CYCLIC) {
    block = chosen ? share.argument : 1;
  }
  const int64_t extent = element->extent();
  const MPI_Count period = times(block, share.processes);
  const MPI_Count first = times(block, share.place);
  const MPI_Count left = std::max<MPI_Count>(share.size - first, 0);
  const MPI_Count whole = left / period + (left % period >= block ? 1 : 0);
  const MPI_Count rest = left % period < block ? left % period : 0;

  Shape blocks;
  blocks.inners.push_back(element);
  blocks.loops.push_back({whole, times(period, extent)});
  blocks.parts.push_back({times(first, extent), block, 0});
  Shape all;
  all.inners.push_back(internal(std::move(blocks)));
  all.inners.push_back(element);
  all.parts.push_back({0, 1, 0});
  all.parts.push_back({times(plus(first, times(whole, period)), extent), rest, 1});
  Held<Datatype> type = internal(std::move(all));
  TypeBuilder::mark(*type, 0, times(share.size, extent));
  return type;
}

std::vector<DimensionShare> shares(int size, int rank, int ndims, Counts gsizes,
                                   const int* distribs, const int* dargs, const int* psizes) {
  require(ndims > 0, MPI_ERR_ARG, "an array has at least one dimension");
  require(size > 0 && rank >= 0 && rank < size, MPI_ERR_ARG, "the rank is not one of the grid's");
  require(!gsizes.null() && distribs != nullptr && dargs != nullptr && psizes != nullptr,
          MPI_ERR_ARG, "no sizes, distributions, arguments or process grid");
  std::vector<DimensionShare> result;
  int64_t processes = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(ndims); ++i) {
    result.push_back({gsizes[i], distribs[i], dargs[i], psizes[i], 0});
    check_share(result.back());
    processes = times(processes, psizes[i]);
  }
  require(processes == size, MPI_ERR_ARG, "the process grid does not have as many as there are");
  // Ranks count through the grid with the last dimension fastest, whatever the array's order.
  for (std::size_t i = result.size(); i-- > 0;) {
    result[i].place = rank % result[i].processes;
    rank /= result[i].processes;
  }
  return result;
}

void darray(Form form, int size, int rank, int ndims, Counts gsizes, const int* distribs,
            const int* dargs, const int* psizes, int order, MPI_Datatype oldtype,
            MPI_Datatype* newtype) {
  const std::vector<DimensionShare> dims =
      shares(size, rank, ndims, gsizes, distribs, dargs, psizes);
  check_order(order);
  Construction type(MPI_COMBINER_DARRAY, form, newtype);
  type.integer(size);
  type.integer(rank);
  type.integer(ndims);
  type.counts(gsizes, ndims);
  for (const int* list : {distribs, dargs, psizes}) {
    for (int i = 0; i < ndims; ++i) type.integer(list[i]);
  }
  type.integer(order);
  Held<Datatype> share(&type.inner(oldtype));
  const std::vector<std::size_t> places = slow_to_fast(ndims, order);
  for (auto dim = places.rbegin(); dim != places.rend(); ++dim) {
    share = share_of(dims[*dim], share);
  }
  type.shape.inners = {share};
  type.shape.parts.push_back({0, 1, 0});
  type.finish();
}

}  // namespace

namespace calls {

void Type_create_subarray(int ndims, Counts sizes, Counts subsizes, Counts starts, int order,
                          MPI_Datatype oldtype, MPI_Datatype* newtype) {
  subarray(Form::plain, ndims, sizes, subsizes, starts, order, oldtype, newtype);
}
void Type_create_subarray_c(int ndims, Counts sizes, Counts subsizes, Counts starts, int order,
                            MPI_Datatype oldtype, MPI_Datatype* newtype) {
  subarray(Form::large, ndims, sizes, subsizes, starts, order, oldtype, newtype);
}

void Type_create_darray(int size, int rank, int ndims, Counts gsizes, const int* distribs,
                        const int* dargs, const int* psizes, int order, MPI_Datatype oldtype,
                        MPI_Datatype* newtype) {
  darray(Form::plain, size, rank, ndims, gsizes, distribs, dargs, psizes, order, oldtype, newtype);
}
void Type_create_darray_c(int size, int rank, int ndims, Counts gsizes, const int* distribs,
                          const int* dargs, const int* psizes, int order, MPI_Datatype oldtype,
                          MPI_Datatype* newtype) {
  darray(Form::large, size, rank, ndims, gsizes, distribs, dargs, psizes, order, oldtype, newtype);
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
