// A step of a schedule: sends and receives that are posted together and waited for together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/team.hpp"
#include "mpi/messages.hpp"
#include "mpi/transfer.hpp"

namespace weft::mpi {

/// Transfers of a step. Lives in the coroutine's frame; `co_await posts` returns when all have
/// ended, throws the first failure, and empties it for the next step.
///
/// Who may call: the coroutine; between a post and the co_await it must not throw. Receives fill
/// the slots from the front, sends from the back.
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
  /// Returns when all have ended, the rest cancelled if one failed. Blocks.
  void wait() noexcept;
  /// Empties it. Throws what the first failed one met.
  void finish();
  /// Takes back the receives that wait.
  void cancel() noexcept;
  template <class Each>
  void for_each(Each each) {
    for (uint32_t i = 0; i < receives_; ++i) each(slots_[i]);
    for (uint32_t i = 0; i < sends_; ++i) each(slots_[slots_count_ - 1 - i]);
  }
  [[nodiscard]] uint32_t count() const noexcept { return receives_ + sends_; }

 protected:
  Posts(Transfer* slots, uint32_t count) noexcept : slots_(slots), slots_count_(count) {}
  ~Posts() = default;
  /// Something is posted only when the heap ran out in between.
  void settle() noexcept {
    if (count() != 0) [[unlikely]]
      give_up();
  }

 private:
  void post_send(const Team& team, int to, const Block& block) {
    start_send(slots_[slots_count_ - 1 - sends_], *team.comm, Plane::collective, team.at(to),
               team.tag, block.at, block.count, *block.type);
    ++sends_;
  }
  void post_recv(const Team& team, int from, const Block& block) {
    start_recv(slots_[receives_], *team.comm, Plane::collective, team.at(from), team.tag, block.at,
               block.count, *block.type);
    ++receives_;
  }
  void give_up() noexcept;
  [[noreturn]] void refuse(const Transfer& failed);

  Transfer* slots_;
  uint32_t slots_count_;
  uint32_t receives_ = 0;
  uint32_t sends_ = 0;
};

/// With room for `N` in place.
template <uint32_t N>
class Step final : public Posts {
 public:
  Step() noexcept : Posts(room_, N) {}
  ~Step() { settle(); }

 private:
  Transfer room_[N];
};

/// With room for any number, from the heap: for steps that must not be cut into several.
class BigStep final : public Posts {
 public:
  explicit BigStep(uint32_t count) : BigStep(count, std::make_unique<Transfer[]>(count)) {}
  ~BigStep() { settle(); }

 private:
  BigStep(uint32_t count, std::unique_ptr<Transfer[]> room)
      : Posts(room.get(), count), room_(std::move(room)) {}
  std::unique_ptr<Transfer[]> room_;
};

}  // namespace weft::mpi
