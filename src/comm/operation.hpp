// The record of an operation under way: a posted receive, a large send, a put, a get, or what this
// rank still owes a peer.
//
// Owner and lifetime: taken from the runtime's table by whoever posts, or answers. From then on it
// belongs to (1) the matching table (a posted receive), (2) a device's pending list (`work` says
// what is to be done) or its line of owed answers, (3) nobody but its `awaiting` word: a peer owes
// it an answer, and whoever claims that word under the progress lock of `device` owns it, or (4)
// that device's reads of a peer's memory, under way or in line. It returns to the table once told.
// Size: two cache lines; a posted receive that an eager message meets touches the first only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "comm/wire.hpp"
#include "weft/base/buffers.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/error.hpp"
#include "weft/base/records.hpp"
#include "weft/base/slot_pool.hpp"
#include "weft/base/types.hpp"
#include "weft/comm/completion.hpp"

namespace weft::comm {

struct Operation;
struct CopyClaims;

/// What a device has to do next for an operation in its pending list.
enum class Work : uint8_t {
  none,     ///< not in a pending list
  read,     ///< copy from the peer's memory, a chunk a turn, then answer
  share,    ///< the same while the peer does not send fragments of it (shared_copy.hpp)
  fetch,    ///< the same over the network, several pieces at once
  help,     ///< the peer's part of that: sends such fragments
  write,    ///< copy to the peer's memory, a chunk a turn, then answer
  stream,   ///< send fragments in packets, a few a turn
  ask,      ///< send ready_to_receive
  tell,     ///< send readable
  answer,   ///< send finished
  signal,   ///< send a put's signal
  attempt,  ///< ask an endpoint's matcher to try again, until it answers all
  deaths,   ///< look at what the launcher reported
  finish,   ///< over: tell the completion (again, if it had no room)
};

/// What an operation is for, where that makes a difference.
enum class Kind : uint8_t {
  message,  ///< or anything else
  put,      ///< what went in packets is told to be there, too
  get,      ///< may be told that what it wants can be read
  untold,   ///< a put that is over, whose signal found no room
};

/// Runs when an operation of the runtime's own has ended, instead of a completion. False: no room
/// now, call again. It does not release the record.
using OperationEnd = bool (*)(Operation&);

struct alignas(base::kCacheLine) Operation {
  // First line: what a match needs.
  std::byte* buffer;  ///< the local buffer
  uint64_t capacity;  ///< its bytes
  Completion* completion;
  void* context;
  Rank peer;  ///< the other side, once known
  Tag tag;
  std::atomic<uint32_t> generation;  ///< of this record; moves on at each release
  uint16_t endpoint;
  uint16_t device;  ///< the device that carries it
  Work work;
  Errc error;
  bool answers;         ///< the peer waits for `finished`
  bool owns_buffer;     ///< from take_buffer: pieces gathered for a rendezvous
  uint16_t reply_port;  ///< the peer's port for answers
  uint16_t reads;       ///< of `fetch`, under way: the buffer is the network's, too
  uint16_t chunks;      ///< from the back, of `share` that are here, of `help` that were sent
  union {
    uint16_t offer_number;  ///< of `share`
    uint16_t tries;         ///< of `help`, in vain, since its last fragment went
  };
  bool read_failed;  ///< one of them
  bool offered;      ///< the peer may read the buffer: `offer` is to be withdrawn
  Kind kind;
  bool counted;  ///< among what is asked of the peer (Runtime::Impl::may_request)

  // Second line: transfers.
  alignas(base::kCacheLine) uint64_t bytes;  ///< length of the message or transfer
  uint64_t moved;                            ///< of it already
  uint64_t remote_address;
  Handle remote;     ///< the peer's operation
  Operation* next;   ///< in a device's inbox, pending list, or line of fetches or of owed answers
  OperationEnd end;  ///< instead of `completion`; null again once it has run
  /// Which peer, over which device, owes this operation an answer; 0: none. See `expect`.
  std::atomic<uint64_t> awaiting;
  union {
    CopyClaims* claims;   ///< of a copy that both ends do; nullptr: not offered yet
    uint64_t remote_key;  ///< `fetch`: of the peer's memory
    void* offer;          ///< if `offered`: see fabric::Port::offer
  };

  [[nodiscard]] Event event() const noexcept {
    return {peer,   tag, error, owns_buffer ? nullptr : buffer, static_cast<std::size_t>(bytes),
            context};
  }
};
static_assert(sizeof(Operation) == 2 * base::kCacheLine);

/// All operations of a runtime: one array, of which what is posted here, what peers ask for and
/// what is fetched have a part each, so that none waits for the records of another (protocols.md,
/// *Exhaustion*).
class OperationTable {
 public:
  OperationTable(uint32_t posts, uint32_t requests, uint32_t fetches)
      : count_(posts + requests + fetches),
        posts_(posts),
        requests_(requests),
        fetches_(fetches),
        records_(reinterpret_cast<Operation*>(
            base::map_records(std::size_t{count_} * sizeof(Operation)))) {}
  ~OperationTable() {
    base::unmap_records(reinterpret_cast<std::byte*>(records_),
                        std::size_t{count_} * sizeof(Operation));
  }
  OperationTable(const OperationTable&) = delete;
  OperationTable& operator=(const OperationTable&) = delete;

  /// For what is posted here: a record with its flags reset and no `end`, or nullptr: none is free
  /// now. Touches its first line only.
  [[nodiscard]] Operation* allocate() noexcept { return reset(posts_.alloc(), 0); }
  /// For what a peer asked for and is counted there, or is to be refused.
  [[nodiscard]] Operation* allocate_for_request() noexcept {
    return reset(requests_.alloc(), posts_.capacity());
  }
  /// For the answer to an announcement that was taken: it does not wait for what is posted.
  [[nodiscard]] Operation* allocate_for_fetch() noexcept {
    Operation* const op = allocate();
    return op != nullptr ? op : reset(fetches_.alloc(), posts_.capacity() + requests_.capacity());
  }
  void release(Operation& op) noexcept {
    const uint32_t index = index_of(op);
    retire(op);
    if (index < posts_.capacity()) [[likely]] {
      posts_.free(index);
    } else if (const uint32_t number = index - posts_.capacity(); number < requests_.capacity()) {
      requests_.free(number);
    } else {
      fetches_.free(number - requests_.capacity());
    }
  }
  /// The same, of a record that `allocate` gave.
  void release_post(Operation& op) noexcept {
    retire(op);
    posts_.free(index_of(op));
  }
  /// Releases several that `allocate` gave together, at its end at the latest.
  class Releases {
   public:
    explicit Releases(OperationTable& table) noexcept : table_(table) {}
    ~Releases() { table_.posts_.free({indices_, count_}); }
    Releases(const Releases&) = delete;
    Releases& operator=(const Releases&) = delete;
    void add(Operation& op) noexcept {
      table_.retire(op);
      indices_[count_++] = table_.index_of(op);
      if (count_ == kMost) {
        table_.posts_.free({indices_, count_});
        count_ = 0;
      }
    }

   private:
    static constexpr uint32_t kMost = 16;
    OperationTable& table_;
    uint32_t count_ = 0;
    uint32_t indices_[kMost];
  };
  [[nodiscard]] Handle handle_of(const Operation& op) const noexcept {
    return {index_of(op), op.generation.load(std::memory_order_relaxed)};
  }

  /// Declares that `op.peer` will answer over `op.device`. From here until `claim` the operation
  /// belongs to whoever holds that device's progress lock.
  static void expect(Operation& op) noexcept {
    // release: pairs with the acquire of find and sweep; they see the record's other fields.
    op.awaiting.store(awaited(op.peer, op.device), std::memory_order_release);
  }
  /// Ends the expectation; false if somebody else ended it before (and owns the operation now).
  [[nodiscard]] static bool claim(Operation& op) noexcept {
    // acq_rel: between the posting thread (its send was refused) and a sweep after a death.
    return op.awaiting.exchange(0, std::memory_order_acq_rel) != 0;
  }
  /// The same, if it is `peer` over `device` that is expected: for who does not own the record.
  [[nodiscard]] static bool claim_from(Operation& op, Rank peer, uint16_t device) noexcept {
    uint64_t expected = awaited(peer, device);
    return op.awaiting.compare_exchange_strong(expected, 0, std::memory_order_acq_rel);
  }
  /// The operation that `handle` names, if it expects an answer from `peer` over `device`.
  [[nodiscard]] Operation* find(Handle handle, Rank peer, uint16_t device) noexcept {
    return find_awaiting(handle, awaited(peer, device));
  }

  /// Declares that fragments may come for an operation that stays in the device's pending list.
  static void welcome(Operation& op) noexcept {
    // release: as in expect.
    op.awaiting.store(awaited(op.peer, op.device) | kShared, std::memory_order_release);
  }
  static void end_welcome(Operation& op) noexcept {
    op.awaiting.store(0, std::memory_order_relaxed);
  }
  /// The operation that `handle` names, if fragments from `peer` over `device` are welcome to it.
  [[nodiscard]] Operation* find_welcoming(Handle handle, Rank peer, uint16_t device) noexcept {
    return find_awaiting(handle, awaited(peer, device) | kShared);
  }
  /// Calls `fail(op)` for each operation that expects an answer from `peer` over `device` (whose
  /// lock the caller holds), after claiming it. Looks at all records that were ever used; only
  /// after a death.
  template <class Fail>
  void sweep(Rank peer, uint16_t device, Fail fail) {
    for_each_used([&](Operation& op) {
      if (op.awaiting.load(std::memory_order_acquire) == awaited(peer, device) && claim(op)) {
        fail(op);
      }
    });
  }
  /// Records in use; exact only when nothing moves.
  [[nodiscard]] uint32_t live() const noexcept {
    return count_ - posts_.available() - requests_.available() - fetches_.available();
  }
  /// Whether nothing more can be posted; exact only when nothing moves.
  [[nodiscard]] bool posts_are_out() const noexcept { return posts_.available() == 0; }
  /// How many expect an answer of whom. Looks at all records that were ever used; for reports.
  [[nodiscard]] std::map<int32_t, uint32_t> awaited_by_rank() {
    std::map<int32_t, uint32_t> of_rank;
    for_each_used([&](const Operation& op) {
      // relaxed: the word alone is looked at.
      const uint64_t word = op.awaiting.load(std::memory_order_relaxed);
      if (word != 0 && (word & kShared) == 0) ++of_rank[static_cast<int32_t>(word)];
    });
    return of_rank;
  }

  /// What an operation that expects an answer says of its buffer. It may be over, and the record
  /// another's, at any moment: so it says what it was only while `still` holds.
  struct Snapshot {
    const Operation* op;
    uint64_t word;
    uint32_t generation;
    Rank peer;
    std::span<const std::byte> buffer;
    [[nodiscard]] bool still() const noexcept {
      // The reads of `buffer` come first.
      std::atomic_thread_fence(std::memory_order_acquire);
      return op->generation.load(std::memory_order_relaxed) == generation &&
             op->awaiting.load(std::memory_order_relaxed) == word;
    }
  };
  /// Of all that expect an answer. For reports.
  [[nodiscard]] std::vector<Snapshot> snapshots() {
    std::vector<Snapshot> found;
    for_each_used([&](Operation& op) {
      const uint32_t generation = op.generation.load(std::memory_order_acquire);
      const uint64_t word = op.awaiting.load(std::memory_order_acquire);
      if (word == 0) return;
      // Another thread may be writing to them: then `still` does not hold.
      Snapshot one{&op,
                   word,
                   generation,
                   Rank{static_cast<int32_t>(word)},
                   {std::atomic_ref(op.buffer).load(std::memory_order_relaxed),
                    std::atomic_ref(op.bytes).load(std::memory_order_relaxed)}};
      if (one.still()) found.push_back(one);
    });
    return found;
  }

 private:
  template <class Each>
  void for_each_used(Each each) {
    Operation* part = records_;
    for (const base::SlotPool* pool : {&posts_, &requests_, &fetches_}) {
      Operation* const end = part + pool->never_given();
      for (Operation* op = part; op != end; ++op) each(*op);
      part += pool->capacity();
    }
  }
  [[nodiscard]] uint32_t index_of(const Operation& op) const noexcept {
    return static_cast<uint32_t>(&op - records_);
  }
  [[nodiscard]] Operation* reset(uint32_t number, uint32_t first) noexcept {
    if (number == base::SlotPool::kNone) [[unlikely]]
      return nullptr;
    Operation* const op = records_ + first + number;
    op->work = Work::none;
    op->error = Errc::ok;
    op->answers = false;
    op->owns_buffer = false;
    op->offered = false;
    op->kind = Kind::message;
    op->counted = false;
    return op;
  }
  static void retire(Operation& op) noexcept {
    if (op.owns_buffer) [[unlikely]]
      base::give_back_buffer(op.buffer);
    // relaxed: a record has one owner at a time; `find` reads it only to refuse late answers.
    op.generation.store(op.generation.load(std::memory_order_relaxed) + 1,
                        std::memory_order_relaxed);
  }
  [[nodiscard]] Operation* find_awaiting(Handle handle, uint64_t word) noexcept {
    if (handle.index >= count_) return nullptr;
    Operation& op = records_[handle.index];
    // acquire: pairs with expect's and welcome's release.
    if (op.awaiting.load(std::memory_order_acquire) != word ||
        op.generation.load(std::memory_order_relaxed) != handle.generation) {
      return nullptr;
    }
    return &op;
  }
  static constexpr uint64_t kShared = uint64_t{1} << 62;
  [[nodiscard]] static uint64_t awaited(Rank peer, uint16_t device) noexcept {
    return uint64_t{1} << 63 | uint64_t{device} << 32 | static_cast<uint32_t>(peer.value);
  }
  uint32_t count_;
  base::SlotPool posts_;
  base::SlotPool requests_;
  base::SlotPool fetches_;
  Operation* records_;  // last, as in base::Records
};

}  // namespace weft::comm
