// A step of a schedule: sends and receives that are posted together and waited for together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/team.hpp"
#include "mpi/messages.hpp"
#include "mpi/transfer.hpp"

namespace weft::mpi {

/// What a schedule's steps met: the first failure.
struct Trouble {
  int error = MPI_SUCCESS;  ///< its class
  Rank process{-1};         ///< of the job, with whom
  void note(int code, Rank with) noexcept {
    if (error == MPI_SUCCESS) *this = {code, with};
  }
};
/// Throws it as a Failure.
[[noreturn]] void fail_of(const Trouble& trouble);

/// Transfers of a step. Lives in the coroutine's frame; `co_await posts` returns when all have
/// ended, notes what failed, and empties it for the next step.
///
/// A schedule goes on when a message fails: others wait for its messages, and none of them knows
/// that it failed. It throws at its end. Once a member is known to be dead, messages are poison:
/// one without bytes where some are expected, one with a byte where none is.
///
/// Who may call: the coroutine; between a post and the co_await, of whatever step, it must not
/// throw. Receives fill the slots from the front, sends from the back.
class Posts {
 public:
  Posts(const Posts&) = delete;
  Posts& operator=(const Posts&) = delete;

  /// A block without bytes is no message: both sides know.
  void send(const Team& team, int to, const Block& block) {
    if (block.bytes() != 0) post_send(team, to, block);
  }
  void recv(const Team& team, int from, const Block& block) {
    if (block.bytes() != 0) post_recv(team, from, block);
  }
  /// The block becomes `how`'s result. `how` must live until the co_await.
  void recv_combining(const Team& team, int from, const Block& block, const Combining& how) {
    if (block.bytes() == 0) return;
    died_ = &team.died();
    start_recv_combining(fresh(receives_), *team.comm, Plane::collective, team.at(from), team.tag,
                         block.at, block.count, *block.type, how);
    ++receives_;
  }
  /// Messages without bytes.
  void send_signal(const Team& team, int to) { post_send(team, to, {nullptr, 0, &byte_type()}); }
  void recv_signal(const Team& team, int from) {
    post_recv(team, from, {nullptr, 0, &byte_type()});
  }
  /// No room for `more`: wait first.
  [[nodiscard]] bool full(uint32_t more = 1) const noexcept {
    return receives_ + sends_ + more > slots_count_;
  }

  // For who waits.
  [[nodiscard]] bool ended() const noexcept;
  /// Returns when all have ended. Blocks.
  void wait() noexcept;
  /// Empties it, and notes what failed.
  void finish(Trouble& trouble) noexcept;
  template <class Each>
  void for_each(Each each) {
    for (uint32_t i = 0; i < receives_; ++i) each(slots_[i]);
    for (uint32_t i = 0; i < sends_; ++i) each(slots_[slots_count_ - 1 - i]);
  }
  [[nodiscard]] uint32_t count() const noexcept { return receives_ + sends_; }

 protected:
  static_assert(std::is_trivially_destructible_v<Transfer> &&
                alignof(Transfer) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  /// Of room for so many, in which none is yet.
  Posts(Transfer* slots, uint32_t count) noexcept : slots_(slots), slots_count_(count) {}
  ~Posts() = default;
  /// Something is posted only when the heap ran out in between.
  void settle() noexcept {
    if (count() != 0) [[unlikely]]
      give_up();
  }

 private:
  void post_send(const Team& team, int to, const Block& block) {
    died_ = &team.died();
    // relaxed: whether it is seen in time is as uncertain as the death.
    if (died_->load(std::memory_order_relaxed)) [[unlikely]] {
      post_poison(team, to, block);
      return;
    }
    start_send(fresh(slots_count_ - 1 - sends_), *team.comm, Plane::collective, team.at(to),
               team.tag, block.at, block.count, *block.type,
               receives_ != 0 ? SendMode::exchange : SendMode::standard);
    ++sends_;
  }
  void post_recv(const Team& team, int from, const Block& block) {
    died_ = &team.died();
    start_recv(fresh(receives_), *team.comm, Plane::collective, team.at(from), team.tag, block.at,
               block.count, *block.type);
    ++receives_;
  }
  void post_poison(const Team& team, int to, const Block& block);
  /// A slot, made anew: of those that there is room for mostly few are used.
  [[nodiscard]] Transfer& fresh(uint32_t slot) noexcept {
    return *::new (static_cast<void*>(slots_ + slot)) Transfer;
  }
  [[nodiscard]] static bool is_poison(const Transfer& received) noexcept {
    return (received.outcome.bytes == 0 && received.capacity != 0) ||
           (received.outcome.error == MPI_ERR_TRUNCATE && received.capacity == 0);
  }
  void note(const Transfer& failed, int error, Trouble& trouble) const noexcept;
  void give_up() noexcept;

  Transfer* slots_;
  uint32_t slots_count_;
  uint32_t receives_ = 0;
  uint32_t sends_ = 0;
  std::atomic<bool>* died_ = nullptr;  ///< of the last team
};

/// With room for `N` in place.
template <uint32_t N>
class Step final : public Posts {
 public:
  Step() noexcept : Posts(reinterpret_cast<Transfer*>(room_), N) {}
  ~Step() { settle(); }

 private:
  alignas(Transfer) std::byte room_[N * sizeof(Transfer)];
};

/// With room for any number, from the heap: for steps that must not be cut into several.
class BigStep final : public Posts {
 public:
  explicit BigStep(uint32_t count)
      : BigStep(count, std::make_unique_for_overwrite<std::byte[]>(count * sizeof(Transfer))) {}
  ~BigStep() { settle(); }

 private:
  BigStep(uint32_t count, std::unique_ptr<std::byte[]> room)
      : Posts(reinterpret_cast<Transfer*>(room.get()), count), room_(std::move(room)) {}
  std::unique_ptr<std::byte[]> room_;
};

}  // namespace weft::mpi
