#include "mpi/process/leaks.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <utility>

#include "mpi/errhandler.hpp"
#include "mpi/handle.hpp"
#include "mpi/info.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/tool/tool.hpp"
#include "weft/base/log.hpp"

namespace weft::mpi {
namespace {
constexpr std::size_t kMostNamed = 20;
}  // namespace

void tell_left(std::string_view what, const std::vector<std::string>& which) {
  if (which.empty() || !settings().report_leaks) return;
  std::string text = fmt::format("{} ({})", what, which.size());
  std::map<std::string_view, std::size_t> times;
  for (const std::string& one : which) ++times[one];
  const char* between = ": ";
  std::size_t named = 0;
  for (const std::string& one : which) {  // in their order, like ones once
    const std::size_t alike = std::exchange(times[one], 0);
    if (alike == 0) continue;
    if (named++ == kMostNamed) {
      text += ", ...";
      break;
    }
    text += between;
    if (alike != 1) text += fmt::format("{} times ", alike);
    text += one;
    between = ", ";
  }
  base::log(base::LogLevel::warn, text);
}

void tell_leaks(std::string_view kind, const std::vector<std::string>& which) {
  tell_left(fmt::format("MPI_Finalize: {} not freed", kind), which);
}

void tell_leaks_that_outlast() {
  if (!settings().report_leaks) return;
  // Not looked into: other threads may free them meanwhile.
  std::vector<std::string> objects, handlers;
  infos().for_each(
      [&](MPI_Info, const Info*, const void* call) { objects.push_back("one" + made_at(call)); });
  tell_leaks("info objects", objects);
  errhandlers().for_each([&](MPI_Errhandler, const Errhandler*, const void* call) {
    handlers.push_back("one" + made_at(call));
  });
  tell_leaks("error handlers", handlers);
  tool::tell_leaks_of_pvars();
  tool::tell_leaks_of_cvars();
}

}  // namespace weft::mpi
