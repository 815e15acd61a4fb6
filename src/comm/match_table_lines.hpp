// The match table's control words, and what all of its parts do with a bucket: find it, lock it,
// change it. Included by match_table*.cpp alone.
#pragma once

#include <bit>
#include <cstdint>

#include "comm/match_table.hpp"

namespace weft::comm {
namespace match_control {

// The control word: what each slot holds, a bit for each slot; bits 32.. the next line's number.
// All ones: someone holds the bucket's lock, and has the word.
inline constexpr uint64_t kBusy = ~uint64_t{0};
inline constexpr unsigned kUsed = 0;  // the slot holds a key
inline constexpr unsigned kSide = 3;  // its entries are receives
inline constexpr unsigned kMany = 6;  // its value is the number of a queue's first line
inline constexpr uint64_t kSlots = 7;
inline constexpr unsigned kNext = 32;
inline constexpr uint64_t kFlags = (uint64_t{1} << kNext) - 1;

constexpr uint32_t next_of(uint64_t word) { return static_cast<uint32_t>(word >> kNext); }
constexpr uint64_t with_next(uint64_t word, uint32_t next) {
  return (word & kFlags) | (uint64_t{next} << kNext);
}
constexpr bool has(uint64_t word, unsigned what, unsigned slot) {
  return (word >> (what + slot) & 1) != 0;
}
constexpr uint64_t without_slot(uint64_t word, unsigned slot) {
  return word & ~((uint64_t{1} << kUsed | uint64_t{1} << kSide | uint64_t{1} << kMany) << slot);
}
constexpr uint64_t with_slot(uint64_t word, unsigned slot, bool side, bool queued) {
  return without_slot(word, slot) |
         (uint64_t{1} << kUsed | uint64_t{side} << kSide | uint64_t{queued} << kMany) << slot;
}

/// Which of the used slots of a line hold `key`, one bit each. Without branches: which slot it is
/// cannot be foretold.
template <class Line>
inline uint64_t slots_with(const Line& line, uint64_t word, uint64_t key) {
  const uint64_t equal = uint64_t{line.slots[0].key == key} |
                         uint64_t{line.slots[1].key == key} << 1 |
                         uint64_t{line.slots[2].key == key} << 2;
  return equal & word & kSlots;
}

}  // namespace match_control

inline uint64_t MatchTable::hash(uint64_t key) noexcept {
  // Two multiplications with a fold between and after: every bit of the key reaches the low bits.
  key *= 0x9e3779b97f4a7c15u;
  key ^= key >> 32;
  key *= 0xd6e8feb86659fd93u;
  return key ^ key >> 32;
}

inline std::size_t MatchTable::bucket_of(uint64_t hash, Span span) noexcept {
  const uint32_t mask = span.mask & ~kOwned;
  const uint32_t at = static_cast<uint32_t>(hash) & mask;
  return at < span.count ? at : at & mask >> 1;  // not split yet: still with its lower half
}

inline MatchTable::Span MatchTable::span() const noexcept {
  // acquire: pairs with split_next's release; the new bucket is locked or filled.
  return std::bit_cast<Span>(span_.load(std::memory_order_acquire));
}

inline uint64_t MatchTable::lock(Line& line) noexcept {
  // acquire: pairs with unlock's release. Writes at once: a reading test first would fetch a line
  // that another core owns twice.
  const uint64_t word = line.control.exchange(match_control::kBusy, std::memory_order_acquire);
  return word != match_control::kBusy ? word : lock_slow(line);
}

inline void MatchTable::unlock(Line& line, uint64_t word) noexcept {
  // release: pairs with lock's acquire.
  line.control.store(word, std::memory_order_release);
}

inline void MatchTable::set_span(uint32_t count, bool owned, std::memory_order order) noexcept {
  const uint32_t mask = std::bit_ceil(count) - 1;
  span_.store(std::bit_cast<uint64_t>(Span{count, owned ? mask | kOwned : mask}), order);
}

/// One access, begin to end, all unlocks included: alone, where the caller has the table, or beside
/// others, while nobody has it.
class MatchTable::Turn {
 public:
  explicit Turn(MatchTable& table) noexcept
      : mark_(table.favour_.enter()), alone_(mark_ != nullptr) {
    if (!alone_) [[unlikely]]
      enter_beside_others(table);
  }
  ~Turn() {
    if (mark_ != nullptr) [[likely]]
      base::Favour::leave(mark_);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  [[nodiscard]] bool is_alone() const noexcept { return alone_; }

 private:
  void enter_beside_others(MatchTable& table) noexcept {
    if (++turns % kSample == 0) [[unlikely]] {
      mark_ = table.count_turns();
      if (alone_ = mark_ != nullptr; alone_) return;
    }
    mark_ = table.favour_.join();
    if (mark_ == nullptr || table.span().is_owned()) [[unlikely]]
      mark_ = table.share();
  }
  static inline constinit thread_local uint32_t turns = 0;  ///< beside others, in any table
  base::Favour::Mark mark_;
  bool alone_;
};

inline MatchTable::Line& MatchTable::lock_bucket(const Turn& turn, uint64_t key,
                                                 uint64_t& word) noexcept {
  const uint64_t h = hash(key);
  if (turn.is_alone()) [[likely]] {
    Line& line = buckets_[bucket_of(h, span())];
    word = line.control.load(std::memory_order_relaxed);  // nobody else is here
    return line;
  }
  for (;;) {
    const Span before = span();
    const std::size_t at = bucket_of(h, before);
    Line& line = buckets_[at];
    base::prefetch_for_write(&line);
    word = lock(line);
    const Span now = span();
    if (now == before || bucket_of(h, now) == at) [[likely]]
      return line;  // invariant 5
    unlock(line, word);
  }
}

/// One more behind a queue; false: no line for it.
inline bool MatchTable::queue_more(QueueLine& head, uint64_t value) noexcept {
  QueueLine& tail = queue_at(head.tail);
  if (tail.end == kQueueValues) [[unlikely]]
    return queue_lengthen(head, tail, value);
  tail.values[tail.end++] = value;
  return true;
}

/// A locked bucket: its first line and the control word that unlocking will publish.
class MatchTable::Held {
 public:
  Held(Line& first, uint64_t word) : first_(first), word_(word) {}
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { unlock(first_, word_); }
  Line& first() { return first_; }
  // relaxed: further lines are touched under the bucket's lock alone.
  uint64_t word(const Line& line) const {
    return &line == &first_ ? word_ : line.control.load(std::memory_order_relaxed);
  }
  void set_word(Line& line, uint64_t word) {
    if (&line == &first_) {
      word_ = word;
    } else {
      line.control.store(word, std::memory_order_relaxed);
    }
  }

 private:
  Line& first_;
  uint64_t word_;
};

}  // namespace weft::comm
