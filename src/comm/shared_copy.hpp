// Large copies that both ends do: the receiver reads from the front, the sender sends packets from
// the back, a chunk at a time, until they meet. Packets are faster by far, as the two copies of
// each run side by side and what is between them stays in the caches; so the receiver copies only
// while none come. Who is not there does nothing, and the other does all.
//
// Where the two stand is one word in memory that both map, the receiver's *claims*. Invariants
//
// 1. A chunk is copied by who claimed it, and claimed once in each use of the word (its
//    generation). Chunks from the back arrive in order, over one lane.
// 2. The receiver never depends on the sender: a claimed chunk that does not come it reads itself,
//    and what comes late meets another chunk's turn, or an operation that is gone, and is dropped.
// 3. The sender touches its buffer only with a claim in a use that has not ended, under the lock of
//    the device that would tell it that the transfer is over.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "weft/base/cache_line.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

/// One transfer's claims; zeroed memory is a word that was never used.
struct alignas(base::kCacheLine) CopyClaims {
  static constexpr unsigned kBits = 16;  // of a count
  static constexpr uint64_t kMostChunks = (1U << kBits) - 1;

  std::atomic<uint64_t> claimed;  ///< generation, chunks from the back, chunks from the front
  std::atomic<uint32_t> arrived;  ///< of those from the back; told by the receiver

  struct Counts {
    uint32_t generation;
    uint32_t back;
    uint32_t front;
  };
  [[nodiscard]] static Counts counts(uint64_t word) noexcept {
    return {static_cast<uint32_t>(word >> 2 * kBits),
            static_cast<uint32_t>(word >> kBits & kMostChunks),
            static_cast<uint32_t>(word & kMostChunks)};
  }
  /// The receiver begins a use; its generation.
  uint32_t begin() noexcept {
    const uint32_t generation = counts(claimed.load(std::memory_order_relaxed)).generation + 1;
    arrived.store(0, std::memory_order_relaxed);
    // release: pairs with claim's acquire.
    claimed.store(uint64_t{generation} << 2 * kBits, std::memory_order_release);
    return generation;
  }
  /// The next chunk of `chunks` from the front (the receiver), or from the back.
  [[nodiscard]] std::optional<uint32_t> claim(uint32_t generation, uint32_t chunks,
                                              bool from_back) noexcept {
    uint64_t word = claimed.load(std::memory_order_relaxed);
    for (;;) {
      const Counts now = counts(word);
      if (now.generation != generation || now.front + now.back >= chunks) return std::nullopt;
      const uint64_t next = word + (from_back ? uint64_t{1} << kBits : 1);
      // acquire: pairs with begin's release.
      if (claimed.compare_exchange_weak(word, next, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
        return from_back ? chunks - 1 - now.back : now.front;
      }
    }
  }
  /// Nothing can be claimed any more.
  [[nodiscard]] bool is_over(uint32_t generation, uint32_t chunks) const noexcept {
    const Counts now = counts(claimed.load(std::memory_order_relaxed));  // relaxed: a hint
    return now.generation != generation || now.front + now.back >= chunks;
  }
  /// The sender gives its last claim up.
  void unclaim(uint32_t generation) noexcept {
    uint64_t word = claimed.load(std::memory_order_relaxed);
    // relaxed: nothing was done with it.
    while (counts(word).generation == generation &&
           !claimed.compare_exchange_weak(word, word - (uint64_t{1} << kBits),
                                          std::memory_order_relaxed)) {
    }
  }
  /// The receiver ends the use: claims and what is given up meet another generation.
  void close(uint32_t generation) noexcept {
    // relaxed: nothing is told with it.
    claimed.store(uint64_t{generation + 1} << 2 * kBits, std::memory_order_relaxed);
  }
};

/// The claims of a rank, in shared memory that is made when the first are wanted.
///
/// Who may call: any thread. Memory: one page.
class ClaimsTable {
 public:
  static constexpr uint32_t kClaims = 64;
  static constexpr std::size_t kBytes = kClaims * sizeof(CopyClaims);

  /// Claims that nobody uses, or nullptr: none now, or no shared memory.
  CopyClaims* take(fabric::Transport& transport) noexcept;
  void give_back(const CopyClaims& claims) noexcept {
    // release: pairs with take's acquire.
    free_.fetch_or(uint64_t{1} << number_of(claims), std::memory_order_release);
  }
  [[nodiscard]] uint32_t number_of(const CopyClaims& claims) const noexcept {
    return static_cast<uint32_t>(&claims - claims_);
  }
  /// How peers find the table; once something was taken.
  [[nodiscard]] const fabric::MemoryKey& key() const noexcept { return key_; }
  /// Claims of a peer, by what it said; nullptr: there are none such.
  [[nodiscard]] static CopyClaims* of_peer(fabric::Transport& transport,
                                           const fabric::MemoryKey& key, uint32_t number) noexcept;

 private:
  void make(fabric::Transport& transport) noexcept;

  std::once_flag made_;
  CopyClaims* claims_ = nullptr;
  fabric::MemoryKey key_{};
  std::atomic<uint64_t> free_{0};
};

}  // namespace weft::comm
