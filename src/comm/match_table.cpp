// The match table's accesses: the usual way first, chains after it, making and ending last.
#include "comm/match_table.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "comm/match_table_lines.hpp"
#include "weft/base/error.hpp"

namespace weft::comm {

using namespace match_control;

// Spare lines beyond the promised number: what other threads may have in hand at an instant.
static constexpr std::size_t kSlack = 1024;

/// Access, or take (value 0).
inline uint64_t MatchTable::meet(uint64_t key, Side side, uint64_t value) noexcept {
  const Turn turn(*this);
  uint64_t word;
  Line& line = lock_bucket(turn, key, word);
  const uint64_t found = slots_with(line, word, key);
  if (found != 0) {
    const auto slot = static_cast<unsigned>(std::countr_zero(found));
    const bool opposite = has(word, kSide, slot) != (side == Side::receive);
    // Of the other side, alone, and nothing to tidy in a chain:
    if (opposite && !has(word, kMany, slot)) [[likely]] {
      const uint64_t met = line.slots[slot].value;
      unlock(line, without_slot(word, slot));
      return met;
    }
    // One of a queue, which stays one: the slot and its line do not change.
    if (has(word, kMany, slot)) {
      QueueLine& head = queue_at(line.slots[slot].value);
      if (opposite) {
        if (head.end - head.begin > (head.next == 0 ? 2U : 1U)) {
          const uint64_t met = head.values[head.begin++];
          unlock(line, word);
          return met;
        }
      } else if (value != 0 && queue_more(head, value)) {
        unlock(line, word);
        return 0;
      }
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
  return meet_otherwise(line, word, key, side, value);
}

uint64_t MatchTable::access(uint64_t key, Side side, uint64_t value) noexcept {
  return meet(key, side, value);
}

uint64_t MatchTable::take(uint64_t key, Side side) noexcept { return meet(key, side, 0); }

uint32_t MatchTable::take_run(uint64_t key, Side side, std::span<uint64_t> into) noexcept {
  const Turn turn(*this);
  uint64_t word;
  Line& first = lock_bucket(turn, key, word);
  Held held(first, word);
  const Place place = find(held, key);
  if (place.line == nullptr) return 0;
  Slot& slot = place.line->slots[place.slot];
  word = held.word(*place.line);
  const bool entry_side = has(word, kSide, place.slot);
  if (entry_side == (side == Side::receive)) return 0;
  bool queued = has(word, kMany, place.slot);
  uint32_t taken = 0;
  while (queued && taken < into.size()) {
    taken += queue_pop_run(slot, queued, into.subspan(taken));
  }
  if (taken < into.size()) {
    into[taken++] = slot.value;
    erase_slot(held, place);
  } else {
    held.set_word(*place.line, with_slot(word, place.slot, entry_side, queued));
  }
  return taken;
}

// ---- out of the usual way -----------------------------------------------------------------------

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

/// What `meet` does not do in line; the bucket is locked. Opens its lock.
uint64_t MatchTable::meet_otherwise(Line& first, uint64_t first_word, uint64_t key, Side side,
                                    uint64_t value) noexcept {
  bool lengthened = false;
  uint64_t met = 0;
  {
    Held held(first, first_word);
    const Place place = find(held, key);
    if (place.line == nullptr) {
      met = value == 0 || insert(held, key, side, value, lengthened) ? 0 : kNoRoom;
    } else {
      met = meet_at(held, place, side, value);
    }
  }
  if (lengthened) grow_if_chained();
  return met;
}

uint64_t MatchTable::meet_at(Held& held, const Place& place, Side side, uint64_t value) noexcept {
  const uint64_t word = held.word(*place.line);
  const bool entry_side = has(word, kSide, place.slot);
  Slot& slot = place.line->slots[place.slot];
  bool queued = has(word, kMany, place.slot);
  uint64_t met = 0;
  if (entry_side == (side == Side::receive)) {
    if (value == 0) return 0;
    if (!queue_append(slot, queued, value)) return kNoRoom;
  } else if (queued) {
    met = queue_pop(slot, queued);
  } else {
    met = slot.value;
    erase_slot(held, place);
    return met;
  }
  held.set_word(*place.line, with_slot(word, place.slot, entry_side, queued));
  return met;
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
  const Turn turn(*this);
  uint64_t first_word;
  Line& first = lock_bucket(turn, key, first_word);
  Held held(first, first_word);
  const Place place = find(held, key);
  if (place.line == nullptr) return 0;
  const uint64_t word = held.word(*place.line);
  const bool entry_side = has(word, kSide, place.slot);
  if (entry_side != (side == Side::receive)) return 0;
  Slot& slot = place.line->slots[place.slot];
  bool queued = has(word, kMany, place.slot);
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

// ---- making and ending --------------------------------------------------------------------------

MatchTable::MatchTable(std::size_t buckets, std::size_t entries, Owning owning)
    : crowded_(owning == Owning::no),
      spare_(static_cast<uint32_t>(std::min(entries + kSlack, std::size_t{1} << 31)),
             base::SlotPool::Checks::by_build) {
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
  set_span(static_cast<uint32_t>(start), false, std::memory_order_relaxed);  // nobody else yet
}

MatchTable::~MatchTable() { ::munmap(buckets_, mapped_bytes_); }

}  // namespace weft::comm
