// What the message benchmarks share: the runtime made from the options, and how threads wait.
#pragma once

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/crew.hpp"
#include "harness/options.hpp"
#include "harness/pair.hpp"
#include "limits/limits.hpp"
#include "weft/base/locks.hpp"
#include "weft/weft.hpp"

namespace weft::bench {

/// Runtime options as the command line asks for them, in the job of `pair`.
RuntimeOptions runtime_options(Pair& pair, const Options& options);

/// Throws on anything but ok: a benchmark has no use for a failed message.
void expect_ok(Errc error, const char* what);

/// Progresses until `ready()`, without sleeping; gives the core away after many empty rounds, in
/// case the peer shares it.
template <class Ready>
void poll_until(Runtime& runtime, Ready ready) {
  constexpr unsigned kEmptyRounds = 4096;
  for (unsigned empty = 0; !ready();) {
    if (runtime.progress() == 0 && ++empty == kEmptyRounds) {
      yield_core();
      empty = 0;
    }
  }
}

/// Polls or blocks until `done` is ready.
inline void wait_for(Runtime& runtime, Synchronizer& done, bool poll) {
  if (poll) {
    poll_until(runtime, [&] { return done.ready(); });
  } else {
    runtime.wait(done);
  }
}

/// Memory that peers of this rank put to: weft's own (no copy on the way) or malloc's. Made
/// collectively; knows the other rank's key.
class PutTarget {
 public:
  PutTarget(Pair& pair, Runtime& runtime, std::size_t bytes, bool ordinary);
  ~PutTarget();
  PutTarget(const PutTarget&) = delete;
  PutTarget& operator=(const PutTarget&) = delete;
  [[nodiscard]] std::byte* data() const noexcept { return memory_.data(); }
  [[nodiscard]] const fabric::MemoryKey& peer_key() const noexcept { return peer_key_; }

 private:
  Runtime& runtime_;
  std::unique_ptr<Buffer> ordinary_;
  std::span<std::byte> memory_;
  std::unique_ptr<Region> region_;
  fabric::MemoryKey peer_key_;
};

/// Blocks of one size for messages that are allocated on arrival: a user's own pool, since malloc
/// would measure page faults.
class BlockAllocator final : public Allocator {
 public:
  BlockAllocator(std::size_t bytes, std::size_t blocks);
  std::byte* allocate(std::size_t bytes) noexcept override;
  void release(std::byte* memory, std::size_t bytes) noexcept override;

 private:
  base::SpinLock lock_;
  std::size_t bytes_;
  std::vector<Buffer> blocks_;
  std::vector<std::byte*> free_;
};

/// The contestants' usual turn with threads: everyone works on both ranks until `stop` of the yard
/// is set, after `seconds`. Called by both ranks' leaders.
void work_for(Pair& pair, Crew& crew, double seconds, std::function<void(unsigned)> work);

/// True once rank 0's leader has ended the turn. Read by all threads of both ranks.
inline bool turn_is_over(Pair& pair) noexcept {
  // relaxed: it orders nothing; who reads it late works a little longer.
  return pair.yard().memory().stop.value.load(std::memory_order_relaxed) != 0;
}

/// For gets: the owner of the memory progresses until all of the getting threads have said that
/// their last get has ended. Counts start anew with each turn.
inline void say_finished(Pair& pair) noexcept {
  pair.yard().memory().note[0].value.fetch_add(1, std::memory_order_relaxed);
}
inline void progress_until_finished(Pair& pair, Runtime& runtime, unsigned threads) {
  while (pair.yard().memory().note[0].value.load(std::memory_order_relaxed) < threads) {
    runtime.relax();
  }
}

}  // namespace weft::bench
