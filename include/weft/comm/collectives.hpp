// Node-aware collectives over a team: blocking, built on matched endpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "weft/base/types.hpp"
#include "weft/comm/runtime.hpp"

namespace weft {

/// into[i] = into[i] ∘ from[i] over `bytes` bytes. Associative; applied in rank order.
using ReduceFunction = void (*)(std::byte* into, const std::byte* from, std::size_t bytes);

/// All ranks of a runtime, for collectives. One collective at a time per team: a second thread or
/// task that calls one meanwhile gets Error(bad_argument); make several teams for several threads
/// (Runtime::barrier has one of its own). Made collectively, in the same order on every rank.
///
/// What is given and what is received may not overlap, but where one parameter is both.
///
/// Node-aware: data crosses between nodes once per node and direction, between leaders (the
/// lowest rank of each node); inside a node it fans out over a binary tree (001 §6.3.3).
///
/// When a rank has died, a collective throws Error on the living ranks that had to do with it, or
/// whose result would depend on it (Errc::peer_died, or ::truncated where another rank passed it
/// on); none waits for ever, and each may call the next. That is so while all that live call it:
/// for a rank that leaves the job, by an exception say, the others may wait. A rank that finds no
/// memory in the middle fails in the same way (no_memory); one that throws std::bad_alloc, or
/// refuses an argument, has not begun.
class Team {
 public:
  explicit Team(Runtime& runtime);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;

  void barrier();
  /// `data` of `root` to everyone; same size everywhere.
  void broadcast(Rank root, std::span<std::byte> data);
  /// Combines everyone's `data` into root's `data`; others' contents are kept.
  void reduce(Rank root, std::span<std::byte> data, ReduceFunction function);
  void allreduce(std::span<std::byte> data, ReduceFunction function);
  /// `all` holds size() blocks of mine.size() bytes, in rank order.
  void allgather(std::span<const std::byte> mine, std::span<std::byte> all);
  /// Block r of `out` goes to rank r; block r of `in` came from it. size() blocks each.
  void alltoall(std::span<const std::byte> out, std::span<std::byte> in);
  /// As alltoall with blocks of their own sizes (bytes per rank), back to back.
  void alltoallv(std::span<const std::byte> out, std::span<const std::size_t> out_bytes,
                 std::span<std::byte> in, std::span<const std::size_t> in_bytes);

  /// Typed conveniences for arithmetic types.
  template <class T>
  T sum(T value) {
    return allreduce_value(value, [](T a, T b) { return static_cast<T>(a + b); });
  }
  template <class T>
  T max(T value) {
    return allreduce_value(value, [](T a, T b) { return a < b ? b : a; });
  }
  template <class T>
  T min(T value) {
    return allreduce_value(value, [](T a, T b) { return b < a ? b : a; });
  }

 private:
  template <class T, class F>
  T allreduce_value(T value, F) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_empty_v<F>);
    allreduce(std::as_writable_bytes(std::span(&value, 1)),
              [](std::byte* into, const std::byte* from, std::size_t bytes) {
                auto* a = reinterpret_cast<T*>(into);
                auto* b = reinterpret_cast<const T*>(from);
                for (std::size_t i = 0; i < bytes / sizeof(T); ++i) a[i] = F{}(a[i], b[i]);
              });
    return value;
  }
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
