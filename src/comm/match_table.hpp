// The concurrent hash table in which arrivals and posted receives meet (000 §5.2.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>

#include "weft/base/locks.hpp"

namespace weft::comm {

/// Which of the two meeting parties an entry is.
enum class Side : uint8_t { arrival, receive };

/// Matches arrivals with receives of equal key, the oldest first.
/// Values are the caller's: 0 < value < 2^62.
class MatchTable {
 public:
  /// Answer of `access` when there was no match and no room to wait in: nothing happened.
  static constexpr uint64_t kNoRoom = ~uint64_t{0};

  /// `buckets`: how many to start with (rounded up to a power of two). `entries`: at least so many
  /// can wait at once, whatever their keys. Throws weft::Error (no_memory).
  explicit MatchTable(std::size_t buckets = 4096, std::size_t entries = 131072);
  ~MatchTable();
  MatchTable(const MatchTable&) = delete;
  MatchTable& operator=(const MatchTable&) = delete;

  /// Takes the oldest entry of the other side with this key and returns its value; if there is
  /// none, leaves (key, side, value) behind the older ones of its key and returns 0; or kNoRoom.
  [[nodiscard]] uint64_t access(uint64_t key, Side side, uint64_t value) noexcept;

  /// As `access` for a party of `side` that will not wait: the oldest entry of the other side with
  /// this key, taken out, or 0.
  [[nodiscard]] uint64_t take(uint64_t key, Side side) noexcept;

  /// Takes out that very entry; false if it is not there (it was matched). Linear in the number of
  /// entries with this key.
  [[nodiscard]] bool remove(uint64_t key, Side side, uint64_t value) noexcept;

  /// Takes everything out, each told to `each`; for teardown, when nobody else calls.
  void drain(const std::function<void(uint64_t key, Side side, uint64_t value)>& each);

  /// Entries waiting: exact when nobody calls, a hint otherwise. Linear; not for the message path.
  [[nodiscard]] std::size_t size() const noexcept;

 private:
  struct Queue {
    Side side;
    std::deque<uint64_t> values;
  };
  mutable base::SpinLock lock_;
  std::unordered_map<uint64_t, Queue> queues_;
  std::size_t limit_;
  std::size_t size_ = 0;
};

}  // namespace weft::comm
