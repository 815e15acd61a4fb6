// The numbers that tell communicators' messages apart: which are free in this process.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "weft/base/locks.hpp"

namespace weft::mpi {

/// Context ids of this process. An id is free, reserved by one agreement under way, or in use.
///
/// Owner: the process (context_ids()). Who may call: any thread; one short lock, nobody waits in
/// it. Invariants: 1. an id is reserved by at most one agreement; 2. it is in use from `settle` to
/// `give_back`, which is when the last hold of its communicator has gone.
/// docs/design/mpi-contexts.md
class ContextIds {
 public:
  static constexpr int kWindow = 64;  ///< ids that one round of an agreement looks at
  static constexpr int kWindows = 65536 / kWindow;
  static constexpr int kMostReserved = 8;  ///< by one round
  static constexpr uint16_t kWorld = 0;
  static constexpr uint16_t kSelf = 1;
  static constexpr uint16_t kCarrier = 2;  ///< for agreements without a communicator
  static constexpr uint16_t kFirstFree = 3;

  ContextIds() noexcept { reset(); }
  /// Reserves the first few free ids of a window, beginning at its bit `from` and wrapping around:
  /// the same choice in every process where the same are free. Their bits; 0: none is free.
  [[nodiscard]] uint64_t reserve(int window, int from) noexcept;
  /// The round is over: of what it `reserved`, `kept` (a bit, or 0) is in use, the rest is free.
  void settle(int window, uint64_t reserved, uint64_t kept) noexcept;
  void give_back(uint16_t id) noexcept;
  /// The bits of all ids that are not in use, reserved ones among them, by window.
  void not_in_use(std::span<uint64_t, kWindows> windows) const noexcept;
  [[nodiscard]] int in_use() const noexcept;
  /// Everything but the fixed ones is free again.
  void reset() noexcept;

 private:
  mutable base::SpinLock lock_;
  std::array<uint64_t, kWindows> used_{};
  std::array<uint64_t, kWindows> reserved_{};
};

ContextIds& context_ids() noexcept;

/// The first set bit at or after `from`, wrapping around; `bits` is not 0.
[[nodiscard]] inline int first_bit(uint64_t bits, int from) noexcept {
  return (std::countr_zero(std::rotr(bits, from)) + from) % ContextIds::kWindow;
}

/// An id in use that nobody has yet: goes back unless it is taken.
class Context {
 public:
  Context() noexcept = default;
  explicit Context(uint16_t id) noexcept : id_(id) {}
  Context(Context&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  Context& operator=(Context&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Context() {
    if (id_ != 0) context_ids().give_back(id_);
  }
  [[nodiscard]] uint16_t take() noexcept { return std::exchange(id_, 0); }

 private:
  uint16_t id_ = 0;  ///< 0, MPI_COMM_WORLD's, stands for none
};

}  // namespace weft::mpi
