// weftrun: runs N processes of a program as one job.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "weftrun/daemon.hpp"
#include "weftrun/launcher.hpp"
#include "weftrun/options.hpp"
#include "weftrun/spawn.hpp"

namespace {

/// Descriptors 0 to 2 exist from here on, so that no pipe gets one of these numbers.
void open_standard_descriptors() {
  int fd = 0;
  do {
    fd = open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= 2);
  if (fd > 2) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_descriptors();
  weft::run::hear_of_children();
  if (argc == 2 && std::string_view(argv[1]) == weft::run::kDaemonOption)
    return weft::run::run_daemon(argv);
  weft::run::Parsed parsed = weft::run::parse_options(argc, argv);
  if (parsed.usage) {
    if (parsed.usage->code == 0)
      fmt::print("{}", parsed.usage->text);
    else
      fmt::print(stderr, "weftrun: {}\n", parsed.usage->text);
    return parsed.usage->code;
  }
  try {
    weft::run::Launcher launcher(std::move(*parsed.options), argv);
    const int code = launcher.run();
    // No destructors: all is cleaned up but PMIx's server, whose own end crashes (libpmix 4.2.2)
    // when a rank had died in the middle of something.
    _exit(code);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weftrun: {}\n", error.what());
    return 1;
  }
}
