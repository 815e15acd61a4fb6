// A task's record: what the templates of task.hpp and the scheduler share. Not for programs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

#include "weft/base/cache_line.hpp"
#include "weft/base/parker.hpp"

namespace weft::task {

class Scheduler;

namespace detail {

class Worker;
struct Record;

/// docs/design/tasks.md, "States of a record".
enum class Status : uint32_t {
  free,
  fresh,
  home,
  home_signalled,
  away,
  away_signalled,
  waiting,
};

/// One task, or the place for one, and its parker: `park` is wait, `unpark` is signal. Three cache
/// lines, so that a million of them fit beside their stacks. Owner: its home worker, for ever;
/// reused by later tasks, never unmapped while the scheduler lives.
struct alignas(base::kCacheLine) Record final : base::Parker {
  static constexpr std::size_t kInline = 64;  ///< bytes for the function, then for its result

  void park() noexcept override;
  bool park_until(uint64_t deadline_ns) noexcept override;
  void yield() noexcept override;
  [[nodiscard]] bool may_poll() const noexcept override { return false; }
  void unpark() noexcept override;

  // What signallers read. It changes only when a task moves to another home (Options::migrate).
  std::atomic<uint64_t> place{0};       ///< home and index there: see place_of
  std::atomic<uint32_t> generation{0};  ///< of the tasks it has been; one more once it has begun
  std::atomic<bool> early{false};       ///< it was signalled before it began

  // What its runner writes.
  alignas(base::kCacheLine) std::atomic<Status> status{Status::free};
  bool detached = false;
  uint8_t stack_class = 0;    ///< 0: any, or what is left of one
  uint8_t turns = 0;          ///< how often it went on before others: see Worker::claim_newest
  bool from_outside = false;  ///< taken by take_record_outside, to whose callers it returns
  void* stack = nullptr;      ///< where its context is saved; nullptr: not started
  void (*run)(Record&) noexcept = nullptr;
  std::atomic<void*> joiner{nullptr};      ///< nullptr, the parker of who joins, or kEnded
  Record* next = nullptr;                  ///< in a list of free records
  std::atomic<const char*> name{nullptr};  ///< relaxed: dumps read it at any time
  void* locals = nullptr;                  ///< task-local values
  std::exception_ptr error;                ///< what left the function

  // The function, or what it returned, or a pointer to either.
  std::byte storage[kInline];

  static constexpr unsigned kIndexBits = 22;  // a worker's address without its 6 zeros has 42
  static uint64_t place_of(Worker& home, uint32_t index) noexcept {
    return reinterpret_cast<uintptr_t>(&home) >> 6 << kIndexBits | index;
  }
  static Worker* home_of(uint64_t place) noexcept {
    return reinterpret_cast<Worker*>(place >> kIndexBits << 6);
  }
  static uint32_t index_of(uint64_t place) noexcept {
    return static_cast<uint32_t>(place) & ((1U << kIndexBits) - 1);
  }
  // relaxed: under the home's guard, or by the task itself, or a hint that is looked at again.
  [[nodiscard]] Worker* home() const noexcept {
    return home_of(place.load(std::memory_order_relaxed));
  }
  [[nodiscard]] uint32_t index() const noexcept {
    return index_of(place.load(std::memory_order_relaxed));
  }

  /// Which task it is, begun or not.
  [[nodiscard]] static uint32_t task_of(uint32_t generation) noexcept { return generation & ~1U; }
  static bool has_begun(uint32_t generation) noexcept { return (generation & 1U) != 0; }

  static void* ended() noexcept { return reinterpret_cast<void*>(1); }
  [[nodiscard]] bool has_ended() const noexcept {
    // acquire: pairs with the exchange that ended it; result and error are seen.
    return joiner.load(std::memory_order_acquire) == ended();
  }
};
static_assert(sizeof(Record) == 3 * base::kCacheLine);

/// A value in a record's storage, or on the heap where it does not fit.
template <class T>
struct Boxed {
  static constexpr bool kInPlace = sizeof(T) <= Record::kInline && alignof(T) <= base::kCacheLine;
  template <class... A>
  static void make(Record& record, A&&... args) {
    if constexpr (kInPlace) {
      ::new (static_cast<void*>(record.storage)) T(std::forward<A>(args)...);
    } else {
      ::new (static_cast<void*>(record.storage)) T*(new T(std::forward<A>(args)...));
    }
  }
  static T& get(Record& record) noexcept {
    if constexpr (kInPlace) {
      return *std::launder(reinterpret_cast<T*>(record.storage));
    } else {
      return **std::launder(reinterpret_cast<T**>(record.storage));
    }
  }
  static void destroy(Record& record) noexcept {
    T& value = get(record);
    if constexpr (kInPlace) {
      value.~T();
    } else {
      delete &value;
    }
  }
};

/// Runs the function in the storage, destroys it, leaves its result or `error` in its place.
template <class F>
void run_boxed(Record& record) noexcept {
  using R = std::invoke_result_t<F&>;
  try {
    if constexpr (std::is_void_v<R>) {
      Boxed<F>::get(record)();
      Boxed<F>::destroy(record);
    } else {
      struct Destroy {
        Record& record;
        ~Destroy() { Boxed<F>::destroy(record); }
      };
      auto result = [&]() -> R {
        const Destroy destroy{record};
        return Boxed<F>::get(record)();
      }();
      Boxed<R>::make(record, std::move(result));
    }
  } catch (...) {
    if constexpr (std::is_void_v<R>) Boxed<F>::destroy(record);
    record.error = std::current_exception();
  }
}

}  // namespace detail
}  // namespace weft::task
