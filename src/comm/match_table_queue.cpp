// The queues of values in the match table: several entries of one key, oldest first. All of it runs
// under the lock of the key's bucket.
#include <algorithm>

#include "comm/match_table_lines.hpp"

namespace weft::comm {

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
  return queue_more(queue_at(slot.value), value);
}

bool MatchTable::queue_lengthen(QueueLine& head, QueueLine& tail, uint64_t value) noexcept {
  const uint32_t number = new_line();
  if (number == 0) return false;
  QueueLine& line = queue_at(number);
  line.next = line.tail = line.begin = 0;
  line.end = 1;
  line.values[0] = value;
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

/// Takes the oldest values, all of one line at most, and leaves one or more.
uint32_t MatchTable::queue_pop_run(Slot& slot, bool& queued, std::span<uint64_t> into) noexcept {
  QueueLine& head = queue_at(slot.value);
  const uint32_t spare = head.end - head.begin - (head.next == 0 ? 1 : 0);
  const uint32_t n = std::min(spare, static_cast<uint32_t>(into.size()));
  std::copy_n(head.values + head.begin, n, into.data());
  head.begin += n;
  queue_settle(slot, queued);
  return n;
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
    uint64_t* const place = std::find_if(line.values + line.begin, end,
                                         [&](uint64_t each) { return wanted(each, argument); });
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
  return index == base::SlotPool::kNone ? 0 : index + 1;
}

void MatchTable::free_line(uint32_t number) noexcept { spare_.free(number - 1); }

}  // namespace weft::comm
