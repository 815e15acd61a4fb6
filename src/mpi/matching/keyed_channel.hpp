// The default matching engine: MPI's matching order at O(1) and without a lock that unlike keys
// share, for as long as no wildcard is posted (docs/design/mpi-matching.md).
//
// Source: 003 (matching as two queues); the keys' queues and the switch are ours. Progress
// guarantee: locks of a few dozen instructions; switching modes and growing take all of them.
// Invariants
//
// 1. An entry is in at most one place: behind its key, or in `wildcards_`.
// 2. Behind a key lie receives or messages, never both, oldest first.
// 3. `mode_` and `table_` change only under `order_` and the locks of all buckets of the table. Who
//    holds one bucket's lock, by favour or not, and sees `by_keys` owns all entries of that
//    bucket's keys; who holds `order_` and sees `ordered` owns all entries.
// 4. A wildcard waits (in `wildcards_`) only while `ordered`, which ends only when there is none.
// 5. Stamps of messages grow in the order in which one source's arrive. Stamps of receives posted
//    while `ordered` grow in the order of posting; those of others are 0, older than any wildcard:
//    they compete with wildcards only, and were there before the first of them.
// 6. While `exact_keys_`, messages get no stamps: no wildcard will ask which of two unlike keys is
//    older. It becomes false only while nothing waits.
// 7. While `alone`, one thread, which used the channel alone for long, has it: in a section that
//    it entered by `favour_` it owns all entries and needs no lock. Whoever else comes takes it
//    away under `order_`, which waits for such a section to end.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mpi/entry.hpp"
#include "mpi/matching/channel.hpp"
#include "weft/base/biased_lock.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/favour.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::mpi {

class KeyedChannel final : public Channel {
 public:
  /// Whether a promise of exact keys is made use of: engine "hash".
  enum class Promises : uint8_t { ignored, heeded };
  /// It stays ordered for `quiet` calls after the last wildcard is gone: a switch takes all locks.
  /// Of a thread's calls one in `sample` (a power of two) is looked at for whether it is alone.
  explicit KeyedChannel(Promises promises = Promises::ignored, uint32_t quiet = 1024,
                        uint32_t sample = 256);
  Arrived* post(Transfer& receive) override;
  Transfer* take_receive(Rank source, int tag) override;
  uint32_t take_receives_of(Rank source, int tag, std::span<Transfer*> into) override;
  Transfer* arrive(Arrived& message) override;
  bool withdraw(Transfer& receive) override;
  bool find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) override;
  Arrived* extract(Rank source, int tag) override { return seek(source, tag, true).message; }
  Arrived* recall(Rank source, int tag, bool (*is_it)(void*, const Arrived&),
                  void* argument) override;
  void take_receives(bool (*wanted)(void*, const Transfer&), void* argument,
                     std::vector<Transfer*>& into) override;
  void take_messages(std::vector<Arrived*>& into) override;
  void promise_exact_keys(bool promised) noexcept override {
    // relaxed: messages that arrive now may have a stamp or not.
    exact_keys_.store(promised && promises_ == Promises::heeded, std::memory_order_relaxed);
  }
  [[nodiscard]] bool relies_on_exact_keys() const noexcept override {
    return exact_keys_.load(std::memory_order_relaxed);
  }
  /// A hint: one thread has it.
  [[nodiscard]] bool is_one_threads() const noexcept { return mode() == Mode::alone; }
  /// For tests: the lock of this key's bucket is the caller's by favour.
  [[nodiscard]] bool favours_caller(Rank source, int tag) const noexcept;

 private:
  struct alignas(base::kCacheLine) Bucket {
    base::BiasedLock lock{base::BiasedLock::Level::middle};
    Entry* keys = nullptr;
  };
  struct Table {
    explicit Table(uint32_t size) : mask(size - 1), buckets(new Bucket[size]) {}
    const uint32_t mask;
    const std::unique_ptr<Bucket[]> buckets;
    [[nodiscard]] Bucket& of(uint32_t hash) const noexcept { return buckets[hash & mask]; }
  };
  class HoldAll;
  struct Found {
    Arrived* message = nullptr;
    // What keeps what `seek` found in place until it was looked at: the order lock, or a bucket's
    // with its mark, or the channel's mark.
    base::SpinLock* order = nullptr;
    base::BiasedLock* bucket = nullptr;
    base::Favour::Mark mark = nullptr;
    Found() = default;
    Found(Found&& other) noexcept
        : message(other.message),
          order(std::exchange(other.order, nullptr)),
          bucket(std::exchange(other.bucket, nullptr)),
          mark(std::exchange(other.mark, nullptr)) {}
    Found& operator=(Found&&) = delete;
    ~Found() {
      if (order != nullptr) order->unlock();
      let_go();
    }
    /// Of the bucket, or the channel.
    void let_go() noexcept {
      if (bucket != nullptr) {
        bucket->leave(mark);
      } else if (mark != nullptr) {
        base::Favour::leave(mark);
      }
      bucket = nullptr;
      mark = nullptr;
    }
  };
  static constexpr uint32_t kFirstBuckets = 16;
  static constexpr uint32_t kMostBuckets = 1U << 16;
  static constexpr uint32_t kLongChain = 3;  ///< keys in a bucket before the table grows

  /// Who owns which entries: whoever has their bucket's lock, or `order_`, or one thread all.
  enum class Mode : uint8_t { by_keys, ordered, alone };

  // relaxed: exact under a lock (invariant 3), a hint else.
  [[nodiscard]] Mode mode() const noexcept { return mode_.load(std::memory_order_relaxed); }
  static uint32_t hash(Rank source, int tag) noexcept {
    const uint64_t key =
        uint64_t{static_cast<uint32_t>(source.value)} << 32 | static_cast<uint32_t>(tag);
    return static_cast<uint32_t>((key * 0x9e3779b97f4a7c15U) >> 40);
  }
  /// Counts by one: with a plain store where nobody else counts.
  static uint64_t count(std::atomic<uint64_t>& what, int by, bool alone) noexcept;
  static Entry** place_of(Bucket& bucket, Rank source, int tag, uint32_t& keys) noexcept;
  static void append(Entry** place, Entry& entry) noexcept;
  void add_message(Entry** place, Entry& message, bool alone) noexcept;
  void taken(Entry& message, bool alone) noexcept;
  static void pop(Entry** place) noexcept;
  static uint32_t pop_receives(Entry** place, std::span<Transfer*> into) noexcept;
  static void remove(Entry** place, Entry& entry) noexcept;
  /// What a receive, or a message, looks for.
  struct Wanted {
    Rank source;
    int tag;
    bool for_receive;
  };
  /// Meets an entry of the other side, or adds `own` if there is one.
  Entry* access(Wanted wanted, Entry* own);
  Entry* access_beside_others(Wanted wanted, Entry* own);
  Entry* meet(Bucket& bucket, Wanted wanted, Entry* own, bool alone, uint32_t& keys) noexcept;
  bool access_ordered(Wanted wanted, Entry* own, Entry*& met);
  Entry* note_keys(Entry* met, uint32_t keys, const Table& table);
  Found seek(Rank source, int tag, bool take);
  Entry** oldest(Rank source, int tag) noexcept;
  Arrived* post_wildcard(Transfer& receive);
  Entry* first_wildcard(Rank source, int tag) noexcept;
  void unlink_wildcard(Entry& entry) noexcept;
  void enter_order();  ///< `order_` held on return, the mode `ordered`
  void note_quiet();   ///< `order_` held: perhaps switches back
  void grow(const Table& old);
  void count_turn() noexcept;  ///< perhaps the caller has it from now on
  void share() noexcept;       ///< (order_) nobody has it

  // Read by everybody, written seldom.
  alignas(base::kCacheLine) const Promises promises_;
  std::atomic<bool> exact_keys_{false};  ///< invariant 6
  const uint32_t quiet_before_back_;
  const uint32_t sample_mask_;
  std::atomic<Table*> table_;
  std::atomic<Mode> mode_{Mode::by_keys};
  base::Favour favour_{base::Favour::Level::middle};  ///< changes under `order_`
  std::vector<std::unique_ptr<Table>> tables_;        ///< all there were; under `order_`

  alignas(base::kCacheLine) base::SpinLock order_;
  Entry* wildcards_ = nullptr;  ///< (order_) in order of posting
  Entry* last_wildcard_ = nullptr;
  uint64_t posted_stamp_ = 0;  ///< (order_)
  uint32_t quiet_ = 0;         ///< (order_) calls since the last wildcard

  // Who was seen using it last, by a sample, and how often in a row: a guess.
  std::atomic<uint32_t> last_user_{base::kThreadSlots};
  std::atomic<uint32_t> streak_{0};

  alignas(base::kCacheLine) std::atomic<uint64_t> arrival_stamp_{0};
};

}  // namespace weft::mpi
