// Datatype objects: their table, packing, and where they begin and end.
#include "mpi/datatype.hpp"

#include <fmt/format.h>

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi/attributes.hpp"
#include "mpi/op.hpp"
#include "mpi/process.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/combiners.hpp"
#include "mpi/types/plan.hpp"
#include "mpi/types/predefined.hpp"

namespace weft::mpi {

Datatype& any_datatype(MPI_Datatype handle) {
  Datatype* type = datatypes().find(handle);
  if (type == nullptr) fail(MPI_ERR_TYPE, "not a datatype: null, freed, or never made");
  return *type;
}

void Datatype::pack(const void* buffer, int64_t count, int64_t offset,
                    std::span<std::byte> into) const {
  if (into.empty()) return;
  if (contiguous_) {
    std::memcpy(into.data(), static_cast<const std::byte*>(buffer) + offset, into.size());
    return;
  }
  plan->pack(buffer, count, offset, into.data(), static_cast<int64_t>(into.size()));
}

void Datatype::unpack(void* buffer, int64_t count, int64_t offset,
                      std::span<const std::byte> from) const {
  if (from.empty()) return;
  if (contiguous_) {
    std::memcpy(static_cast<std::byte*>(buffer) + offset, from.data(), from.size());
    return;
  }
  plan->unpack(buffer, count, offset, from.data(), static_cast<int64_t>(from.size()));
}

namespace {

/// Ends what programs left; with mpi.report_leaks, says so.
void end_leaked_types() {
  std::vector<MPI_Datatype> left;
  std::map<int, std::size_t> by_combiner;
  datatypes().for_each([&](MPI_Datatype handle, Datatype* type) {
    if (type->predefined()) return;
    left.push_back(handle);
    ++by_combiner[type->recipe->combiner];
  });
  for (const auto& [combiner, number] : by_combiner) {
    tell_leaks(fmt::format("datatypes of {}", maker_name(combiner)), number);
  }
  for (const MPI_Datatype handle : left) {
    if (Datatype* type = datatypes().remove(handle); type != nullptr) type->drop();
  }
}

void end_leaked_ops() {
  std::vector<MPI_Op> left;
  ops().for_each([&](MPI_Op handle, Op*) { left.push_back(handle); });
  tell_leaks("operations", left.size());
  for (const MPI_Op handle : left) {
    if (Op* leaked = ops().remove(handle); leaked != nullptr) leaked->drop();
  }
}

}  // namespace

void open_datatypes() {
  open_predefined_types();
  open_predefined_ops();
}

void close_datatypes() {
  end_leaked_ops();
  end_leaked_types();
  close_nameless_types();
  close_predefined_ops();
  close_predefined_types();
}

}  // namespace weft::mpi
