// Runs a function when the calling thread ends, after all its C++ thread_local destructors.
#pragma once

#include <pthread.h>

#include "weft/base/error.hpp"

namespace weft::base {

/// A pthread key whose destructor is `Release`.
///
/// Why not a thread_local object: other thread_locals' destructors may use what is released here,
/// in an order nobody controls. glibc runs key destructors after all of those, and again if one of
/// them made the thread take the thing anew.
///
/// `Release` gets the value given to `arm`. The main thread's end is the process's: not called.
template <void (*Release)(void*)>
class AtThreadExit {
 public:
  /// Asks for `Release(value)`; `value` must not be nullptr.
  static void arm(void* value) noexcept {
    static const pthread_key_t key = make_key();
    // Fails only without memory; then `value` stays taken for ever, which is all the harm.
    (void)pthread_setspecific(key, value);
  }

 private:
  static pthread_key_t make_key() noexcept {
    pthread_key_t key{};
    WEFT_CHECK(pthread_key_create(&key, Release) == 0, "no thread-specific key left");
    return key;
  }
};

}  // namespace weft::base
