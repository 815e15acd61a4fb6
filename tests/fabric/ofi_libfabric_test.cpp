// libfabric is loaded when it is needed, and the program finds itself as it was.
#include <gtest/gtest.h>
#include <sched.h>

#include <csignal>
#include <fstream>
#include <string>

#include "fabric/conformance_ranks.hpp"
#include "fabric/ofi/endpoint.hpp"
#include "fabric/ofi/libfabric.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {
namespace {

using test::small_geometry;

bool is_loaded(std::string_view library) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find(library) != std::string::npos) return true;
  return false;
}

void on_signal(int) {}

// One test, since a library is loaded once.
TEST(OfiLibfabric, IsLoadedOnceNeededAndChangesNothing) {
  const auto jobs = make_local_job(1);
  { const auto transport = make_local_transport(*jobs[0], small_geometry()); }
  EXPECT_FALSE(is_loaded("libfabric.so")) << "nobody needed it";

  struct sigaction mine {};
  mine.sa_handler = &on_signal;
  for (const int signal : {SIGSEGV, SIGTERM}) ASSERT_EQ(::sigaction(signal, &mine, nullptr), 0);
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);

  EXPECT_STRNE(ofi::libfabric().strerror(1), "");
  EXPECT_TRUE(is_loaded("libfabric.so"));
  const auto alone = make_ofi_transport(*jobs[0], small_geometry());
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGINT, SIGTERM}) {
    struct sigaction now {};
    ASSERT_EQ(::sigaction(signal, nullptr, &now), 0);
    EXPECT_EQ(now.sa_handler == &on_signal, signal == SIGSEGV || signal == SIGTERM) << signal;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (signal != SIGSEGV && signal != SIGTERM) {
      EXPECT_EQ(now.sa_handler, SIG_DFL) << signal;
    }
#endif
  }
  cpu_set_t after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  EXPECT_EQ(&ofi::libfabric(), &ofi::libfabric());
}

}  // namespace
}  // namespace weft::fabric
