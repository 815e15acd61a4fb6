// A crew: threads that stay through all samples and work when called.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace weft::bench {

/// `threads` threads that sleep until called. Owned and called by one thread.
class Crew {
 public:
  explicit Crew(unsigned threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  [[nodiscard]] unsigned size() const noexcept { return static_cast<unsigned>(threads_.size()); }

  /// Wakes all to run `work(thread number)`; does not wait for them. What `work` throws ends the
  /// process, after its message was printed: the threads that it would leave waiting, here and in
  /// the other rank, could never be told.
  void start(std::function<void(unsigned)> work);
  /// Waits for all.
  void finish();

 private:
  void live(unsigned number);

  std::vector<std::thread> threads_;
  std::function<void(unsigned)> work_;
  std::atomic<uint32_t> call_{0};  // release by start, acquire by the threads: work_
  std::atomic<uint32_t> busy_{0};  // release by the threads, acquire by finish: their results
  bool leaving_ = false;
};

/// Sleeps; the processor is free meanwhile.
void sleep_for_seconds(double seconds);

}  // namespace weft::bench
