// What a process was started with (MPI_INFO_ENV).
#include "mpi/process/info_env.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "mpi/process/process_life.hpp"
#include "weft/base/config.hpp"

namespace weft::mpi {
namespace {

/// The working directory when the library came in: the program may leave it before it asks.
std::array<char, PATH_MAX> g_folder{};
[[gnu::constructor]] void note_folder() {
  if (getcwd(g_folder.data(), g_folder.size()) == nullptr) g_folder[0] = '\0';
}

/// The process's command line, each argument ended by a NUL.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void set_if(Info& info, std::string_view key, std::string value) {
  if (value.empty()) return;
  if (value.size() >= MPI_MAX_INFO_VAL) value.resize(MPI_MAX_INFO_VAL - 1);
  info.set(key, value);
}

}  // namespace

void describe_start(Info& info) {
  std::string line = command_line();
  const std::string command = line.substr(0, line.find('\0'));
  line.erase(0, command.size() + 1);
  for (char& c : line)
    if (c == '\0') c = ' ';
  if (!line.empty()) line.pop_back();
  set_if(info, "command", command);
  set_if(info, "argv", line);
  set_if(info, "maxprocs", base::environment("WEFTRUN_APP_RANKS").value);
  utsname system{};
  if (uname(&system) == 0) {
    set_if(info, "host", system.nodename);
    set_if(info, "arch", system.machine);
  }
  set_if(info, "wdir", g_folder.data());
}

}  // namespace weft::mpi
