#include "mpi/process/caller.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "mpi/handle.hpp"

namespace weft::mpi {
namespace {

constinit std::atomic<bool> makers_noted{false};  // relaxed: a setting

/// Where a thread went from the program into this library.
struct Entrance {
  const void* program = nullptr;   ///< where the call returns to
  const char* function = nullptr;  ///< this library's, if it has a name there
};

Entrance entrance() noexcept {
  constexpr int kFrames = 64;
  void* frames[kFrames];
  const int count = ::backtrace(frames, kFrames);
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&entrance), &here) == 0) return {};
  // The first behind this library's. (A sanitizer's, which asks for them, comes before.)
  Entrance found;
  bool within = false;
  for (int i = 0; i < count; ++i) {
    Dl_info there{};
    const bool known = ::dladdr(frames[i], &there) != 0;
    if (known && there.dli_fbase == here.dli_fbase) {
      within = true;
      found.function = there.dli_sname;
    } else if (known && within) {
      found.program = frames[i];
      return found;
    }
  }
  return {};
}

}  // namespace

void note_makers(bool noted) noexcept { makers_noted.store(noted, std::memory_order_relaxed); }

const void* program_call() noexcept {
  return makers_noted.load(std::memory_order_relaxed) ? entrance().program : nullptr;
}

std::string made_at(const void* call) {
  Dl_info there{};
  if (call == nullptr || ::dladdr(call, &there) == 0) return {};
  const std::string_view path = there.dli_fname;
  // Before the place it returns to: in the call itself.
  const auto offset =
      reinterpret_cast<uintptr_t>(call) - 1 - reinterpret_cast<uintptr_t>(there.dli_fbase);
  return fmt::format(", made {}at {}+{:#x}",
                     there.dli_sname == nullptr ? "" : fmt::format("in {} ", there.dli_sname),
                     path.substr(path.find_last_of('/') + 1), offset);
}

std::string mpi_call() {
  const char* const function = entrance().function;
  std::string_view name = function == nullptr ? "" : function;
  if (name.starts_with("PMPI_")) name.remove_prefix(1);
  return std::string(name.starts_with("MPI_") ? name : "");
}

}  // namespace weft::mpi
