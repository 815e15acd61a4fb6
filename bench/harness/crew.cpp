#include "harness/crew.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace weft::bench {

Crew::Crew(unsigned threads) {
  threads_.reserve(threads);
  for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this, i] { live(i); });
}

Crew::~Crew() {
  leaving_ = true;
  call_.fetch_add(1, std::memory_order_release);
  call_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Crew::start(std::function<void(unsigned)> work) {
  work_ = std::move(work);
  busy_.store(size(), std::memory_order_relaxed);  // published with call_
  call_.fetch_add(1, std::memory_order_release);
  call_.notify_all();
}

void Crew::finish() {
  for (uint32_t left = 0; (left = busy_.load(std::memory_order_acquire)) != 0;) busy_.wait(left);
}

void Crew::live(unsigned number) {
  uint32_t seen = 0;
  for (;;) {
    call_.wait(seen, std::memory_order_acquire);
    seen = call_.load(std::memory_order_acquire);
    if (leaving_) return;
    try {
      work_(number);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weft-bench: thread %u: %s\n", number, error.what());
      std::_Exit(1);
    }
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_all();
  }
}

void sleep_for_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

}  // namespace weft::bench
