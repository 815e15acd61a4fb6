// The concurrent hash table in which arrivals and posted receives meet (000 §5.2.3).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weft/base/cache_line.hpp"
#include "weft/base/favour.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/slot_pool.hpp"

namespace weft::comm {

/// Which of the two meeting parties an entry is.
enum class Side : uint8_t { arrival, receive };

/// Matches arrivals with receives of equal key, the oldest first; no order between keys.
///
/// Values are the caller's, 0 < value < 2^62: a pointer, or a number with tags.
/// Owner and lifetime: whoever made it; every caller has returned before it is destroyed. What
/// still waits then is forgotten: `drain` it first where it owns something.
/// Who may call: any thread, at any time: all but `drain` and the destructor. `drain`
/// and the destructor: when nobody else calls.
/// Progress: one lock for each bucket, held for some thirty instructions, no user code, no heap;
/// a waiter spins briefly, then yields its core. Linearizable: an operation takes effect while it
/// holds the lock of its key's bucket. A thread that alone uses the table for long takes no locks:
/// it *has the table* (base::Favour), until another comes, which waits for it once.
/// Memory: buckets, and spare lines for chains and queues, lie in one reserved range whose pages
/// come on first touch. A full table answers kNoRoom and stays as it was.
///
/// Layout: a bucket is one line of 64 bytes: a control word (lock, what the three slots hold, the
/// number of the next line), and three slots of key and value. So an access costs one line's
/// transfer unless its bucket holds more than three keys. Several entries of one key take one slot,
/// whose value is then the number of the first line of a queue of values (oldest first).
///
/// Invariants, whenever a bucket's lock is free:
///  1. a key is in at most one slot of the table, in the bucket that `bucket_of` names;
///  2. all entries of a key are of one side (two sides would have met);
///  3. a queue holds at least two values and none of its lines is empty;
///  4. no line of a chain after the first is empty; chain and queue lines belong to one bucket, and
///     only the holder of its lock touches them;
///  5. the number of buckets only grows, by one, and while it does the lock of the bucket being
///     split is held. So who holds a bucket's lock and finds that the current number of buckets
///     still maps his key to it, has the right bucket until he unlocks;
///  6. while a thread has the table, the span says so (kOwned), and nobody else is inside a turn.
///     That begins and ends under `growing_`: it is announced in the span, then all who are inside
///     are waited for; who comes marks itself, then looks at the span.
///
/// Growth is linear hashing: when more than an eighth of the buckets have chains, whoever lengthens
/// a chain splits the next few buckets. Nobody else waits, but for the one bucket being split.
/// Source: 000 §5.2.3; the queues, both-sides-known entries and growth are ours. The paper's FNV
/// hash costs eight dependent multiplications; ours two.
class MatchTable {
 public:
  /// Answer of `access` when there was no match and no room to wait in: nothing happened.
  static constexpr uint64_t kNoRoom = ~uint64_t{0};

  /// Whether a thread that alone uses the table may get it.
  enum class Owning : bool { no, yes };
  /// `buckets`: how many to start with (rounded up to a power of two). `entries`: at least so many
  /// can wait at once, whatever their keys. Throws weft::Error (no_memory, bad_argument).
  explicit MatchTable(std::size_t buckets = 4096, std::size_t entries = 131072,
                      Owning owning = Owning::yes);
  ~MatchTable();
  MatchTable(const MatchTable&) = delete;
  MatchTable& operator=(const MatchTable&) = delete;

  /// Takes the oldest entry of the other side with this key and returns its value; if there is
  /// none, leaves (key, side, value) behind the older ones of its key and returns 0; or kNoRoom.
  [[nodiscard]] uint64_t access(uint64_t key, Side side, uint64_t value) noexcept;

  /// As `access` for a party of `side` that will not wait: the oldest entry of the other side with
  /// this key, taken out, or 0.
  [[nodiscard]] uint64_t take(uint64_t key, Side side) noexcept;

  /// `take` for several at once: fills `into` from its front with the oldest entries, in order, as
  /// far as there are any, and returns how many.
  [[nodiscard]] uint32_t take_run(uint64_t key, Side side, std::span<uint64_t> into) noexcept;

  /// Takes out that very entry; false if it is not there (it was matched). Linear in the number of
  /// entries with this key.
  [[nodiscard]] bool remove(uint64_t key, Side side, uint64_t value) noexcept;

  /// Takes out the oldest entry of that key and side for which `wanted(value, argument)` is true
  /// and returns its value, or 0. `wanted` runs under the bucket's lock: a comparison, no more.
  using Wanted = bool (*)(uint64_t value, const void* argument);
  [[nodiscard]] uint64_t remove_if(uint64_t key, Side side, Wanted wanted,
                                   const void* argument) noexcept;

  /// The keys of that side for which `wanted(key)` is true, once for each entry: what was there
  /// when its bucket was looked at. Locks one bucket after the other; for the rare sweep.
  [[nodiscard]] std::vector<uint64_t> keys_where(Side side,
                                                 const std::function<bool(uint64_t)>& wanted);

  /// The same for all entries. `each` runs under a bucket's lock, and must not call this table; the
  /// entry stays meanwhile.
  void survey(const std::function<void(uint64_t, Side, uint64_t)>& each);

  /// Takes everything out, each told to `each`, entries of one key oldest first. `each` must not
  /// call this table.
  void drain(const std::function<void(uint64_t key, Side side, uint64_t value)>& each);

  /// Entries waiting: exact when nobody calls, a hint otherwise. O(buckets and entries): for tests,
  /// teardown and reports.
  [[nodiscard]] std::size_t size() noexcept;

  /// Whether a thread has the table now. For tests.
  [[nodiscard]] bool has_owner() const noexcept { return favour_.is_given(); }
  /// Buckets now. For tests and reports.
  [[nodiscard]] std::size_t buckets() const noexcept;
  /// Lines that chains and queues hold now: exact when nobody calls. For tests and reports.
  [[nodiscard]] std::size_t lines_in_use() const noexcept;

 private:
  struct Slot {
    uint64_t key;
    uint64_t value;
  };
  /// A bucket, or a further line of one. `control` of a further line is not a lock.
  struct alignas(base::kCacheLine) Line {
    std::atomic<uint64_t> control;
    uint64_t unused;
    Slot slots[3];
  };
  static_assert(sizeof(Line) == base::kCacheLine);

  static constexpr unsigned kQueueValues = 6;
  /// Some of the values of one key. `tail` is kept in a queue's first line alone.
  struct alignas(base::kCacheLine) QueueLine {
    uint32_t next;  ///< line number, 0: none
    uint32_t tail;  ///< number of the queue's last line
    uint32_t begin;
    uint32_t end;  ///< values[begin, end) are in it
    uint64_t values[kQueueValues];
  };
  static_assert(sizeof(QueueLine) == base::kCacheLine);

  /// Number of buckets, and the mask that is tried first: one less than the power of two at or
  /// above it. kOwned in the mask: a thread has the table.
  struct Span {
    uint32_t count;
    uint32_t mask;
    [[nodiscard]] bool is_owned() const noexcept { return (mask & kOwned) != 0; }
    friend bool operator==(const Span&, const Span&) = default;
  };
  static constexpr uint32_t kOwned = 1U << 31;
  static constexpr uint32_t kSample = 1024;  ///< of a thread's accesses one in so many is counted

  class Turn;
  class Held;
  /// Where a key is: `line` is null if nowhere; `before` is null if it is in the bucket's first
  /// line.
  struct Place {
    Line* line;
    Line* before;
    unsigned slot;
  };

  static uint64_t hash(uint64_t key) noexcept;
  static std::size_t bucket_of(uint64_t hash, Span span) noexcept;
  [[nodiscard]] Span span() const noexcept;
  void set_span(uint32_t count, bool owned, std::memory_order order) noexcept;
  Line& lock_bucket(const Turn& turn, uint64_t key, uint64_t& word) noexcept;
  static uint64_t lock(Line& line) noexcept;
  static uint64_t lock_slow(Line& line) noexcept;
  static void unlock(Line& line, uint64_t word) noexcept;

  uint64_t meet(uint64_t key, Side side, uint64_t value) noexcept;
  uint64_t meet_otherwise(Line& first, uint64_t first_word, uint64_t key, Side side,
                          uint64_t value) noexcept;
  uint64_t meet_at(Held& held, const Place& place, Side side, uint64_t value) noexcept;
  Place find(Held& held, uint64_t key) const noexcept;
  bool insert(Held& held, uint64_t key, Side side, uint64_t value, bool& lengthened) noexcept;
  void erase_slot(Held& held, const Place& place) noexcept;

  bool queue_append(Slot& slot, bool& queued, uint64_t value) noexcept;
  bool queue_more(QueueLine& head, uint64_t value) noexcept;
  bool queue_lengthen(QueueLine& head, QueueLine& tail, uint64_t value) noexcept;
  uint64_t queue_pop(Slot& slot, bool& queued) noexcept;
  uint32_t queue_pop_run(Slot& slot, bool& queued, std::span<uint64_t> into) noexcept;
  uint64_t queue_remove(Slot& slot, bool& queued, Wanted wanted, const void* argument) noexcept;
  void queue_settle(Slot& slot, bool& queued) noexcept;

  template <class F>
  void for_each_in(const Line& first, uint64_t word, F&& each) const;
  void free_lines_of(const Line& first, uint64_t word) noexcept;

  /// Line numbers start at 1; 0 is "none".
  uint32_t new_line() noexcept;
  void free_line(uint32_t number) noexcept;
  [[nodiscard]] Line& line_at(uint32_t number) const noexcept { return lines_[number - 1]; }
  [[nodiscard]] QueueLine& queue_at(uint64_t number) const noexcept {
    return reinterpret_cast<QueueLine*>(lines_)[number - 1];
  }

  void count_chain(int change) noexcept;
  void grow_if_chained() noexcept;
  void split_next() noexcept;

  base::Favour::Mark count_turns() noexcept;
  void give_to_caller() noexcept;
  base::Favour::Mark share() noexcept;
  void share_growing() noexcept;
  template <class F>
  void for_each(F&& each);

  // Read by every access, written by growth alone.
  alignas(base::kCacheLine) std::atomic<uint64_t> span_;
  base::Favour favour_{base::Favour::Level::middle};  ///< changes under growing_
  Line* buckets_ = nullptr;                           ///< max_buckets_ of them
  Line* lines_ = nullptr;                             ///< as many as spare_ has numbers
  uint32_t max_buckets_ = 0;
  std::size_t mapped_bytes_ = 0;

  // Written when chains lengthen and shorten.
  static constexpr unsigned kCells = 16;
  static constexpr int kCarry = 16;
  alignas(base::kCacheLine) std::atomic<int> chained_{0};  ///< chain lines, but for what cells hold
  std::array<base::OwnLine<std::atomic<int>>, kCells> chained_cells_;
  alignas(base::kCacheLine) base::SpinLock growing_;  ///< growth; who has the table
  std::atomic<uint32_t> last_{base::kThreadSlots};    ///< the thread that was counted last
  std::atomic<bool> crowded_;                         ///< nobody gets it (any more)
  std::atomic<uint32_t> streak_{0};                   ///< how often in a row
  base::SlotPool spare_;
};

}  // namespace weft::comm
