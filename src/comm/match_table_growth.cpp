// How the match table grows: linear hashing, one bucket at a time (invariant 5); and how a thread
// gets it and loses it (invariant 6).
#include <algorithm>
#include <bit>
#include <iterator>

#include "comm/match_table_lines.hpp"
#include "weft/base/backoff.hpp"

namespace weft::comm {

using namespace match_control;

static constexpr unsigned kSplitsAtOnce = 4;

void MatchTable::count_chain(int change) noexcept {
  // relaxed: a measure of load that orders nothing. What cells hold back is little beside it.
  auto& cell = *chained_cells_[base::this_thread_slot() % kCells];
  const int now = cell.fetch_add(change, std::memory_order_relaxed) + change;
  if (now != kCarry && now != -kCarry) return;
  cell.fetch_sub(now, std::memory_order_relaxed);
  chained_.fetch_add(now, std::memory_order_relaxed);
}

void MatchTable::grow_if_chained() noexcept {
  // relaxed: as count_chain.
  const uint32_t count = span().count;
  if (count >= max_buckets_ ||
      chained_.load(std::memory_order_relaxed) <= static_cast<int>(count / 8))
    return;
  if (!growing_.try_lock()) return;  // someone is at it
  for (unsigned i = 0; i < kSplitsAtOnce; ++i) split_next();
  growing_.unlock();
}

void MatchTable::split_next() noexcept {
  const Span now = span();
  if (now.count >= max_buckets_) return;
  const uint32_t upper_index = now.count;
  const uint32_t half = std::bit_floor(upper_index);
  Line& lower = buckets_[upper_index - half];
  Line& upper = buckets_[upper_index];
  // Two locks at once, lower before upper; nobody else ever holds two.
  Line source;
  uint64_t source_word = lock(lower);
  (void)lock(upper);  // empty, and nobody comes before the new count is published
  std::copy(std::begin(lower.slots), std::end(lower.slots), source.slots);

  // Deals the entries out again, filling lines from the front. A line's entries are copied before
  // the line is used again, so the chain's own lines suffice.
  struct Deal {
    Line* first;
    Line* line;
    uint64_t first_word = 0;
    uint64_t word = 0;
    unsigned used = 0;
  };
  Deal deals[2] = {{&lower, &lower}, {&upper, &upper}};
  uint32_t spare = 0;  // list of the source's lines that are free to use, linked by control
  int freed = 0;
  for (;;) {
    for (unsigned slot = 0; slot < 3; ++slot) {
      if (!has(source_word, kUsed, slot)) continue;
      Deal& to = deals[(hash(source.slots[slot].key) & half) != 0];
      if (to.used == 3) {
        const uint32_t number = spare;
        Line& added = line_at(number);
        spare = next_of(added.control.load(std::memory_order_relaxed));
        --freed;
        to.word = with_next(to.word, number);
        (to.line == to.first ? (void)(to.first_word = to.word)
                             : to.line->control.store(to.word, std::memory_order_relaxed));
        to.line = &added;
        to.word = 0;
        to.used = 0;
      }
      to.line->slots[to.used] = source.slots[slot];
      to.word = with_slot(to.word, to.used++, has(source_word, kSide, slot),
                          has(source_word, kMany, slot));
    }
    const uint32_t next = next_of(source_word);
    if (next == 0) break;
    Line& line = line_at(next);
    source_word = line.control.load(std::memory_order_relaxed);
    std::copy(std::begin(line.slots), std::end(line.slots), source.slots);
    line.control.store(with_next(0, spare), std::memory_order_relaxed);
    spare = next;
    ++freed;
  }
  for (Deal& deal : deals) {
    if (deal.line == deal.first) {
      deal.first_word = deal.word;
    } else {
      deal.line->control.store(deal.word, std::memory_order_relaxed);
    }
  }
  // release: pairs with span's acquire. Before the unlocks: invariant 5.
  set_span(upper_index + 1, now.is_owned(), std::memory_order_release);
  unlock(upper, deals[1].first_word);
  unlock(lower, deals[0].first_word);
  while (spare != 0) {
    const uint32_t number = spare;
    spare = next_of(line_at(number).control.load(std::memory_order_relaxed));
    free_line(number);
  }
  if (freed != 0) chained_.fetch_sub(freed, std::memory_order_relaxed);
}

// ---- whose the table is -------------------------------------------------------------------------

/// After kSample turns with locks. Who alone is counted many times in a row gets the table, the
/// harder the more often it was given. The turn that begins is alone, then; or nullptr.
base::Favour::Mark MatchTable::count_turns() noexcept {
  // relaxed: all a guess at who uses the table.
  if (crowded_.load(std::memory_order_relaxed) || !base::Favour::may_be_callers()) return nullptr;
  if (last_.load(std::memory_order_relaxed) != base::this_thread_slot()) {
    last_.store(base::this_thread_slot(), std::memory_order_relaxed);
    streak_.store(0, std::memory_order_relaxed);
    return nullptr;
  }
  const uint32_t streak = streak_.load(std::memory_order_relaxed) + 1;
  streak_.store(streak, std::memory_order_relaxed);
  if (streak < favour_.patience()) return nullptr;
  give_to_caller();
  return favour_.enter();
}

void MatchTable::give_to_caller() noexcept {
  if (!growing_.try_lock()) return;
  const Span now = span();
  if (!now.is_owned()) {
    set_span(now.count, true, std::memory_order_relaxed);  // ordered by the fence of wait_for_all
    favour_.wait_for_all();
    // seq_cst: announced, then looks; share says so, then looks at the span.
    if (!crowded_.load(std::memory_order_seq_cst)) {
      favour_.give_to_caller();
    } else {
      set_span(now.count, false, std::memory_order_release);
    }
  }
  streak_.store(0, std::memory_order_relaxed);
  growing_.unlock();
}

/// Another thread has the table, or the caller cannot be marked: takes the table from whoever has
/// it. The caller's mark; nullptr: from now on nobody gets the table.
base::Favour::Mark MatchTable::share() noexcept {
  for (;;) {
    base::Favour::Mark mark = favour_.join();
    // seq_cst: see give_to_caller.
    if (mark == nullptr && !crowded_.load(std::memory_order_seq_cst)) {
      crowded_.store(true, std::memory_order_seq_cst);
    }
    if (!span().is_owned()) return mark;
    // Not marked: whoever gets the table waits for all marks.
    if (mark != nullptr) base::Favour::leave(mark);
    growing_.lock();
    share_growing();
    growing_.unlock();
  }
}

/// (growing_)
void MatchTable::share_growing() noexcept {
  const Span now = span();
  if (!now.is_owned()) return;
  for (base::Backoff backoff; !favour_.take_away();) backoff.pause();
  // release: pairs with span's acquire; what the one that had it did is seen.
  set_span(now.count, false, std::memory_order_release);
}

}  // namespace weft::comm
