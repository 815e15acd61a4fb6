#include "mpi/matching/keyed_channel.hpp"

#include <mutex>

#include "mpi/matching/arrived.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/backoff.hpp"

namespace weft::mpi {

/// The locks of all buckets, `order_` being held: nobody is in any.
class KeyedChannel::HoldAll {
 public:
  explicit HoldAll(Table& table) noexcept : table_(table) {
    bool any_favoured = false;
    for (uint32_t i = 0; i <= table_.mask; ++i) {
      any_favoured |= table_.buckets[i].lock.begin_closing();
    }
    if (any_favoured) base::heavy_fence();
    for (uint32_t i = 0; i <= table_.mask; ++i) table_.buckets[i].lock.finish_closing();
  }
  ~HoldAll() {
    for (uint32_t i = 0; i <= table_.mask; ++i) table_.buckets[i].lock.reopen();
  }
  HoldAll(const HoldAll&) = delete;
  HoldAll& operator=(const HoldAll&) = delete;

 private:
  Table& table_;
};

KeyedChannel::KeyedChannel(Promises promises, uint32_t quiet, uint32_t sample)
    : promises_(promises), quiet_before_back_(quiet), sample_mask_(sample - 1) {
  tables_.push_back(std::make_unique<Table>(kFirstBuckets));
  table_.store(tables_.back().get(), std::memory_order_release);
}

// --- Queues behind keys (whoever owns the bucket) ------------------------------------------------

/// Where the first entry of this key is linked, or would be: at the end of the chain.
inline Entry** KeyedChannel::place_of(Bucket& bucket, Rank source, int tag,
                                      uint32_t& keys) noexcept {
  Entry** place = &bucket.keys;
  while (*place != nullptr && ((*place)->process != source || (*place)->tag != tag)) {
    place = &(*place)->next_key;
    ++keys;
  }
  return place;
}

inline void KeyedChannel::append(Entry** place, Entry& entry) noexcept {
  entry.next = nullptr;
  entry.linked = true;
  Entry* const first = *place;
  if (first == nullptr) {
    entry.previous = nullptr;
    entry.next_key = nullptr;
    entry.last = &entry;
    *place = &entry;
  } else {
    entry.previous = first->last;
    first->last->next = &entry;
    first->last = &entry;
  }
}

/// Takes out the first of a key.
inline void KeyedChannel::pop(Entry** place) noexcept {
  Entry& first = **place;
  first.linked = false;
  if (Entry* const second = first.next; second != nullptr) {
    second->previous = nullptr;
    second->last = first.last;
    second->next_key = first.next_key;
    *place = second;
  } else {
    *place = first.next_key;
  }
}

/// Takes out the first receives of a key, as many as there is room for; how many.
inline uint32_t KeyedChannel::pop_receives(Entry** place, std::span<Transfer*> into) noexcept {
  Entry* const first = *place;
  if (first == nullptr || !first->is_receive) return 0;
  Entry* each = first;
  uint32_t count = 0;
  do {
    each->linked = false;
    into[count++] = static_cast<Transfer*>(each);
    each = each->next;
  } while (each != nullptr && count < into.size());
  if (each != nullptr) {
    each->previous = nullptr;
    each->last = first->last;
    each->next_key = first->next_key;
    *place = each;
  } else {
    *place = first->next_key;
  }
  return count;
}

void KeyedChannel::remove(Entry** place, Entry& entry) noexcept {
  if (*place == &entry) {
    pop(place);
    return;
  }
  entry.linked = false;
  entry.previous->next = entry.next;
  if (entry.next != nullptr) {
    entry.next->previous = entry.previous;
  } else {
    (*place)->last = entry.previous;
  }
}

inline uint64_t KeyedChannel::count(std::atomic<uint64_t>& what, int by, bool alone) noexcept {
  const auto step = static_cast<uint64_t>(by);
  // relaxed: stamps order what one source's arrivals, which are one after the other, left behind;
  // the number of messages that wait is a hint.
  if (!alone) return what.fetch_add(step, std::memory_order_relaxed);
  const uint64_t before = what.load(std::memory_order_relaxed);
  what.store(before + step, std::memory_order_relaxed);
  return before;
}

inline void KeyedChannel::add_message(Entry** place, Entry& message, bool alone) noexcept {
  if (!exact_keys_.load(std::memory_order_relaxed)) {
    message.stamp = count(arrival_stamp_, 1, alone);
  }
  count(unexpected_, 1, alone);
  append(place, message);
}

inline void KeyedChannel::taken(Entry& message, bool alone) noexcept {
  if (!message.is_receive) count(unexpected_, -1, alone);
}

// --- Exact keys ----------------------------------------------------------------------------------

// In line: all its callers are on a message's way.
[[gnu::always_inline]] inline Entry* KeyedChannel::meet(Bucket& bucket, Wanted wanted, Entry* own,
                                                        bool alone, uint32_t& keys) noexcept {
  Entry** const place = place_of(bucket, wanted.source, wanted.tag, keys);
  Entry* const met = *place;
  if (met != nullptr && met->is_receive != wanted.for_receive) {
    pop(place);
    if (wanted.for_receive) count(unexpected_, -1, alone);
    return met;
  }
  if (own == nullptr) return nullptr;
  if (wanted.for_receive) {
    own->stamp = 0;
    append(place, *own);
  } else {
    add_message(place, *own, alone);
  }
  return nullptr;
}

/// A search of `table` passed so many keys, and met `met`.
[[gnu::noinline]] Entry* KeyedChannel::note_keys(Entry* met, uint32_t keys, const Table& table) {
  note_passed(keys);
  if (keys > kLongChain && table.mask + 1 < kMostBuckets) grow(table);
  return met;
}

// In line, and calls nothing but in its last step: three functions that a message may go through
// are this and little else.
[[gnu::always_inline]] inline Entry* KeyedChannel::access(Wanted wanted, Entry* own) {
  // relaxed: a hint, for those who have it not.
  if (mode() != Mode::alone) return access_beside_others(wanted, own);
  const base::Favour::Mark mark = favour_.enter();
  if (mark == nullptr) [[unlikely]]
    return access_beside_others(wanted, own);
  // relaxed: nobody else changes anything (invariant 7).
  const Table& table = *table_.load(std::memory_order_relaxed);
  uint32_t keys = 0;
  Entry* const met = meet(table.of(hash(wanted.source, wanted.tag)), wanted, own, true, keys);
  base::Favour::leave(mark);
  return keys == 0 ? met : note_keys(met, keys, table);
}

Entry* KeyedChannel::access_beside_others(Wanted wanted, Entry* own) {
  for (;;) {
    // acquire: pairs with grow's release.
    Table* const table = table_.load(std::memory_order_acquire);
    Bucket& bucket = table->of(hash(wanted.source, wanted.tag));
    const base::BiasedLock::Mark mark = bucket.lock.enter();
    // relaxed, both: they change under this lock (invariant 3).
    const Mode now = mode();
    if (now != Mode::by_keys || table != table_.load(std::memory_order_relaxed)) [[unlikely]] {
      bucket.lock.leave(mark);
      Entry* met = nullptr;
      if (now == Mode::ordered && access_ordered(wanted, own, met)) return met;
      if (now == Mode::alone) {
        const std::scoped_lock guard(order_);
        share();
      }
      continue;
    }
    uint32_t keys = 0;
    Entry* const met = meet(bucket, wanted, own, false, keys);
    bucket.lock.leave(mark);
    if (keys != 0) (void)note_keys(met, keys, *table);
    count_turn();
    return met;
  }
}

/// The same while wildcards are about. False: they no longer are.
bool KeyedChannel::access_ordered(Wanted wanted, Entry* own, Entry*& met) {
  const std::scoped_lock guard(order_);
  if (mode() != Mode::ordered) return false;
  Table& table = *table_.load(std::memory_order_relaxed);
  uint32_t keys = 0;
  Entry** const place =
      place_of(table.of(hash(wanted.source, wanted.tag)), wanted.source, wanted.tag, keys);
  Entry* const exact =
      *place != nullptr && (*place)->is_receive != wanted.for_receive ? *place : nullptr;
  Entry* const wildcard = wanted.for_receive ? nullptr : first_wildcard(wanted.source, wanted.tag);
  if (wildcard != nullptr && (exact == nullptr || wildcard->stamp < exact->stamp)) {
    unlink_wildcard(*wildcard);
    met = wildcard;
  } else if (exact != nullptr) {
    pop(place);
    taken(*exact, false);
    met = exact;
  } else if (own != nullptr && wanted.for_receive) {
    own->stamp = ++posted_stamp_;
    append(place, *own);
  } else if (own != nullptr) {
    add_message(place, *own, false);
  }
  note_passed(keys);
  note_quiet();
  return true;
}

Transfer* KeyedChannel::take_receive(Rank source, int tag) {
  return static_cast<Transfer*>(access({source, tag, false}, nullptr));
}

uint32_t KeyedChannel::take_receives_of(Rank source, int tag, std::span<Transfer*> into) {
  const auto pop_from = [&](const Table& table, uint32_t& keys) {
    return pop_receives(place_of(table.of(hash(source, tag)), source, tag, keys), into);
  };
  uint32_t keys = 0;
  // As in access.
  if (mode() == Mode::alone) {
    if (const base::Favour::Mark mark = favour_.enter(); mark != nullptr) [[likely]] {
      const Table& table = *table_.load(std::memory_order_relaxed);
      const uint32_t count = pop_from(table, keys);
      base::Favour::leave(mark);
      if (keys != 0) (void)note_keys(nullptr, keys, table);
      return count;
    }
  }
  // acquire and relaxed: as in access_beside_others.
  const Table& table = *table_.load(std::memory_order_acquire);
  Bucket& bucket = table.of(hash(source, tag));
  const base::BiasedLock::Mark mark = bucket.lock.enter();
  const bool is_ours = mode() == Mode::by_keys && &table == table_.load(std::memory_order_relaxed);
  const uint32_t count = is_ours ? pop_from(table, keys) : 0;
  bucket.lock.leave(mark);
  if (!is_ours) [[unlikely]]
    return Channel::take_receives_of(source, tag, into);
  if (keys != 0) (void)note_keys(nullptr, keys, table);
  count_turn();
  return count;
}

Transfer* KeyedChannel::arrive(Arrived& message) {
  return static_cast<Transfer*>(access({message.process, message.tag, false}, &message));
}

Arrived* KeyedChannel::post(Transfer& receive) {
  receive.is_receive = true;
  if (receive.process == kAnySource || receive.tag == MPI_ANY_TAG) [[unlikely]]
    return post_wildcard(receive);
  return static_cast<Arrived*>(access({receive.process, receive.tag, true}, &receive));
}

// --- Wildcards -----------------------------------------------------------------------------------

void KeyedChannel::enter_order() {
  order_.lock();
  quiet_ = 0;
  share();
  if (mode() == Mode::ordered) return;
  const HoldAll all(*table_.load(std::memory_order_relaxed));
  mode_.store(Mode::ordered, std::memory_order_relaxed);  // invariant 3: read under these locks
}

void KeyedChannel::note_quiet() {
  if (wildcards_ != nullptr || ++quiet_ < quiet_before_back_) return;
  const HoldAll all(*table_.load(std::memory_order_relaxed));
  mode_.store(Mode::by_keys, std::memory_order_relaxed);
}

/// Where the oldest message that a wildcard would meet is linked; it is the first of its key.
Entry** KeyedChannel::oldest(Rank source, int tag) noexcept {
  Entry** best = nullptr;
  if (unexpected_.load(std::memory_order_relaxed) == 0) return best;  // exact: `order_` is held
  const Table& table = *table_.load(std::memory_order_relaxed);
  uint64_t keys = 0;
  for (uint32_t i = 0; i <= table.mask; ++i) {
    for (Entry** place = &table.buckets[i].keys; *place != nullptr; place = &(*place)->next_key) {
      const Entry& first = **place;
      ++keys;
      if (!first.is_receive && (source == kAnySource || first.process == source) &&
          (tag == MPI_ANY_TAG || first.tag == tag) &&
          (best == nullptr || first.stamp < (*best)->stamp)) {
        best = place;
      }
    }
  }
  note_passed(best != nullptr ? keys - 1 : keys);
  return best;
}

Arrived* KeyedChannel::post_wildcard(Transfer& receive) {
  enter_order();
  const std::scoped_lock guard(std::adopt_lock, order_);
  if (Entry** const place = oldest(receive.process, receive.tag); place != nullptr) {
    Entry* const message = *place;
    pop(place);
    taken(*message, false);
    return static_cast<Arrived*>(message);
  }
  receive.stamp = ++posted_stamp_;
  receive.linked = true;
  receive.next = nullptr;
  receive.previous = last_wildcard_;
  (last_wildcard_ != nullptr ? last_wildcard_->next : wildcards_) = &receive;
  last_wildcard_ = &receive;
  return nullptr;
}

Entry* KeyedChannel::first_wildcard(Rank source, int tag) noexcept {
  uint64_t passed = 0;
  Entry* each = wildcards_;
  for (; each != nullptr; each = each->next, ++passed) {
    if ((each->process == kAnySource || each->process == source) &&
        (each->tag == MPI_ANY_TAG || each->tag == tag)) {
      break;
    }
  }
  note_passed(passed);
  return each;
}

void KeyedChannel::unlink_wildcard(Entry& entry) noexcept {
  entry.linked = false;
  (entry.previous != nullptr ? entry.previous->next : wildcards_) = entry.next;
  (entry.next != nullptr ? entry.next->previous : last_wildcard_) = entry.previous;
}

// --- Probes and cancels --------------------------------------------------------------------------

KeyedChannel::Found KeyedChannel::seek(Rank source, int tag, bool take) {
  Found found;
  Entry** place = nullptr;
  uint32_t keys = 0;
  bool alone = false;
  if (source == kAnySource || tag == MPI_ANY_TAG) {
    // relaxed: a message that is being added now may as well come later.
    if (unexpected() == 0) return found;
    enter_order();
    found.order = &order_;
    place = oldest(source, tag);
  } else if (found.mark = favour_.enter(); found.mark != nullptr) {
    alone = true;
    place =
        place_of(table_.load(std::memory_order_relaxed)->of(hash(source, tag)), source, tag, keys);
  } else {
    for (;;) {
      Table* const table = table_.load(std::memory_order_acquire);
      Bucket& bucket = table->of(hash(source, tag));
      found.mark = bucket.lock.enter();
      found.bucket = &bucket.lock;
      if (mode() != Mode::by_keys) {
        found.let_go();
        order_.lock();
        found.order = &order_;
        share();
      }
      // As in access; what is seen under `order_` holds only while it is ordered.
      const bool ordered = mode() == Mode::ordered;
      if (ordered == (found.order != nullptr) &&
          (ordered || table == table_.load(std::memory_order_relaxed))) {
        place = place_of(table_.load(std::memory_order_relaxed)->of(hash(source, tag)), source, tag,
                         keys);
        break;
      }
      if (found.order != nullptr) order_.unlock();
      found.order = nullptr;
      found.let_go();
    }
  }
  note_passed(keys);
  if (place == nullptr || *place == nullptr || (*place)->is_receive) return found;
  found.message = static_cast<Arrived*>(*place);
  if (take) {
    pop(place);
    taken(*found.message, alone);
  }
  return found;
}

bool KeyedChannel::find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) {
  const Found found = seek(source, tag, false);
  if (found.message != nullptr) look(argument, *found.message);
  return found.message != nullptr;
}

bool KeyedChannel::withdraw(Transfer& receive) {
  const std::scoped_lock guard(order_);
  share();
  if (receive.process == kAnySource || receive.tag == MPI_ANY_TAG) {
    if (!receive.linked) return false;
    unlink_wildcard(receive);
    return true;
  }
  // Under `order_` neither the mode nor the table changes.
  Bucket& bucket = table_.load(std::memory_order_relaxed)->of(hash(receive.process, receive.tag));
  const base::BiasedLock::Hold in_bucket(bucket.lock);
  if (!receive.linked) return false;
  uint32_t keys = 0;
  remove(place_of(bucket, receive.process, receive.tag, keys), receive);
  return true;
}

Arrived* KeyedChannel::recall(Rank source, int tag, bool (*is_it)(void*, const Arrived&),
                              void* argument) {
  const std::scoped_lock guard(order_);
  share();
  // As in withdraw.
  Bucket& bucket = table_.load(std::memory_order_relaxed)->of(hash(source, tag));
  const base::BiasedLock::Hold in_bucket(bucket.lock);
  uint32_t keys = 0;
  Entry** const place = place_of(bucket, source, tag, keys);
  for (Entry* each = *place; each != nullptr && !each->is_receive; each = each->next) {
    auto& message = static_cast<Arrived&>(*each);
    if (!is_it(argument, message)) continue;
    remove(place, message);
    taken(message, false);
    return &message;
  }
  return nullptr;
}

// --- All of them ---------------------------------------------------------------------------------

void KeyedChannel::take_receives(bool (*wanted)(void*, const Transfer&), void* argument,
                                 std::vector<Transfer*>& into) {
  const std::scoped_lock guard(order_);
  share();
  Table& table = *table_.load(std::memory_order_relaxed);
  const HoldAll all(table);
  const auto first = into.size();
  for (uint32_t i = 0; i <= table.mask; ++i) {
    for (Entry* key = table.buckets[i].keys; key != nullptr; key = key->next_key) {
      for (Entry* each = key; each != nullptr && key->is_receive; each = each->next) {
        auto& receive = static_cast<Transfer&>(*each);
        if (wanted(argument, receive)) into.push_back(&receive);
      }
    }
  }
  for (auto i = first; i < into.size(); ++i) {
    uint32_t keys = 0;
    remove(place_of(table.of(hash(into[i]->process, into[i]->tag)), into[i]->process, into[i]->tag,
                    keys),
           *into[i]);
  }
  for (Entry* each = wildcards_; each != nullptr;) {
    Entry* const next = each->next;
    auto& receive = static_cast<Transfer&>(*each);
    if (wanted(argument, receive)) {
      unlink_wildcard(receive);
      into.push_back(&receive);
    }
    each = next;
  }
}

void KeyedChannel::take_messages(std::vector<Arrived*>& into) {
  const std::scoped_lock guard(order_);
  share();
  Table& table = *table_.load(std::memory_order_relaxed);
  const HoldAll all(table);
  for (uint32_t i = 0; i <= table.mask; ++i) {
    for (Entry** place = &table.buckets[i].keys; *place != nullptr;) {
      Entry* const first = *place;
      if (first->is_receive) {
        place = &first->next_key;
      } else {
        pop(place);
        taken(*first, false);
        into.push_back(static_cast<Arrived*>(first));
      }
    }
  }
}

/// Four times the buckets, where a chain has become long.
void KeyedChannel::grow(const Table& seen) {
  const std::scoped_lock guard(order_);
  Table& old = *table_.load(std::memory_order_relaxed);
  const uint32_t size = (old.mask + 1) * 4;
  if (&old != &seen || size > kMostBuckets) return;
  share();
  const HoldAll all(old);
  tables_.push_back(std::make_unique<Table>(size));
  Table& larger = *tables_.back();
  for (uint32_t i = 0; i <= old.mask; ++i) {
    Entry* key = old.buckets[i].keys;
    old.buckets[i].keys = nullptr;
    while (key != nullptr) {
      Entry* const next = key->next_key;
      Bucket& bucket = larger.of(hash(key->process, key->tag));
      key->next_key = bucket.keys;
      bucket.keys = key;
      key = next;
    }
  }
  // release: pairs with the acquires of access_beside_others and seek; those who wait for an old
  // bucket's lock look again.
  table_.store(&larger, std::memory_order_release);
}

// --- Whose the channel is ------------------------------------------------------------------------

bool KeyedChannel::favours_caller(Rank source, int tag) const noexcept {
  // acquire: as in access_beside_others.
  base::BiasedLock& lock = table_.load(std::memory_order_acquire)->of(hash(source, tag)).lock;
  const base::BiasedLock::Mark mark = lock.enter_as_favoured();
  if (mark != nullptr) base::BiasedLock::leave_as_favoured(mark);
  return mark != nullptr;
}

/// Who alone is seen many times in a row gets it, the harder the more often it was given.
void KeyedChannel::count_turn() noexcept {
  static constinit thread_local uint32_t turns = 0;  // beside others, in any channel
  if ((++turns & sample_mask_) != 0) [[likely]]
    return;
  // relaxed: all a guess at who uses it.
  if (mode() == Mode::ordered || !base::Favour::may_be_callers()) return;
  if (last_user_.load(std::memory_order_relaxed) != base::this_thread_slot()) {
    last_user_.store(base::this_thread_slot(), std::memory_order_relaxed);
    streak_.store(0, std::memory_order_relaxed);
    return;
  }
  const uint32_t streak = streak_.load(std::memory_order_relaxed) + 1;
  streak_.store(streak, std::memory_order_relaxed);
  if (streak < favour_.patience() || !order_.try_lock()) return;
  if (mode() == Mode::by_keys) {
    const HoldAll all(*table_.load(std::memory_order_relaxed));  // nobody is inside
    mode_.store(Mode::alone, std::memory_order_relaxed);
    favour_.give_to_caller();
  }
  streak_.store(0, std::memory_order_relaxed);
  order_.unlock();
}

void KeyedChannel::share() noexcept {
  if (mode() != Mode::alone) return;  // changes under `order_`
  for (base::Backoff backoff; !favour_.take_away();) backoff.pause();
  const HoldAll all(*table_.load(std::memory_order_relaxed));
  mode_.store(Mode::by_keys, std::memory_order_relaxed);
}

}  // namespace weft::mpi
