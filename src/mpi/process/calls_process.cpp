// MPI_Init, MPI_Finalize and what asks about them; time, memory, versions, names.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "mpi/abi/calls.hpp"
#include "mpi/comm.hpp"
#include "mpi/failure.hpp"
#include "mpi/info.hpp"
#include "mpi/process.hpp"
#include "mpi/process/gate.hpp"
#include "mpi/process/main_thread.hpp"
#include "mpi/process/process_life.hpp"
#include "weft/base/clock.hpp"
#include "weft/version.hpp"

namespace weft::mpi {
namespace {

constinit std::atomic<bool> g_initialized{false};
constinit std::atomic<bool> g_finalized{false};

/// A text into a program's buffer that MPI says is `room` long, with its length.
void give(std::string_view text, std::size_t room, char* out, int* length) {
  require(out != nullptr && length != nullptr, MPI_ERR_ARG, "no place for the answer");
  const std::size_t kept = std::min(text.size(), room - 1);
  std::memcpy(out, text.data(), kept);
  out[kept] = '\0';
  *length = static_cast<int>(kept);
}

/// What MPI_Alloc_mem gave, to tell a wrong pointer from one of its own.
struct Memory {
  std::mutex lock;
  std::unordered_set<void*> given;
};

Memory& memory() {
  static Memory& one = *new Memory;
  return one;
}

/// The program's wish of at least this alignment.
std::size_t alignment_of(MPI_Info handle) {
  constexpr std::size_t kUsual = 64;
  const Info* info = info_or_null(handle);
  if (info == nullptr) return kUsual;
  const auto wish = info->get("mpi_minimum_memory_alignment");
  if (!wish) return kUsual;
  const std::size_t bytes = std::strtoull(wish->c_str(), nullptr, 10);
  const bool power = bytes != 0 && (bytes & (bytes - 1)) == 0;
  return power ? std::max(bytes, kUsual) : kUsual;
}

}  // namespace

namespace calls {

void Init_thread(int* argc, char*** argv, int required, int* provided) {
  (void)argc;
  (void)argv;
  if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE)
    fail(MPI_ERR_ARG, fmt::format("{} is not a thread level", required));
  const int level = acquire_process(required, true);
  g_initialized.store(true, std::memory_order_relaxed);
  if (provided != nullptr) *provided = level;
}

void Init(int* argc, char*** argv) { Init_thread(argc, argv, MPI_THREAD_SINGLE, nullptr); }

void Finalize() {
  if (!is_world_up()) fail(MPI_ERR_OTHER, "MPI_Finalize without MPI_Init");
  release_process(true);
  g_finalized.store(true, std::memory_order_relaxed);
}

void Initialized(int* flag) {
  if (flag == nullptr) fail(MPI_ERR_ARG, "no place for the answer");
  *flag = g_initialized.load(std::memory_order_relaxed) ? 1 : 0;
}

void Finalized(int* flag) {
  if (flag == nullptr) fail(MPI_ERR_ARG, "no place for the answer");
  *flag = g_finalized.load(std::memory_order_relaxed) ? 1 : 0;
}

void Query_thread(int* provided) {
  require(provided != nullptr, MPI_ERR_ARG, "no place for the answer");
  // Sessions may have raised the level since; MPI has the two answers agree.
  *provided = is_world_up() ? world_level() : process().thread_level();
}

void Is_thread_main(int* flag) {
  require(flag != nullptr, MPI_ERR_ARG, "no place for the answer");
  *flag = is_main_thread() ? 1 : 0;
}

void Abort(MPI_Comm handle, int errorcode) {
  // MPI_Abort is to end the job whatever its arguments are.
  const Comm* comm = comms().find(handle);
  const std::string where = comm == nullptr
                                ? std::string("a bad communicator")
                                : fmt::format("a communicator of {} processes", comm->size());
  process().abort(errorcode, fmt::format("rank {} called MPI_Abort with code {} on {}",
                                         runtime().rank().value, errorcode, where));
}

void Get_version(int* version, int* subversion) {
  if (version == nullptr || subversion == nullptr) fail(MPI_ERR_ARG, "no place for the answer");
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
}

void Get_library_version(char* version, int* resultlen) {
  give(fmt::format("weft {}, MPI {}.{}, standard ABI {}.{}", WEFT_VERSION_STRING, MPI_VERSION,
                   MPI_SUBVERSION, MPI_ABI_VERSION, MPI_ABI_SUBVERSION),
       MPI_MAX_LIBRARY_VERSION_STRING, version, resultlen);
}

void Get_processor_name(char* name, int* resultlen) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  gethostname(host.data(), host.size() - 1);
  give(host.data(), MPI_MAX_PROCESSOR_NAME, name, resultlen);
}

double Wtime() { return static_cast<double>(base::now_ns()) * 1e-9; }
double Wtick() { return 1e-9; }

void Alloc_mem(MPI_Aint size, MPI_Info info, void* baseptr) {
  require(size >= 0, MPI_ERR_ARG, "a negative size");
  require(baseptr != nullptr, MPI_ERR_ARG, "no place for the answer");
  const std::size_t alignment = alignment_of(info);
  const std::size_t bytes = std::max<std::size_t>(static_cast<std::size_t>(size), 1);
  if (bytes > PTRDIFF_MAX - alignment) fail(MPI_ERR_NO_MEM, fmt::format("{} bytes", size));
  void* made = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (made == nullptr) fail(MPI_ERR_NO_MEM, fmt::format("there are no {} bytes", size));
  const std::scoped_lock guard(memory().lock);
  memory().given.insert(made);
  std::memcpy(baseptr, &made, sizeof made);
}

void Free_mem(void* base) {
  {
    const std::scoped_lock guard(memory().lock);
    if (memory().given.erase(base) == 0) fail(MPI_ERR_BASE, "not what MPI_Alloc_mem gave");
  }
  std::free(base);
}

}  // namespace calls
}  // namespace weft::mpi
