// What a program may ask about the ABI, and what a Fortran binding tells us about its types; the
// hardware that a process runs on.
#include <mutex>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/info.hpp"
#include "mpi/types/fortran.hpp"
#include "weft/base/topology.hpp"

namespace weft::mpi {
namespace {

/// Told once by a Fortran binding, before or after initialization.
struct Fortran {
  std::mutex lock;
  bool info_set = false;
  std::vector<std::pair<std::string, std::string>> info;
};

Fortran& fortran() {
  static Fortran& one = *new Fortran;
  return one;
}

void check_logical_size(int size) {
  for (const int each : {1, 2, 4, 8, 16})
    if (size == each) return;
  fail(MPI_ERR_ARG, "a LOGICAL has 1, 2, 4, 8 or 16 bytes");
}

MPI_Info new_info(const std::vector<std::pair<std::string, std::string>>& entries) {
  auto info = Held<Info>::adopt(new Info);
  for (const auto& [key, value] : entries) info->set(key, value);
  const MPI_Info handle = infos().add(info.get());
  info.release();
  return handle;
}

}  // namespace

namespace calls {

void Abi_get_version(int* abi_major, int* abi_minor) {
  need(abi_major);
  need(abi_minor);
  *abi_major = MPI_ABI_VERSION;
  *abi_minor = MPI_ABI_SUBVERSION;
}

void Abi_get_info(MPI_Info* info) {
  need(info);
  *info = new_info({{"mpi_aint_size", std::to_string(sizeof(MPI_Aint))},
                    {"mpi_count_size", std::to_string(sizeof(MPI_Count))},
                    {"mpi_offset_size", std::to_string(sizeof(MPI_Offset))}});
}

void Abi_get_fortran_info(MPI_Info* info) {
  need(info);
  const std::scoped_lock guard(fortran().lock);
  *info = fortran().info_set ? new_info(fortran().info) : MPI_INFO_NULL;
}

void Abi_set_fortran_info(MPI_Info info) {
  const Info* told = info_or_null(info);
  if (told == nullptr) fail(MPI_ERR_INFO, "MPI_INFO_NULL says nothing about Fortran's types");
  const std::scoped_lock guard(fortran().lock);
  if (fortran().info_set) fail(MPI_ERR_ABI, "Fortran's types were told before");
  tell_fortran_types(fortran_types(*told));
  fortran().info = told->all();
  fortran().info_set = true;
}

void Abi_get_fortran_booleans(int logical_size, void* logical_true, void* logical_false,
                              int* is_set) {
  need(is_set);
  check_logical_size(logical_size);
  const FortranBooleans* const known = fortran_booleans();
  *is_set = known != nullptr ? 1 : 0;
  if (known == nullptr) return;
  need(logical_true);
  need(logical_false);
  store_logical(known->yes, logical_size, logical_true);
  store_logical(known->no, logical_size, logical_false);
}

void Abi_set_fortran_booleans(int logical_size, void* logical_true, void* logical_false) {
  need(logical_true);
  need(logical_false);
  check_logical_size(logical_size);
  const std::scoped_lock guard(fortran().lock);
  if (fortran_booleans() != nullptr) fail(MPI_ERR_ABI, "the values of LOGICALs were told before");
  tell_fortran_booleans(logical_size, logical_true, logical_false);
}

void Get_hw_resource_info(MPI_Info* hw_info) {
  need(hw_info);
  // "true": this process may run only inside one resource of that kind.
  const base::Topology& machine = base::Topology::machine();
  bool one_memory_node = true;
  for (const base::Core& core : machine.cores())
    one_memory_node = one_memory_node && core.numa_node == machine.cores().front().numa_node;
  const auto word = [](bool holds) { return std::string(holds ? "true" : "false"); };
  *hw_info = new_info({{"mpi_shared_memory", "true"},
                       {"hwloc://Machine", "true"},
                       {"hwloc://NUMANode", word(one_memory_node)},
                       {"hwloc://PU", word(machine.cores().size() == 1)}});
}

}  // namespace calls
}  // namespace weft::mpi
