// Boards of nodes: how members agree on one, wait at it, and leave it when one of them has died.
#include "mpi/collectives/node_board.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/board_store.hpp"
#include "mpi/collectives/node_map.hpp"
#include "mpi/collectives/settings.hpp"
#include "mpi/failure.hpp"
#include "mpi/messages.hpp"
#include "mpi/process.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/topology.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::mpi {
namespace {

constexpr int kFewestMembers = 3;  // of those who arrive and are released
// In place of the length of what is shown:
constexpr uint32_t kDeclined = UINT32_MAX;  // this call goes by messages
constexpr uint32_t kLeft = UINT32_MAX - 1;  // so do all from here on
constexpr int kFirstTag = 2;             // of a communicator's first collectives none makes a board
constexpr int kLooks = 64;               // before anything else is done
constexpr uint32_t kVainLooks = 32;      // one after the other: nobody comes while this one looks,
constexpr uint32_t kWaitsPerTry = 1024;  // so far
constexpr uint32_t kTurns = 128;         // of waiting, before a letter is asked for
constexpr double kShortNs = 1000;        // a yield that takes no longer: nobody wanted the core
constexpr double kPatienceNs = 2e6;
constexpr uint64_t kPauseNs = 1'000'000;  // of a releaser that is as far ahead as it may be
constexpr uint32_t kTurnsBetweenPolls = 4;
constexpr uint32_t kUsesBetweenPolls = 16;

/// So many of them on a node. Two have a board if they are all that there are.
bool fits_board(int members, const Comm& comm) noexcept {
  return members >= std::min(kFewestMembers, std::max(comm.size(), 2)) &&
         members <= static_cast<int>(Board::kMembers);
}

// --- Agreeing on one -----------------------------------------------------------------------------

/// What the first member tells the others.
struct Invitation {
  BoardStore::Place place;
  bool is_valid = false;
};

Board* board_of(const Invitation& invitation, Rank owner) noexcept {
  if (!invitation.is_valid || invitation.place.key.owner != owner.value) return nullptr;
  return BoardStore::others(invitation.place);
}

/// What the members on a node came to.
struct Agreement {
  bool has_board = false;            ///< all see one, or somebody has died
  std::optional<Seat> seat;          ///< at it, if this member sees it
  std::optional<uint32_t> number{};  ///< at the first member
};

/// The first member tells all others, at once: whether what it tells is poison is the same for all.
Schedule tell_all(Team node, Block data) {
  BigStep step(static_cast<uint32_t>(node.size));
  if (node.rank != 0) step.recv(node, 0, data);
  for (int member = 1; node.rank == 0 && member < node.size; ++member) {
    step.send(node, member, data);
  }
  co_await step;
}

/// The first offers a board; each says to it whether it sees that, and it says whether all do.
///
/// Where a member dies meanwhile, some may take the board for theirs and others not. Those who do
/// know of the death or find it in the first use, and all go on by messages.
Schedule agree_on_board(Team node, Agreement& agreed) {
  Invitation invitation;
  if (node.rank == 0 && !node.died()) agreed.number = board_store().take();
  if (agreed.number) invitation = {board_store().place_of(*agreed.number), true};
  const Schedule tell = tell_all(node, bytes_at(&invitation, sizeof invitation));
  co_await part(tell);
  const Rank first = node.comm->process(node.at(0));
  if (!invitation.is_valid) {
    // Others may have heard of it before.
    agreed.has_board = node.rank != 0 && node.died() && runtime().is_dead(first);
    co_return;
  }
  Board* const board =
      agreed.number ? &board_store().board(*agreed.number) : board_of(invitation, first);
  std::optional<Seat> seat;
  if (board != nullptr) {
    seat.emplace(*board, static_cast<uint32_t>(node.size), static_cast<uint32_t>(node.rank),
                 static_cast<uint32_t>(node.tag));
  }
  bool sees[Board::kMembers] = {};
  sees[0] = seat.has_value();
  Step<8> step;
  if (node.rank != 0) step.send(node, 0, bytes_at(sees, 1));
  for (int member = 1; node.rank == 0 && member < node.size; ++member) {
    if (step.full()) co_await step;
    step.recv(node, member, bytes_at(sees + member, 1));
  }
  co_await step;
  bool all = node.rank == 0 && std::all_of(sees, sees + node.size, std::identity());
  const Schedule verdict = tell_all(node, bytes_at(&all, 1));
  co_await part(verdict);
  agreed.has_board = all || node.died();
  if (agreed.has_board) agreed.seat = seat;
}

// --- What is shown -------------------------------------------------------------------------------

void show(const Block& block, std::byte* at, uint32_t& bytes) {
  const auto length = static_cast<std::size_t>(block.bytes());
  bytes = static_cast<uint32_t>(length);
  if (length == 0) return;
  if (block.type->contiguous()) {
    std::memcpy(at, block.at, length);
  } else {
    block.type->pack(block.at, block.count, 0, {at, length});
  }
}

void unpack(std::span<const std::byte> shown, const Block& block) {
  if (shown.empty()) return;
  if (block.type->contiguous()) {
    std::memcpy(block.at, shown.data(), shown.size());
  } else {
    block.type->unpack(block.at, block.count, 0, shown);
  }
}

}  // namespace

// --- Waiting -------------------------------------------------------------------------------------

Board& NodeBoard::nobodys() noexcept {
  static Board board{};
  return board;
}

NodeBoard::~NodeBoard() {
  if (seat_.members() == 0) return;
  if (number_) board_store().give_back(*number_, seat_.members());
  seat_.leave();
}

void NodeBoard::set_up(int tag) {
  was_set_up_ = true;
  const NodeMap& nodes = node_map(comm_);
  if (nodes.nodes.size() > 1 && node_levels(comm_) == nullptr) return;
  const Team node = nodes.node(comm_, tag);
  if (!fits_board(node.size, comm_)) return;
  exchanges_ = node.size == comm_.size() && node.size <= static_cast<int>(Board::kExchangers);
  is_pair_ = exchanges_ && node.size == 2;
  ranks_take_turns_ =
      !base::Topology::machine().has_processors_for(runtime().job().node_ranks().size());
  Agreement agreed;
  try {
    run(agree_on_board(node, agreed));
  } catch (const Failure&) {
    // A member has died. The collective, for which this is done, will tell.
  }
  if (agreed.has_board) nodes_ = &nodes;
  if (agreed.seat) {
    seat_ = *agreed.seat;
    number_ = agreed.number;
    is_open_ = true;
  } else if (agreed.number) {
    board_store().give_back(*agreed.number, 0);
  }
}

/// Lets whoever wants this core have it; how long that takes tells whether anybody did.
void NodeBoard::yield_core() noexcept {
  static const uint64_t kShort = base::to_ticks(kShortNs);
  const uint64_t before = base::ticks();
  if (long_yields_.keeps_core(before)) return base::cpu_relax();
  base::this_parker().yield();
  const uint64_t after = base::ticks();
  const bool keeps = !ranks_take_turns_ && long_yields_.note(before, after);
  core_is_wanted_ = after - before > kShort && !keeps;
}

/// On a core that others want. If these are ranks, the one that is waited for may be among them, or
/// wait for its turn elsewhere. If they are threads of this process, it runs on another core and
/// comes soon, mostly: else all of them would leave the core once for each message, and hardly
/// meet those whom they wait for.
bool NodeBoard::looks_once() const noexcept {
  return core_is_wanted_ && (ranks_take_turns_ || vain_looks_ % kWaitsPerTry >= kVainLooks);
}

/// Waits until `ready`, which `partner` brings about; false: `partner` is dead. Yields for a while,
/// then says by `wish` that it wants a letter, and waits for that as for any message.
template <class Ready, class AnyWish>
bool NodeBoard::wait(Ready ready, uint32_t partner, AnyWish wish) {
  static const uint64_t kPatience = base::to_ticks(kPatienceNs);
  if (ready()) return true;
  for (int look = looks_once() ? kLooks : 0; look < kLooks; ++look) {
    base::cpu_relax();
    if (ready()) {
      vain_looks_ = 0;
      return true;
    }
  }
  ++vain_looks_;
  if (!base::this_parker().may_poll()) return wait_by_letter(ready, partner, wish);
  const uint64_t began = base::ticks();
  for (uint32_t turn = 1; turn <= kTurns && base::ticks() - began < kPatience; ++turn) {
    yield_core();
    if (ready()) return true;
    if (turn % kTurnsBetweenPolls != 0) continue;
    progress();
    if (ready()) return true;
  }
  return wait_by_letter(ready, partner, wish);
}

template <class Ready, class AnyWish>
bool NodeBoard::wait_by_letter(Ready ready, uint32_t partner, AnyWish wish) {
  for (;;) {
    Transfer letter;
    start_recv(letter, comm_, Plane::collective, rank_of(partner), kLetterTag, nullptr, 0,
               byte_type());
    // seq_cst: who brings it about says so, then looks for wishes.
    seat_.sleepers().fetch_add(1, std::memory_order_seq_cst);
    wish.make();
    const bool late = ready();
    if (late && wish.take()) (void)cancel_recv(letter);
    mpi::wait(letter);
    seat_.sleepers().fetch_sub(1, std::memory_order_relaxed);
    if (late || ready()) return true;
    if (letter.outcome.error != MPI_SUCCESS) {
      (void)wish.take();
      return false;
    }
  }
}

void NodeBoard::send_letter(uint32_t member) {
  Transfer letter;
  start_send(letter, comm_, Plane::collective, rank_of(member), kLetterTag, nullptr, 0,
             byte_type());
  mpi::wait(letter);  // where it fails, the member is dead
}

// --- Exchanging ----------------------------------------------------------------------------------

/// Its data, or else why it shows none.
void NodeBoard::show_to_others(int tag, const Block& mine, uint32_t refusal) {
  seat_.begin_exchange(static_cast<uint32_t>(tag) + 1);
  Board::Arrival& own = seat_.place_of(seat_.mine());
  if (refusal == 0) {
    show(mine, own.data, own.bytes);
  } else {
    own.bytes = refusal;
  }
  const auto all = static_cast<uint32_t>((uint64_t{1} << seat_.members()) - 1);
  const uint32_t others = all & ~(uint32_t{1} << seat_.mine());
  for (uint32_t wishes = seat_.show() & others; wishes != 0; wishes &= wishes - 1) {
    send_letter(static_cast<uint32_t>(std::countr_zero(wishes)));
  }
}

void NodeBoard::decline(int tag) {
  if (is_pair_ && is_open_) show_to_others(tag, {}, kDeclined);
}

/// For good. Its places are not written again, so none has to be read before.
void NodeBoard::leave_exchanges(int tag) {
  is_open_ = false;
  others_may_wait_ = false;
  show_to_others(tag, {}, kLeft);
}

/// A member that died before it arrived is missed by all; and one that left tells all. So it is
/// either for all members that this was an exchange, or for none.
bool NodeBoard::exchange(int tag, const Block& mine) {
  // relaxed: see Posts::post_send.
  const bool leaves = is_open_ && comm_.member_died.load(std::memory_order_relaxed);
  if (leaves || others_may_wait_) leave_exchanges(tag);
  if (!is_open_) return false;
  if (++uses_ % kUsesBetweenPolls == 0) progress();
  show_to_others(tag, mine);
  seat_.prepare_next();
  for (uint32_t member = 0; member < seat_.members(); ++member) {
    if (member == seat_.mine()) continue;
    if (!wait([&] { return seat_.has_shown(member); }, member, seat_.wish_to_see(member))) {
      is_open_ = false;
      comm_.member_died.store(true, std::memory_order_relaxed);
      return false;
    }
    const uint32_t bytes = seat_.place_of(member).bytes;
    if (bytes == kLeft) is_open_ = false;
    if (bytes == kLeft || (bytes == kDeclined && is_pair_)) return false;
  }
  seat_.note_all_here();
  return true;
}

std::span<const std::byte> NodeBoard::shown_by(int member) noexcept {
  const Board::Arrival& place = seat_.place_of(static_cast<uint32_t>(member));
  return {place.data, std::min(place.bytes, Board::kBytes)};
}

// --- A use ---------------------------------------------------------------------------------------

BoardUse::BoardUse(const Team& team, int releaser) : releaser_(static_cast<uint32_t>(releaser)) {
  NodeBoard* const board = team.board;
  if (board == nullptr || !board->is_open_) return;
  board_ = board;
  // Who finds at once what it waits for, time after time, shall serve others all the same.
  if (++board->uses_ % kUsesBetweenPolls == 0) progress();
  seat().begin(static_cast<uint32_t>(team.tag) + 1);
  if (seat().state() == Seat::State::broken) {
    note_broken();
  } else if (board->comm_.member_died.load(std::memory_order_relaxed)) {  // relaxed: see Posts
    break_up();
  }
}

BoardUse::~BoardUse() {
  if (board_ != nullptr) seat().end();
}

void BoardUse::arrive(const Block& mine) {
  Board::Arrival& own = seat().arrival();
  show(mine, own.data, own.bytes);
  if (seat().arrive()) board_->send_letter(0);
}

bool BoardUse::await(uint32_t member) {
  Seat& seat = this->seat();
  const auto ready = [&] {
    return seat.has_arrived(member) || seat.state() == Seat::State::broken;
  };
  if (!board_->wait(ready, member, seat.wish_for(member))) break_up();
  if (!broken_ && seat.state() == Seat::State::broken) note_broken();
  if (!broken_ && member + 1 == seat.members()) seat.note_all_here();
  return !broken_;
}

std::span<std::byte> BoardUse::arrived(uint32_t member) noexcept {
  Board::Arrival& arrival = seat().arrival_of(member);
  return {arrival.data, std::min(arrival.bytes, Board::kBytes)};
}

bool BoardUse::release(const Block& data) {
  // relaxed: see Posts::post_send.
  if (board_->comm_.member_died.load(std::memory_order_relaxed)) {
    break_up();
    return false;
  }
  await_space();
  Board::Release& place = seat().release_place();
  bool decided = seat().state() == Seat::State::broken;
  if (!decided) {
    show(data, place.data, place.bytes);
    decided = !seat().release();
  }
  if (decided) {
    note_broken();
    return false;
  }
  tell();
  return true;
}

std::optional<std::span<std::byte>> BoardUse::released() {
  Seat& seat = this->seat();
  Board::Release& place = seat.release_place();
  const auto ready = [&] { return seat.state() != Seat::State::open; };
  if (!board_->wait(ready, releaser_, seat.wish_of(seat.mine()))) break_up();
  if (seat.state() != Seat::State::released) {
    note_broken();
    return std::nullopt;
  }
  return std::span(place.data, std::min(place.bytes, Board::kBytes));
}

void BoardUse::take(std::span<const std::byte> shown, const Block& data) {
  const auto room = static_cast<std::size_t>(data.bytes());
  if (shown.size() > room) note(MPI_ERR_TRUNCATE, releaser_);
  unpack(shown.first(std::min(shown.size(), room)), data);
}

bool BoardUse::receive(const Block& data) {
  const auto shown = released();
  if (shown) take(*shown, data);
  return shown.has_value();
}

void BoardUse::note(int error, uint32_t with) noexcept {
  trouble_.note(error, board_->process(with));
}

/// All others who live are through with what the use's place held before.
void BoardUse::await_space() {
  const auto lives = [this](uint32_t member) {
    return !runtime().is_dead(board_->process(member));
  };
  for (uint32_t turn = 1; !seat().has_space(lives); ++turn) {
    progress();
    board_->yield_core();
    if (turn % kTurns == 0) (void)base::this_parker().park_until(base::now_ns() + kPauseNs);
  }
}

/// For all members, unless it was released already.
void BoardUse::break_up() {
  await_space();
  if (seat().break_up()) note_broken();
}

/// From here on there are messages. The first member may sleep until this one arrives, which it
/// will not.
void BoardUse::note_broken() {
  if (broken_) return;
  broken_ = true;
  board_->is_open_ = false;
  // relaxed: see Posts::post_send.
  board_->comm_.member_died.store(true, std::memory_order_relaxed);
  if (board_->exchanges_) {
    board_->others_may_wait_ = true;
  } else if (seat().wish_for(seat().mine()).take()) {
    board_->send_letter(0);
  }
  tell();
}

/// The use is decided: who sleeps, or waits for a letter of this member's, shall know.
void BoardUse::tell() {
  if (seat().mine() != releaser_ || !seat().has_sleepers()) return;
  for (uint32_t member = 0; member < seat().members(); ++member) {
    if (seat().wish_of(member).take()) board_->send_letter(member);
  }
}

// --- Which board ---------------------------------------------------------------------------------

NodeBoard* node_board(Comm& comm, int tag, int64_t bytes, bool begins) {
  if (!choices().node_board || bytes > static_cast<int64_t>(Board::kBytes)) return nullptr;
  if (comm.board == nullptr) comm.board = std::make_shared<NodeBoard>(comm);
  NodeBoard& board = *comm.board;
  if (!board.was_set_up() && begins && tag >= kFirstTag) board.set_up(tag);
  return board.serves() ? &board : nullptr;
}

bool may_have_boards(Comm& comm) {
  if (!choices().node_board) return false;
  const NodeMap& map = node_map(comm);
  if (map.nodes.size() > 1 && node_levels(comm) == nullptr) return false;
  return std::any_of(map.nodes.begin(), map.nodes.end(), [&](const std::vector<int>& members) {
    return fits_board(static_cast<int>(members.size()), comm);
  });
}

void forget_boards() noexcept { board_store().forget(); }

}  // namespace weft::mpi
