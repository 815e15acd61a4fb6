// Datatype objects: their table, packing, and where they begin and end.
#include "mpi/datatype.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi/attributes.hpp"
#include "mpi/op.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/types/builder.hpp"
#include "mpi/types/combiners.hpp"
#include "mpi/types/plan.hpp"
#include "mpi/types/predefined.hpp"
#include "weft/base/copy.hpp"

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
    base::copy_bytes(into.data(), static_cast<const std::byte*>(buffer) + offset, into.size());
    return;
  }
  plan->pack(buffer, count, offset, into.data(), static_cast<int64_t>(into.size()));
}

void Datatype::unpack(void* buffer, int64_t count, int64_t offset,
                      std::span<const std::byte> from) const {
  if (from.empty()) return;
  if (contiguous_) {
    base::copy_bytes(static_cast<std::byte*>(buffer) + offset, from.data(), from.size());
    return;
  }
  plan->unpack(buffer, count, offset, from.data(), static_cast<int64_t>(from.size()));
}

namespace {

/// Ends what programs left; with mpi.report_leaks, says so.
void end_leaked_types() {
  std::vector<MPI_Datatype> left;
  std::map<int, std::vector<std::string>> by_combiner;
  datatypes().for_each([&](MPI_Datatype handle, Datatype* type, const void* call) {
    if (type->predefined()) return;
    left.push_back(handle);
    by_combiner[type->recipe->combiner].push_back(
        fmt::format("{} bytes{}", type->size(), made_at(call)));
  });
  for (const auto& [combiner, which] : by_combiner) {
    tell_leaks(fmt::format("datatypes of {}", maker_name(combiner)), which);
  }
  for (const MPI_Datatype handle : left) {
    if (Datatype* type = datatypes().remove(handle); type != nullptr) type->drop();
  }
}

void end_leaked_ops() {
  std::vector<MPI_Op> left;
  std::vector<std::string> which;
  ops().for_each([&](MPI_Op handle, Op*, const void* call) {
    left.push_back(handle);
    which.push_back("one" + made_at(call));
  });
  tell_leaks("operations", which);
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

void require_count(int64_t count, const Datatype& type) {
  if (!checking()) return;
  if (count < 0) fail(MPI_ERR_COUNT, fmt::format("the count is {}", count));
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, type.size(), &bytes) || bytes > kLongestMessage) {
    fail(MPI_ERR_COUNT,
         fmt::format("{} elements of {} bytes each: no process has so many addresses", count,
                     type.size()));
  }
}

}  // namespace weft::mpi
