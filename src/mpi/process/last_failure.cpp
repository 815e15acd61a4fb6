#include "mpi/process/last_failure.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "mpi/abi/mpi.h"
#include "weft/base/locks.hpp"

namespace weft::mpi {
namespace {

struct Failed {
  pthread_t thread;
  uint64_t when;  ///< 0: nobody's
  int code;
  int request_code;
  std::size_t length;
  char text[MPI_MAX_ERROR_STRING];
};

/// Plain data, for threads that fail while the process ends.
constinit Failed g_failed[64] = {};  // (g_lock)
constinit uint64_t g_failures = 0;   // (g_lock)
constinit base::SpinLock g_lock;

/// The calling thread's, or nullptr.
Failed* own() noexcept {
  for (Failed& each : g_failed)
    if (each.when != 0 && ::pthread_equal(each.thread, ::pthread_self()) != 0) return &each;
  return nullptr;
}

}  // namespace

void note_failure(int code, int request_code, std::string_view text) noexcept {
  const std::scoped_lock guard(g_lock);
  Failed* failed = own();
  if (failed == nullptr) {
    failed = std::min_element(
        std::begin(g_failed), std::end(g_failed),
        [](const Failed& one, const Failed& other) { return one.when < other.when; });
  }
  failed->thread = ::pthread_self();
  failed->when = ++g_failures;
  failed->code = code;
  failed->request_code = request_code;
  failed->length = std::min(text.size(), sizeof failed->text);
  std::memcpy(failed->text, text.data(), failed->length);
}

std::string last_failure(int code) {
  const std::scoped_lock guard(g_lock);
  const Failed* const failed = own();
  if (failed == nullptr || (failed->code != code && failed->request_code != code)) return {};
  return {failed->text, failed->length};
}

}  // namespace weft::mpi
