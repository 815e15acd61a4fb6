#include "base/forks.hpp"

#include <pthread.h>

#include <mutex>

namespace weft::base {

uint32_t count_forks() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    ::pthread_atfork(nullptr, nullptr,
                     [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });
  });
  return forks_so_far();
}

}  // namespace weft::base
