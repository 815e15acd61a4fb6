// Short blocking collectives inside a node: its members show each other their data on a board.
//
// docs/design/node-boards.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/board.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/posts.hpp"
#include "mpi/collectives/team.hpp"
#include "weft/base/long_yields.hpp"

namespace weft::mpi {

/// A communicator's board on this node, as this process sees it, or the knowledge that there is
/// none. Owner: the communicator. Who may call: whoever makes its blocking collectives, which are
/// made one after the other.
class NodeBoard {
 public:
  /// Nothing is known yet.
  explicit NodeBoard(Comm& comm) noexcept : comm_(comm), seat_(nobodys(), 0, 0, 0) {}
  ~NodeBoard();
  NodeBoard(const NodeBoard&) = delete;
  NodeBoard& operator=(const NodeBoard&) = delete;

  /// Asks the members on this node, if there are as many as a board is for; once. By all of them,
  /// in one call.
  void set_up(int tag);
  [[nodiscard]] bool was_set_up() const noexcept { return was_set_up_; }
  /// Whether the members, as far as they live, do by their node what a board is for: by the board
  /// or, if it broke, by messages. The same on all members, and for good.
  [[nodiscard]] bool serves() const noexcept { return nodes_ != nullptr; }
  /// Whether the members are the communicator's ranks, all of them, and few: they exchange, and
  /// never arrive without that. They may release each other, too.
  [[nodiscard]] bool exchanges() const noexcept { return exchanges_; }
  /// By all: each shows `mine`, and sees what the others showed, until the exchange after the next.
  /// False: one of them is dead, or has left or declined, and all go by messages.
  [[nodiscard]] bool exchange(int tag, const Block& mine);
  /// What another one showed in the last exchange.
  [[nodiscard]] std::span<const std::byte> shown_by(int member) noexcept;
  /// Whether there are two: these exchange, and nothing else.
  [[nodiscard]] bool is_pair() const noexcept { return is_pair_; }
  /// Of a pair: in this call, in which the other one may want to exchange, this one will not. In
  /// calls whose end needs the other's part, so that no place is written before it was read.
  void decline(int tag);
  /// Of the communicator, if it serves.
  [[nodiscard]] const NodeMap& nodes() const noexcept { return *nodes_; }

 private:
  friend class BoardUse;

  static Board& nobodys() noexcept;
  /// Of a member, in the communicator.
  [[nodiscard]] int rank_of(uint32_t member) const noexcept {
    return nodes_->nodes[static_cast<std::size_t>(nodes_->mine)][member];
  }
  [[nodiscard]] Rank process(uint32_t member) const noexcept {
    return comm_.process(rank_of(member));
  }

  template <class Ready, class AnyWish>
  bool wait(Ready ready, uint32_t partner, AnyWish wish);
  template <class Ready, class AnyWish>
  bool wait_by_letter(Ready ready, uint32_t partner, AnyWish wish);
  [[nodiscard]] bool looks_once() const noexcept;
  void yield_core() noexcept;
  void send_letter(uint32_t member);
  void show_to_others(int tag, const Block& mine, uint32_t refusal = 0);
  void leave_exchanges(int tag);

  Comm& comm_;
  Seat seat_;
  const NodeMap* nodes_ = nullptr;
  std::optional<uint32_t> number_;  ///< of a board of this process'
  uint32_t uses_ = 0;
  bool was_set_up_ = false;
  bool exchanges_ = false;
  bool is_pair_ = false;
  bool is_open_ = false;           ///< not broken
  bool others_may_wait_ = false;   ///< a use broke, and one who left that out may exchange
  bool ranks_take_turns_ = false;  ///< more of them are here than processors
  bool core_is_wanted_ = false;    ///< as the last yield told
  base::LongYields long_yields_;
  uint32_t vain_looks_ = 0;  ///< waits since the last in which it paid to look
};

/// One use of a board, by every member alike: one collective, which blocks. In the middle of it the
/// members that are not first may have arrived; at its end one of them, the releaser, has released
/// the others.
///
/// A step that answers false was not done: the use is broken, since a member of the communicator is
/// known to be dead. So it is for all members, in the same use, and for good: they go on by
/// messages, which tell (docs/design/mpi-schedules.md, Deaths).
class BoardUse {
 public:
  /// By all of a communicator, on their nodes' boards. `releaser`: a place in the node. The call's
  /// tag is the use's number.
  BoardUse(const Team& team, int releaser);
  ~BoardUse();
  BoardUse(const BoardUse&) = delete;
  BoardUse& operator=(const BoardUse&) = delete;

  /// Whether there is a board, and the use is not known to be broken. Only then:
  [[nodiscard]] bool works() const noexcept { return board_ != nullptr && !broken_; }

  /// Shows `mine` to the first member.
  void arrive(const Block& mine);
  /// By the first member: waits for the data of another one, which stays at `arrived` until the use
  /// is released. The last one last.
  [[nodiscard]] bool await(uint32_t member);
  [[nodiscard]] std::span<std::byte> arrived(uint32_t member) noexcept;

  /// By the releaser: shows `data` to all others.
  [[nodiscard]] bool release(const Block& data);
  /// By the others: waits for that. What it shows is there until the use ends.
  [[nodiscard]] std::optional<std::span<std::byte>> released();
  /// All of that, or of it this member's part, goes where it belongs.
  void take(std::span<const std::byte> shown, const Block& data);
  /// Both.
  [[nodiscard]] bool receive(const Block& data);
  /// Either, by all.
  [[nodiscard]] bool share(const Block& data) {
    return seat().mine() == releaser_ ? release(data) : receive(data);
  }

  /// Notes what was wrong with a member's data.
  void note(int error, uint32_t with) noexcept;
  [[nodiscard]] const Trouble& trouble() const noexcept { return trouble_; }

 private:
  [[nodiscard]] Seat& seat() noexcept { return board_->seat_; }
  void await_space();
  void break_up();
  void note_broken();
  void tell();

  NodeBoard* board_ = nullptr;
  uint32_t releaser_;
  bool broken_ = false;
  Trouble trouble_;
};

/// The board for a blocking call on an intra-communicator in which `bytes` are shown; nullptr:
/// there is none, or not yet. It is made, by messages with the call's tag, in the first call that
/// may do so (`begins`): a rank that has no part in that one keeps the others waiting anyway. Calls
/// of a communicator come one after the other.
[[nodiscard]] NodeBoard* node_board(Comm& comm, int tag, int64_t bytes, bool begins);
/// Whether there may be boards on one of the communicator's nodes at least: the same on all ranks.
[[nodiscard]] bool may_have_boards(Comm& comm);

/// When the runtime ends, and with it the memory of boards.
void forget_boards() noexcept;

}  // namespace weft::mpi
