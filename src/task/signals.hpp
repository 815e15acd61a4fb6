// The bits that anybody may set: a signal is one atomic OR (000 §4.2.2–4.2.3).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>

#include "weft/base/cache_line.hpp"

namespace weft::task {

/// Where a task is signalled: a word and a bit of it, and for tasks beyond the first 512 the hint
/// above.
struct SignalAddress {
  std::atomic<uint64_t>* word = nullptr;
  uint64_t mask = 0;
  std::atomic<uint64_t>* hint = nullptr;  ///< nullptr: one level
  uint64_t hint_mask = 0;

  /// Everything before it happens before what the task does after its wait.
  void set() const noexcept {
    // seq_cst: an acquire and release with `take`, and before the look at the hint.
    word->fetch_or(mask, std::memory_order_seq_cst);
    // A hint that is set is still to be cleared, and then the word is taken: invariant 5 of
    // docs/design/tasks.md.
    if (hint != nullptr && (hint->load(std::memory_order_seq_cst) & hint_mask) == 0) {
      hint->fetch_or(hint_mask, std::memory_order_seq_cst);
    }
  }
};

/// The signals of one worker's tasks.
///
/// Who may call: `take` and `grow` the holder of the worker's guard; the rest anyone.
/// Layout: tasks 0–511 in one line; each further 262,144 in a block: a line of hints above 512
/// lines. A block is made when its first task is.
class Signals {
 public:
  static constexpr uint32_t kOneLevel = 512;
  static constexpr uint32_t kPerBlock = 512 * 512;
  static constexpr uint32_t kBlocks = 15;

  /// Makes room for indices below `bits`. Throws std::bad_alloc.
  void grow(std::size_t bits) {
    while (blocks_made() * std::size_t{kPerBlock} + kOneLevel < bits) {
      const uint32_t made = blocks_made();
      if (made == kBlocks) throw std::bad_alloc();  // 4 million tasks
      blocks_[made] = std::make_unique<Block>();
      // release: pairs with blocks_made's acquire; the block is whole.
      blocks_made_.store(made + 1, std::memory_order_release);
    }
  }
  [[nodiscard]] SignalAddress address(uint32_t index) noexcept {
    if (index < kOneLevel) return {&first_.word[index / 64], uint64_t{1} << index % 64};
    index -= kOneLevel;
    Block& block = *blocks_[index / kPerBlock];
    const uint32_t line = index % kPerBlock / 512;
    return {&block.lines[line].word[index % 512 / 64], uint64_t{1} << index % 64,
            &block.hints.word[line / 64], uint64_t{1} << line % 64};
  }
  /// Takes all that is set: calls `each(word, bits)` with the index of a word (64 tasks) and what
  /// was set in it.
  template <class F>
  void take(F&& each) noexcept {
    take_line(first_, 0, each);
    for (uint32_t b = 0; b < blocks_made(); ++b) {
      Block& block = *blocks_[b];
      for (uint32_t h = 0; h < 8; ++h) {
        if (block.hints.word[h].load(std::memory_order_relaxed) == 0) continue;
        // seq_cst: the hint is cleared before the words below are taken (invariant 5).
        uint64_t lines = block.hints.word[h].exchange(0, std::memory_order_seq_cst);
        for (; lines != 0; lines &= lines - 1) {
          const uint32_t line = h * 64 + static_cast<uint32_t>(std::countr_zero(lines));
          take_line(block.lines[line], (kOneLevel + b * kPerBlock + line * 512) / 64, each);
        }
      }
    }
  }
  /// Nothing is set, so far as one look tells.
  [[nodiscard]] bool looks_empty() const noexcept {
    uint64_t any = 0;
    for (const auto& word : first_.word) any |= word.load(std::memory_order_relaxed);  // a hint
    for (uint32_t b = 0; b < blocks_made(); ++b) {
      for (const auto& word : blocks_[b]->hints.word) any |= word.load(std::memory_order_relaxed);
    }
    return any == 0;
  }

 private:
  struct alignas(base::kCacheLine) Line {
    std::atomic<uint64_t> word[8] = {};
  };
  static_assert(sizeof(Line) == base::kCacheLine);
  struct Block {
    Line hints;
    Line lines[512];
  };

  [[nodiscard]] uint32_t blocks_made() const noexcept {
    return blocks_made_.load(std::memory_order_acquire);  // pairs with grow's release
  }
  template <class F>
  static void take_line(Line& line, std::size_t first_word, F& each) noexcept {
    for (std::size_t w = 0; w < 8; ++w) {
      // seq_cst: after the hint was cleared: who saw it set had set its bit before (invariant 5).
      if (line.word[w].load(std::memory_order_seq_cst) == 0) continue;
      // seq_cst: acquire, pairs with `set`; and after the hint.
      if (const uint64_t bits = line.word[w].exchange(0, std::memory_order_seq_cst); bits != 0) {
        each(first_word + w, bits);
      }
    }
  }

  Line first_;
  std::atomic<uint32_t> blocks_made_{0};
  std::array<std::unique_ptr<Block>, kBlocks> blocks_;
};

}  // namespace weft::task
