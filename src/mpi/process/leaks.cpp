#include "mpi/process/leaks.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

#include "mpi/errhandler.hpp"
#include "mpi/handle.hpp"
#include "mpi/info.hpp"
#include "mpi/process.hpp"
#include "weft/base/log.hpp"

namespace weft::mpi {
namespace {
constexpr std::size_t kMostNamed = 20;
constinit std::atomic<bool> makers_noted{false};  // relaxed: a setting
}  // namespace

void note_makers(bool noted) noexcept { makers_noted.store(noted, std::memory_order_relaxed); }

void tell_leaks(std::string_view kind, std::size_t number, const std::vector<std::string>& which) {
  if (number == 0 || !settings().report_leaks) return;
  std::string text = fmt::format("MPI_Finalize: {} not freed ({})", kind, number);
  const auto end = which.begin() + static_cast<std::ptrdiff_t>(std::min(which.size(), kMostNamed));
  if (!which.empty()) text += fmt::format(": {}", fmt::join(which.begin(), end, ", "));
  if (which.size() > kMostNamed) text += ", ...";
  base::log(base::LogLevel::warn, text);
}

const void* program_call() noexcept {
  constexpr int kFrames = 48;
  if (!makers_noted.load(std::memory_order_relaxed)) return nullptr;
  void* frames[kFrames];
  const int count = ::backtrace(frames, kFrames);
  Dl_info here{};
  if (::dladdr(reinterpret_cast<const void*>(&program_call), &here) == 0) return nullptr;
  // The first behind this library's. (A sanitizer's, which asks for them, comes before.)
  bool within = false;
  for (int i = 0; i < count; ++i) {
    Dl_info there{};
    const bool known = ::dladdr(frames[i], &there) != 0;
    if (known && there.dli_fbase == here.dli_fbase) {
      within = true;
    } else if (known && within) {
      return frames[i];
    }
  }
  return nullptr;
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

void tell_leaks_that_outlast() {
  if (!settings().report_leaks) return;
  // Not looked into: other threads may free them meanwhile.
  std::vector<std::string> objects, handlers;
  infos().for_each(
      [&](MPI_Info, const Info*, const void* call) { objects.push_back("one" + made_at(call)); });
  tell_leaks("info objects", objects.size(), objects);
  errhandlers().for_each([&](MPI_Errhandler, const Errhandler*, const void* call) {
    handlers.push_back("one" + made_at(call));
  });
  tell_leaks("error handlers", handlers.size(), handlers);
}

}  // namespace weft::mpi
