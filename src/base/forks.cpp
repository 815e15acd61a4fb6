#include "base/forks.hpp"

#include <pthread.h>

#include <atomic>
#include <mutex>

namespace weft::base {

namespace {
std::atomic<uint32_t> forks{0};
}  // namespace

uint32_t forks_so_far() noexcept {
  static std::once_flag once;
  // relaxed: who looks is of the one thread that the child has, or was made by it.
  std::call_once(once, [] {
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace weft::base
