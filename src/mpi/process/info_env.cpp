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

int app_number() {
  const base::Environment told = base::environment("WEFTRUN_APP");
  return told.found ? std::atoi(told.value.c_str()) : 0;
}

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
  std::array<char, PATH_MAX> folder{};
  if (getcwd(folder.data(), folder.size()) != nullptr) set_if(info, "wdir", folder.data());
  info.set("thread_level", "MPI_THREAD_MULTIPLE");
}

}  // namespace weft::mpi
