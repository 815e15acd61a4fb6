// What looks at every bucket of the match table: sweeps, teardown, reports. Not the message path.
#include <mutex>

#include "comm/match_table_lines.hpp"

namespace weft::comm {

using namespace match_control;

/// Tells each entry of a bucket whose lock is held, or that nobody else knows.
template <class F>
void MatchTable::for_each_in(const Line& first, uint64_t word, F&& each) const {
  for (const Line* line = &first;;) {
    for (unsigned at = 0; at < 3; ++at) {
      if (!has(word, kUsed, at)) continue;
      const Slot& slot = line->slots[at];
      const Side side = has(word, kSide, at) ? Side::receive : Side::arrival;
      if (!has(word, kMany, at)) {
        each(slot.key, side, slot.value);
        continue;
      }
      for (auto number = static_cast<uint32_t>(slot.value); number != 0;) {
        const QueueLine& queue = queue_at(number);
        for (uint32_t i = queue.begin; i < queue.end; ++i) each(slot.key, side, queue.values[i]);
        number = queue.next;
      }
    }
    const uint32_t next = next_of(word);
    if (next == 0) return;
    line = &line_at(next);
    word = line->control.load(std::memory_order_relaxed);  // as Held::word
  }
}

void MatchTable::free_lines_of(const Line& first, uint64_t word) noexcept {
  uint32_t number = 0;  // of `line`; the first has none
  for (const Line* line = &first;;) {
    for (unsigned at = 0; at < 3; ++at) {
      if (!has(word, kUsed, at) || !has(word, kMany, at)) continue;
      for (auto queue = static_cast<uint32_t>(line->slots[at].value); queue != 0;) {
        const uint32_t next = queue_at(queue).next;
        free_line(queue);
        queue = next;
      }
    }
    const uint32_t next = next_of(word);
    if (number != 0) {
      free_line(number);
      count_chain(-1);
    }
    if (next == 0) return;
    number = next;
    line = &line_at(next);
    word = line->control.load(std::memory_order_relaxed);  // as Held::word
  }
}

/// Of each bucket what is there when it is looked at.
template <class F>
void MatchTable::for_each(F&& each) {
  // Under the lock, which nobody waits for but who shares the table: it is shared.
  const std::lock_guard hold(growing_);
  share_growing();
  for (std::size_t at = 0; at < buckets(); ++at) {
    Line& first = buckets_[at];
    // relaxed: an empty bucket need not be locked, and an untouched page is only read.
    if (first.control.load(std::memory_order_relaxed) == 0) continue;
    // Given back whatever `each` throws.
    struct Locked {
      MatchTable& table;
      Line& first;
      const uint64_t word = table.lock(first);
      ~Locked() { table.unlock(first, word); }
    } const locked{*this, first};
    for_each_in(first, locked.word, each);
  }
}

std::vector<uint64_t> MatchTable::keys_where(Side side,
                                             const std::function<bool(uint64_t)>& wanted) {
  std::vector<uint64_t> keys;
  for_each([&](uint64_t key, Side entry_side, uint64_t) {
    if (entry_side == side && wanted(key)) keys.push_back(key);
  });
  return keys;
}

void MatchTable::survey(const std::function<void(uint64_t, Side, uint64_t)>& each) {
  for_each(each);
}

void MatchTable::drain(const std::function<void(uint64_t, Side, uint64_t)>& each) {
  for (std::size_t at = 0; at < buckets(); ++at) {
    Line& first = buckets_[at];
    // relaxed, no lock: nobody else calls. An untouched page is only read.
    const uint64_t word = first.control.load(std::memory_order_relaxed);
    if (word == 0) continue;
    for_each_in(first, word, each);
    free_lines_of(first, word);
    first.control.store(0, std::memory_order_relaxed);
  }
}

std::size_t MatchTable::size() noexcept {
  std::size_t count = 0;
  for_each([&](uint64_t, Side, uint64_t) { ++count; });
  return count;
}

std::size_t MatchTable::buckets() const noexcept { return span().count; }

std::size_t MatchTable::lines_in_use() const noexcept {
  return spare_.capacity() - spare_.available();
}

}  // namespace weft::comm
