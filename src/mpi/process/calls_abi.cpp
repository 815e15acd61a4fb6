// What a program may ask about the ABI, and what a Fortran binding tells us about its types; the
// hardware that a process runs on.
#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/info.hpp"
#include "weft/base/topology.hpp"

namespace weft::mpi {
namespace {

/// A Fortran LOGICAL of one size: its two values, as bytes.
struct Booleans {
  bool set = false;
  std::array<std::byte, 16> yes{};
  std::array<std::byte, 16> no{};
};

/// Told once by a Fortran binding. Sizes 1, 2, 4, 8, 16.
struct Fortran {
  std::mutex lock;
  std::array<Booleans, 5> booleans;
  bool info_set = false;
  std::vector<std::pair<std::string, std::string>> info;
};

Fortran& fortran() {
  static Fortran& one = *new Fortran;
  return one;
}

Booleans& booleans_of(int size) {
  for (std::size_t i = 0; i < 5; ++i)
    if (size == 1 << i) return fortran().booleans[i];
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
  fortran().info = told->all();
  fortran().info_set = true;
}

void Abi_get_fortran_booleans(int logical_size, void* logical_true, void* logical_false,
                              int* is_set) {
  need(is_set);
  const std::scoped_lock guard(fortran().lock);
  const Booleans& known = booleans_of(logical_size);
  *is_set = known.set ? 1 : 0;
  if (!known.set) return;
  need(logical_true);
  need(logical_false);
  std::memcpy(logical_true, known.yes.data(), static_cast<std::size_t>(logical_size));
  std::memcpy(logical_false, known.no.data(), static_cast<std::size_t>(logical_size));
}

void Abi_set_fortran_booleans(int logical_size, void* logical_true, void* logical_false) {
  need(logical_true);
  need(logical_false);
  const std::scoped_lock guard(fortran().lock);
  Booleans& known = booleans_of(logical_size);
  if (known.set) fail(MPI_ERR_ABI, "the values of this LOGICAL were told before");
  std::memcpy(known.yes.data(), logical_true, static_cast<std::size_t>(logical_size));
  std::memcpy(known.no.data(), logical_false, static_cast<std::size_t>(logical_size));
  known.set = true;
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
