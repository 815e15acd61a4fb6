// Agreeing on context ids: docs/design/mpi-contexts.md.
#include "mpi/comms/agreement.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "mpi/collectives/algorithms.hpp"
#include "mpi/collectives/posts.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi {

namespace {

/// Rounds without knowing what the others have free; then each round asks first.
constexpr uint32_t kBlindRounds = 2;
/// Then so many agreements are under way at once that nobody gets through.
constexpr uint32_t kMostRounds = 200;

using Windows = std::array<uint64_t, ContextIds::kWindows>;

/// What one round has reserved; free again unless the round keeps one.
class Reservation {
 public:
  Reservation(int window, int from) noexcept
      : window_(window), bits_(context_ids().reserve(window, from)) {}
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  ~Reservation() {
    if (!settled_) context_ids().settle(window_, bits_, 0);
  }
  [[nodiscard]] uint64_t bits() const noexcept { return bits_; }
  Context keep(int bit) noexcept {
    context_ids().settle(window_, bits_, uint64_t{1} << bit);
    settled_ = true;
    return Context(static_cast<uint16_t>(window_ * ContextIds::kWindow + bit));
  }

 private:
  const int window_;
  const uint64_t bits_;
  bool settled_ = false;
};

/// Where a round looks.
struct SearchPlace {
  int window;
  int from;  ///< the bit to begin at
};

SearchPlace blind_place(uint64_t seed, uint32_t round) noexcept {
  const uint64_t x = mix(seed, round);
  return {static_cast<int>(x % ContextIds::kWindows),
          static_cast<int>((x >> 32) % ContextIds::kWindow)};
}

/// A place where all have an id free, or are about to, if there is any.
std::optional<SearchPlace> told_place(uint64_t seed, uint32_t round, const Windows& free) {
  const SearchPlace start = blind_place(seed, round);
  for (int i = 0; i < ContextIds::kWindows; ++i) {
    const int window = (start.window + i) % ContextIds::kWindows;
    const uint64_t bits = free[static_cast<std::size_t>(window)];
    if (bits != 0) return SearchPlace{window, first_bit(bits, start.from)};
  }
  return std::nullopt;
}

}  // namespace

Council council_of(Comm& comm) {
  Council council;
  if (!comm.inter) {
    council.inside = &comm;
    council.tag = next_collective_tag(comm);
    council.seed = mix(comm.context, static_cast<uint64_t>(council.tag));
    return council;
  }
  council.inside = comm.local_comm.get();
  council.tag = next_collective_tag(*comm.local_comm);
  council.bridged = true;
  council.bridge = &comm;
  council.bridge_tag = next_collective_tag(comm);
  council.seed = mix(comm.context, static_cast<uint64_t>(council.bridge_tag));
  return council;
}

namespace {

std::vector<int> ranks_of(const Comm& comm, const Group& members) {
  std::vector<int> ranks;
  ranks.reserve(static_cast<std::size_t>(members.size()));
  for (int i = 0; i < members.size(); ++i) {
    ranks.push_back(comm.local_group->rank_of(members.process(i)));
  }
  return ranks;
}

int place_in(const std::vector<int>& ranks, int rank) noexcept {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace

Schedule council_and(Council council, uint64_t* words, int64_t count) {
  const Schedule here =
      council.members != nullptr
          ? group_all_and(*council.inside, *council.members, council.tag, words, count)
          : all_and(*council.inside, council.tag, words, count);
  co_await part(here);
  if (!council.bridged) co_return;
  const std::span<uint64_t> ours(words, static_cast<std::size_t>(count));
  std::vector<uint64_t> theirs(ours.size());
  const Schedule across =
      tell_across(council, std::as_bytes(ours), std::as_writable_bytes(std::span(theirs)));
  if (!co_await part(across)) co_return;
  for (std::size_t i = 0; i < ours.size(); ++i) ours[i] &= theirs[i];
}

Schedule tell_across(Council council, std::span<const std::byte> ours,
                     std::span<std::byte> theirs) {
  Comm& inside = *council.inside;
  Team circle = everybody(inside, council.tag);
  const NodeMap* const levels = council.members == nullptr ? node_levels(inside) : nullptr;
  int leader = council.leader;
  std::vector<int> ranks;
  if (council.members != nullptr) {
    ranks = ranks_of(inside, *council.members);
    circle.rank = place_in(ranks, inside.rank);
    circle.size = council.members->size();
    circle.members = ranks.data();
    leader = place_in(ranks, leader);
  }
  const bool well = co_await Trouble{};
  // relaxed: as in Posts. Not that of `inside`, which goes on if only others of the bridge died,
  // and of which others than the members may be dead.
  std::atomic<bool> died{
      !well || (council.members == nullptr && inside.member_died.load(std::memory_order_relaxed))};
  const Block came = bytes_at(theirs.data(), static_cast<int64_t>(theirs.size()));
  if (inside.rank == council.leader && council.bridge != nullptr) {
    const Team leaders{.comm = council.bridge, .tag = council.bridge_tag, .own_died = &died};
    Step<2> step;
    step.recv(leaders, council.across, came);
    step.send(leaders, council.across, bytes_at(ours.data(), static_cast<int64_t>(ours.size())));
    co_await step;
  }
  circle.own_died = &died;
  const Schedule tell = broadcast_by_trees(circle, levels, came, leader);
  co_await part(tell);
}

Schedule agree(Council council, Context& agreed) {
  std::unique_ptr<Windows> free;
  for (uint32_t round = 0; round < kMostRounds; ++round) {
    std::optional<SearchPlace> place = blind_place(council.seed, round);
    if (round >= kBlindRounds) {
      if (!free) free = std::make_unique<Windows>();
      context_ids().not_in_use(*free);
      const Schedule looks = council_and(council, free->data(), ContextIds::kWindows);
      // Who meets a death here tries with the others, who may not have met it. So does who finds
      // nothing, in vain.
      if (co_await part(looks)) place = told_place(council.seed, round, *free);
    }
    const SearchPlace at = place.value_or(SearchPlace{});
    Reservation mine(at.window, at.from);
    uint64_t common = place ? mine.bits() : 0;
    const Schedule tries = council_and(council, &common, 1);
    if (!co_await part(tries)) co_return;
    if (!place)
      fail(
          MPI_ERR_OTHER,
          "no context id is free in all processes of the new communicator: too many communicators");
    if (common == 0) continue;
    agreed = mine.keep(first_bit(common, at.from));
    co_return;
  }
  fail(MPI_ERR_OTHER, "too many communicators are being made at once");
}

}  // namespace weft::mpi
