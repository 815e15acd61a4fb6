#include "comm/match_table.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>

#include "weft/base/error.hpp"

namespace weft::comm {
namespace {

// The control word: what each slot holds, a bit for each slot; bits 32.. the next line's number.
// All ones: someone holds the bucket's lock, and has the word.
constexpr uint64_t kBusy = ~uint64_t{0};
constexpr unsigned kUsed = 0;    // the slot holds a key
constexpr unsigned kSide = 3;    // its entries are receives
constexpr unsigned kQueued = 6;  // its value is the number of a queue's first line
constexpr uint64_t kSlots = 7;
constexpr unsigned kNext = 32;
constexpr uint64_t kFlags = (uint64_t{1} << kNext) - 1;

constexpr uint32_t next_of(uint64_t word) { return static_cast<uint32_t>(word >> kNext); }
constexpr uint64_t with_next(uint64_t word, uint32_t next) {
  return (word & kFlags) | (uint64_t{next} << kNext);
}
constexpr bool has(uint64_t word, unsigned what, unsigned slot) {
  return (word >> (what + slot) & 1) != 0;
}
constexpr uint64_t without_slot(uint64_t word, unsigned slot) {
  return word & ~((uint64_t{1} << kUsed | uint64_t{1} << kSide | uint64_t{1} << kQueued) << slot);
}
constexpr uint64_t with_slot(uint64_t word, unsigned slot, bool side, bool queued) {
  return without_slot(word, slot) |
         (uint64_t{1} << kUsed | uint64_t{side} << kSide | uint64_t{queued} << kQueued) << slot;
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

// Spare lines beyond the promised number: what other threads may have in hand at an instant.
constexpr std::size_t kSlack = 1024;
constexpr unsigned kSplitsAtOnce = 4;

}  // namespace

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

// ---- the usual way ------------------------------------------------------------------------------

inline uint64_t MatchTable::hash(uint64_t key) noexcept {
  // Two multiplications with a fold between and after: every bit of the key reaches the low bits.
  key *= 0x9e3779b97f4a7c15u;
  key ^= key >> 32;
  key *= 0xd6e8feb86659fd93u;
  return key ^ key >> 32;
}

inline std::size_t MatchTable::bucket_of(uint64_t hash, Span span) noexcept {
  const uint32_t at = static_cast<uint32_t>(hash) & span.mask;
  return at < span.count ? at : at & span.mask >> 1;  // not split yet: still with its lower half
}

inline MatchTable::Span MatchTable::span() const noexcept {
  // acquire: pairs with split_next's release; the new bucket is locked or filled.
  return std::bit_cast<Span>(span_.load(std::memory_order_acquire));
}

inline uint64_t MatchTable::lock(Line& line) noexcept {
  // acquire: pairs with unlock's release. Writes at once: a reading test first would fetch a line
  // that another core owns twice.
  const uint64_t word = line.control.exchange(kBusy, std::memory_order_acquire);
  return word != kBusy ? word : lock_slow(line);
}

inline void MatchTable::unlock(Line& line, uint64_t word) noexcept {
  // release: pairs with lock's acquire.
  line.control.store(word, std::memory_order_release);
}

inline MatchTable::Line& MatchTable::lock_bucket(uint64_t key, uint64_t& word) noexcept {
  const uint64_t h = hash(key);
  for (;;) {
    const std::size_t at = bucket_of(h, span());
    Line& line = buckets_[at];
    base::prefetch_for_write(&line);
    word = lock(line);
    if (bucket_of(h, span()) == at) [[likely]]
      return line;  // invariant 5
    unlock(line, word);
  }
}

/// Access, or take (value 0).
inline uint64_t MatchTable::meet(uint64_t key, Side side, uint64_t value) noexcept {
  uint64_t word;
  Line& line = lock_bucket(key, word);
  const uint64_t found = slots_with(line, word, key);
  if (found != 0) {
    const auto slot = static_cast<unsigned>(std::countr_zero(found));
    // Of the other side, alone, and nothing to tidy in a chain:
    if (has(word, kSide, slot) != (side == Side::receive) && !has(word, kQueued, slot)) [[likely]] {
      const uint64_t met = line.slots[slot].value;
      unlock(line, without_slot(word, slot));
      return met;
    }
  } else if (next_of(word) == 0) [[likely]] {
    if (value == 0) {
      unlock(line, word);
      return 0;
    }
    const uint64_t vacant = ~word & kSlots;
    if (vacant != 0) [[likely]] {
      const auto slot = static_cast<unsigned>(std::countr_zero(vacant));
      line.slots[slot] = {key, value};
      unlock(line, with_slot(word, slot, side == Side::receive, false));
      return 0;
    }
  }
  bool lengthened = false;
  uint64_t met;
  {
    Held held(line, word);
    met = meet_slow(held, key, side, value, lengthened);
  }
  if (lengthened) grow_if_chained();
  return met;
}

uint64_t MatchTable::access(uint64_t key, Side side, uint64_t value) noexcept {
  return meet(key, side, value);
}

uint64_t MatchTable::take(uint64_t key, Side side) noexcept { return meet(key, side, 0); }

void MatchTable::prefetch(uint64_t key) const noexcept {
  base::prefetch_for_write(&buckets_[bucket_of(hash(key), span())]);
}

// ---- chains and queues --------------------------------------------------------------------------

uint64_t MatchTable::lock_slow(Line& line) noexcept {
  for (;;) {
    for (int spin = 0; spin < 64; ++spin) {
      // relaxed: only to wait without writing.
      if (line.control.load(std::memory_order_relaxed) != kBusy) {
        // acquire: pairs with unlock's release.
        const uint64_t word = line.control.exchange(kBusy, std::memory_order_acquire);
        if (word != kBusy) return word;
      }
      base::cpu_relax();
    }
    sched_yield();  // the holder may be preempted on our core
  }
}

MatchTable::Place MatchTable::find(Held& held, uint64_t key) const noexcept {
  Place place{&held.first(), nullptr, 0};
  for (;;) {
    const uint64_t word = held.word(*place.line);
    const uint64_t found = slots_with(*place.line, word, key);
    if (found != 0) {
      place.slot = static_cast<unsigned>(std::countr_zero(found));
      return place;
    }
    const uint32_t next = next_of(word);
    if (next == 0) return {nullptr, nullptr, 0};
    place.before = place.line;
    place.line = &line_at(next);
  }
}

uint64_t MatchTable::meet_slow(Held& held, uint64_t key, Side side, uint64_t value,
                               bool& lengthened) noexcept {
  const Place place = find(held, key);
  if (place.line == nullptr) {
    if (value == 0) return 0;
    return insert(held, key, side, value, lengthened) ? 0 : kNoRoom;
  }
  const uint64_t word = held.word(*place.line);
  const bool entry_side = has(word, kSide, place.slot);
  Slot& slot = place.line->slots[place.slot];
  bool queued = has(word, kQueued, place.slot);
  if (entry_side == (side == Side::receive)) {
    if (value == 0) return 0;
    if (!queue_append(slot, queued, value)) return kNoRoom;
  } else {
    if (!queued) {
      const uint64_t met = slot.value;
      erase_slot(held, place);
      return met;
    }
    value = queue_pop(slot, queued);
    held.set_word(*place.line, with_slot(word, place.slot, entry_side, queued));
    return value;
  }
  held.set_word(*place.line, with_slot(word, place.slot, entry_side, queued));
  return 0;
}

bool MatchTable::insert(Held& held, uint64_t key, Side side, uint64_t value,
                        bool& lengthened) noexcept {
  Line* line = &held.first();
  for (;;) {
    const uint64_t word = held.word(*line);
    const uint64_t vacant = ~word & kSlots;
    if (vacant != 0) {
      const auto slot = static_cast<unsigned>(std::countr_zero(vacant));
      line->slots[slot] = {key, value};
      held.set_word(*line, with_slot(word, slot, side == Side::receive, false));
      return true;
    }
    if (next_of(word) == 0) break;
    line = &line_at(next_of(word));
  }
  const uint32_t number = new_line();
  if (number == 0) return false;
  Line& added = line_at(number);
  added.slots[0] = {key, value};
  held.set_word(added, with_slot(0, 0, side == Side::receive, false));
  held.set_word(*line, with_next(held.word(*line), number));
  count_chain(1);
  lengthened = true;
  return true;
}

void MatchTable::erase_slot(Held& held, const Place& place) noexcept {
  const uint64_t word = without_slot(held.word(*place.line), place.slot);
  held.set_word(*place.line, word);
  if (place.before == nullptr || (word & kSlots) != 0) return;
  const uint64_t before = held.word(*place.before);
  const uint32_t number = next_of(before);
  held.set_word(*place.before, with_next(before, next_of(word)));
  free_line(number);
  count_chain(-1);
}

bool MatchTable::remove(uint64_t key, Side side, uint64_t value) noexcept {
  return remove_if(
             key, side,
             [](uint64_t entry, const void* wanted) {
               return entry == *static_cast<const uint64_t*>(wanted);
             },
             &value) != 0;
}

uint64_t MatchTable::remove_if(uint64_t key, Side side, Wanted wanted,
                               const void* argument) noexcept {
  uint64_t first_word;
  Line& first = lock_bucket(key, first_word);
  Held held(first, first_word);
  const Place place = find(held, key);
  if (place.line == nullptr) return 0;
  const uint64_t word = held.word(*place.line);
  const bool entry_side = has(word, kSide, place.slot);
  if (entry_side != (side == Side::receive)) return 0;
  Slot& slot = place.line->slots[place.slot];
  bool queued = has(word, kQueued, place.slot);
  if (!queued) {
    const uint64_t value = slot.value;
    if (!wanted(value, argument)) return 0;
    erase_slot(held, place);
    return value;
  }
  const uint64_t removed = queue_remove(slot, queued, wanted, argument);
  held.set_word(*place.line, with_slot(word, place.slot, entry_side, queued));
  return removed;
}

bool MatchTable::queue_append(Slot& slot, bool& queued, uint64_t value) noexcept {
  if (!queued) {
    const uint32_t number = new_line();
    if (number == 0) return false;
    queue_at(number) = {
        .next = 0, .tail = number, .begin = 0, .end = 2, .values = {slot.value, value}};
    slot.value = number;
    queued = true;
    return true;
  }
  QueueLine& head = queue_at(slot.value);
  QueueLine& tail = queue_at(head.tail);
  if (tail.end < kQueueValues) {
    tail.values[tail.end++] = value;
    return true;
  }
  const uint32_t number = new_line();
  if (number == 0) return false;
  queue_at(number) = {.next = 0, .tail = 0, .begin = 0, .end = 1, .values = {value}};
  tail.next = number;
  head.tail = number;
  return true;
}

uint64_t MatchTable::queue_pop(Slot& slot, bool& queued) noexcept {
  QueueLine& head = queue_at(slot.value);
  const uint64_t value = head.values[head.begin++];
  queue_settle(slot, queued);
  return value;
}

/// Restores invariant 3 after a value of the first line went, or the line behind it.
void MatchTable::queue_settle(Slot& slot, bool& queued) noexcept {
  const auto number = static_cast<uint32_t>(slot.value);
  QueueLine& head = queue_at(number);
  if (head.begin == head.end) {
    // There was one more value at least, so there is a next line.
    queue_at(head.next).tail = head.tail;
    slot.value = head.next;
    free_line(number);
    queue_settle(slot, queued);
  } else if (head.next == 0 && head.end - head.begin == 1) {
    slot.value = head.values[head.begin];
    queued = false;
    free_line(number);
  }
}

uint64_t MatchTable::queue_remove(Slot& slot, bool& queued, Wanted wanted,
                                  const void* argument) noexcept {
  uint32_t before = 0;
  for (auto number = static_cast<uint32_t>(slot.value); number != 0;) {
    QueueLine& line = queue_at(number);
    uint64_t* const end = line.values + line.end;
    uint64_t* const place = std::find_if(
        line.values + line.begin, end, [&](uint64_t each) { return wanted(each, argument); });
    if (place == end) {
      before = number;
      number = line.next;
      continue;
    }
    const uint64_t value = *place;
    std::copy(place + 1, end, place);
    --line.end;
    if (line.begin == line.end && before != 0) {
      queue_at(before).next = line.next;
      if (line.next == 0) queue_at(slot.value).tail = before;
      free_line(number);
    }
    queue_settle(slot, queued);
    return value;
  }
  return 0;
}

uint32_t MatchTable::new_line() noexcept {
  const uint32_t index = spare_.alloc();
  return index == SlotPool::kNone ? 0 : index + 1;
}

void MatchTable::free_line(uint32_t number) noexcept { spare_.free(number - 1); }

// ---- growth -------------------------------------------------------------------------------------

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
                          has(source_word, kQueued, slot));
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
  set_span(upper_index + 1, std::memory_order_release);
  unlock(upper, deals[1].first_word);
  unlock(lower, deals[0].first_word);
  while (spare != 0) {
    const uint32_t number = spare;
    spare = next_of(line_at(number).control.load(std::memory_order_relaxed));
    free_line(number);
  }
  if (freed != 0) chained_.fetch_sub(freed, std::memory_order_relaxed);
}

void MatchTable::set_span(uint32_t count, std::memory_order order) noexcept {
  span_.store(std::bit_cast<uint64_t>(Span{count, std::bit_ceil(count) - 1}), order);
}

// ---- making, ending, telling --------------------------------------------------------------------

MatchTable::MatchTable(std::size_t buckets, std::size_t entries)
    : spare_(static_cast<uint32_t>(std::min(entries + kSlack, std::size_t{1} << 31)),
             SlotPool::Checks::by_build) {
  const std::size_t start = std::bit_ceil(std::max<std::size_t>(buckets, 2));
  const std::size_t most = std::max(start, std::bit_ceil(std::max<std::size_t>(entries / 2, 2)));
  if (most > std::size_t{1} << 31 || entries >= std::size_t{1} << 31)
    throw Error(Errc::bad_argument, "a match table of more than 2^31 buckets or entries");
  const std::size_t lines = entries + kSlack;
  mapped_bytes_ = (most + lines) * sizeof(Line);
  void* memory = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Error(Errc::no_memory, "no memory for a match table");
  // Zero pages are valid: unlocked, empty buckets.
  buckets_ = static_cast<Line*>(memory);
  lines_ = buckets_ + most;
  max_buckets_ = static_cast<uint32_t>(most);
  set_span(static_cast<uint32_t>(start), std::memory_order_relaxed);  // nobody else yet
}

MatchTable::~MatchTable() { ::munmap(buckets_, mapped_bytes_); }

/// Tells each entry of a bucket whose lock is held, or that nobody else knows.
template <class F>
void MatchTable::for_each_in(const Line& first, uint64_t word, F&& each) const {
  for (const Line* line = &first;;) {
    for (unsigned at = 0; at < 3; ++at) {
      if (!has(word, kUsed, at)) continue;
      const Slot& slot = line->slots[at];
      const Side side = has(word, kSide, at) ? Side::receive : Side::arrival;
      if (!has(word, kQueued, at)) {
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
      if (!has(word, kUsed, at) || !has(word, kQueued, at)) continue;
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

std::vector<uint64_t> MatchTable::keys_where(Side side,
                                             const std::function<bool(uint64_t)>& wanted) {
  std::vector<uint64_t> keys;
  for (std::size_t at = 0; at < buckets(); ++at) {
    Line& first = buckets_[at];
    const uint64_t word = lock(first);
    for_each_in(first, word, [&](uint64_t key, Side entry_side, uint64_t) {
      if (entry_side == side && wanted(key)) keys.push_back(key);
    });
    unlock(first, word);
  }
  return keys;
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

std::size_t MatchTable::size() const noexcept {
  std::size_t count = 0;
  for (std::size_t at = 0; at < buckets(); ++at) {
    Line& first = buckets_[at];
    // relaxed: an empty bucket need not be locked, and an untouched page is only read.
    if (first.control.load(std::memory_order_relaxed) == 0) continue;
    const uint64_t word = lock(first);
    for_each_in(first, word, [&](uint64_t, Side, uint64_t) { ++count; });
    unlock(first, word);
  }
  return count;
}

std::size_t MatchTable::buckets() const noexcept { return span().count; }

std::size_t MatchTable::lines_in_use() const noexcept {
  return spare_.capacity() - spare_.available();
}

}  // namespace weft::comm
