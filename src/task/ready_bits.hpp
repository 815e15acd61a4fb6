// A set of task indices that one thread at a time touches: what a worker has taken and not yet run.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace weft::task {

/// A bit for each task, and above each 64 words a word that says which of them are not empty: the
/// highest bit is found in two loads up to 4,096 tasks, in three up to 262,144.
///
/// Who may call: the holder of the worker's guard; `looks_empty` anyone.
class ReadyBits {
 public:
  static constexpr int kNone = -1;

  /// Makes room for indices below `bits`; keeps what is set. Throws std::bad_alloc; then all is as
  /// before, but for summaries that are longer than they need be.
  void grow(std::size_t bits) {
    if (bits <= words_.size() * 64) return;
    // Twice as much at least, since all is looked through.
    const std::size_t words = std::max((bits + 63) / 64, 2 * words_.size());
    std::size_t below = words;
    for (auto& level : summaries_) {
      if (below <= 64) break;
      below = (below + 63) / 64;
      level.resize(below);
    }
    words_.resize(words);
    rebuild();
  }
  void set(uint32_t index) noexcept { merge(index / 64, uint64_t{1} << index % 64); }
  /// Sets all of `bits` (not 0) in that word.
  void merge(std::size_t word, uint64_t bits) noexcept {
    const uint64_t before = words_[word];
    words_[word] = before | bits;
    if (before == 0) tell_above(word);
  }
  void clear(uint32_t index) noexcept {
    uint64_t& word = words_[index / 64];
    if (word == 0) return;
    word &= ~(uint64_t{1} << index % 64);
    if (word == 0) untell_above(index / 64);
  }
  [[nodiscard]] bool test(uint32_t index) const noexcept {
    return (words_[index / 64] >> index % 64 & 1) != 0;
  }
  [[nodiscard]] uint64_t word(std::size_t index) const noexcept { return words_[index]; }
  /// The highest that is set, or kNone.
  [[nodiscard]] int highest() const noexcept {
    if (top() == 0) return kNone;
    std::size_t at = last_of(top());
    if (levels_ != 0) [[unlikely]]
      at = last_below(at);
    return static_cast<int>(at * 64 + last_of(words_[at]));
  }
  /// The lowest that is set and not below `from`, or kNone.
  [[nodiscard]] int next_from(uint32_t from) const noexcept {
    const std::size_t word = from / 64;
    if (word >= words_.size()) return kNone;
    const uint64_t rest = words_[word] & ~uint64_t{0} << from % 64;
    if (rest != 0) return static_cast<int>(word * 64 + first_of(rest));
    return next_word(word);
  }
  [[nodiscard]] bool empty() const noexcept { return looks_empty(); }
  /// A hint to who does not hold the guard.
  [[nodiscard]] bool looks_empty() const noexcept {
    return top_.load(std::memory_order_relaxed) == 0;  // relaxed: a hint
  }

 private:
  static constexpr unsigned kLevels = 3;  // above the words: 64^5 tasks and the top's 64

  // relaxed: the guard's holder reads what it wrote.
  [[nodiscard]] uint64_t top() const noexcept { return top_.load(std::memory_order_relaxed); }
  // Of words that are not 0.
  static unsigned last_of(uint64_t bits) noexcept {
    return 63U ^ static_cast<unsigned>(__builtin_clzll(bits));
  }
  static unsigned first_of(uint64_t bits) noexcept {
    return static_cast<unsigned>(__builtin_ctzll(bits));
  }
  [[nodiscard]] std::size_t last_below(std::size_t at) const noexcept {
    for (unsigned level = levels_; level-- > 0;) at = at * 64 + last_of(summaries_[level][at]);
    return at;
  }
  /// The lowest that is set in a word after `word`, or kNone: up until something is further on,
  /// then down to its first.
  [[nodiscard]] int next_word(std::size_t word) const noexcept {
    std::size_t at = word;
    for (unsigned level = 0; level <= levels_; ++level) {
      const uint64_t above = level == levels_ ? top() : summaries_[level][at / 64];
      const uint64_t further = above & ~uint64_t{1} << at % 64;
      if (further != 0) {
        at = at / 64 * 64 + first_of(further);
        while (level-- > 0) at = at * 64 + first_of(summaries_[level][at]);
        return static_cast<int>(at * 64 + first_of(words_[at]));
      }
      at /= 64;
    }
    return kNone;
  }
  void tell_above(std::size_t at) noexcept {
    if (levels_ != 0) [[unlikely]] {
      for (unsigned level = 0; level < levels_; ++level) {
        uint64_t& word = summaries_[level][at / 64];
        const bool told = word != 0;
        word |= uint64_t{1} << at % 64;
        if (told) return;
        at /= 64;
      }
    }
    store_top(top() | uint64_t{1} << at);
  }
  void untell_above(std::size_t at) noexcept {
    if (levels_ != 0) [[unlikely]] {
      for (unsigned level = 0; level < levels_; ++level) {
        uint64_t& word = summaries_[level][at / 64];
        word &= ~(uint64_t{1} << at % 64);
        if (word != 0) return;
        at /= 64;
      }
    }
    store_top(top() & ~(uint64_t{1} << at));
  }
  // relaxed, as every access: under the guard; others only take a hint.
  void store_top(uint64_t bits) noexcept { top_.store(bits, std::memory_order_relaxed); }
  void rebuild() noexcept {
    levels_ = 0;
    while (levels_ < kLevels && !summaries_[levels_].empty()) ++levels_;
    for (auto& level : summaries_) {
      for (auto& word : level) word = 0;
    }
    store_top(0);
    for (std::size_t word = 0; word < words_.size(); ++word) {
      if (words_[word] != 0) tell_above(word);
    }
  }

  std::atomic<uint64_t> top_{0};  ///< which words of the highest level are not empty
  unsigned levels_ = 0;           ///< between the words and the top
  std::vector<uint64_t> words_;
  std::array<std::vector<uint64_t>, kLevels> summaries_;
};

}  // namespace weft::task
