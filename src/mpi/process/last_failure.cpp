#include "mpi/process/last_failure.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "mpi/abi/mpi.h"
#include "weft/base/locks.hpp"

namespace weft::mpi {
namespace {

struct Failed {
  uint64_t thread;  ///< its number; 0: nobody's
  uint64_t when;
  int code;
  int request_code;
  std::size_t length;
  char text[MPI_MAX_ERROR_STRING];
};

/// Plain data, for threads that fail while the process ends.
constinit Failed g_failed[64] = {};  // (g_lock)
constinit uint64_t g_failures = 0;   // (g_lock)
constinit base::SpinLock g_lock;

constinit uint64_t g_threads = 0;  // (g_lock)
/// Of the calling thread, from its first failure on; no other thread gets it.
constinit thread_local uint64_t g_own_number = 0;

/// The calling thread's, or nullptr.
Failed* own() noexcept {
  for (Failed& each : g_failed)
    if (g_own_number != 0 && each.thread == g_own_number) return &each;
  return nullptr;
}

}  // namespace

void note_failure(int code, int request_code, std::string_view text) noexcept {
  const std::scoped_lock guard(g_lock);
  if (g_own_number == 0) g_own_number = ++g_threads;
  Failed* failed = own();
  if (failed == nullptr) {
    failed = std::min_element(
        std::begin(g_failed), std::end(g_failed),
        [](const Failed& one, const Failed& other) { return one.when < other.when; });
  }
  failed->thread = g_own_number;
  failed->when = ++g_failures;
  failed->code = code;
  failed->request_code = request_code;
  failed->length = std::min(text.size(), sizeof failed->text);
  std::memcpy(failed->text, text.data(), failed->length);
}

std::string last_failure(int code) {
  char text[MPI_MAX_ERROR_STRING];
  std::size_t length = 0;
  {
    const std::scoped_lock guard(g_lock);
    const Failed* const failed = own();
    if (failed == nullptr || (failed->code != code && failed->request_code != code)) return {};
    length = failed->length;
    std::memcpy(text, failed->text, length);
  }
  return {text, length};
}

}  // namespace weft::mpi
