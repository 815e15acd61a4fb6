// MPI_Comm_create_from_group and MPI_Intercomm_create_from_groups: communicators without a parent.
#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/collectives/promise.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/carrier.hpp"
#include "mpi/comms/group_sets.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

namespace {

uint64_t hash_of(std::string_view stringtag, const Group& members) {
  uint64_t hash = mix(stringtag.size(), static_cast<uint64_t>(members.size()));
  for (const char letter : stringtag) hash = mix(hash, static_cast<unsigned char>(letter));
  for (int i = 0; i < members.size(); ++i) {
    hash = mix(hash, static_cast<uint64_t>(members.process(i).value));
  }
  return hash;
}

/// The members of a group, by its own name: its messages go over the carrier, with a tag made of
/// what all of them give alike.
Council council_named(std::string_view stringtag, const Group& members) {
  Council council;
  council.inside = &carrier();
  council.members = &members;
  council.seed = hash_of(stringtag, members);
  council.tag = members_tag(council.seed);
  return council;
}

/// Makes sure that all who meet mean the same: tags are 30 bits of the name, this compares 64.
void make_sure(const Council& council, Trouble& met) {
  uint64_t words[2] = {council.seed, ~council.seed};
  run_part(council_and(council, words, 2), met);
  if (met.error != MPI_SUCCESS) return;
  if (words[0] != council.seed || words[1] != ~council.seed)
    fail(MPI_ERR_OTHER, "two communicators are being made under names that cannot be told apart");
}

std::string_view checked_stringtag(const char* stringtag) {
  if (stringtag == nullptr) fail(MPI_ERR_ARG, "a null pointer for a name");
  const std::string_view text(stringtag);
  require(text.size() < MPI_MAX_STRINGTAG_LEN, MPI_ERR_ARG, "a name that is too long");
  return text;
}

void require_member(const Group& group) {
  if (group.rank_of(runtime().rank()) == MPI_UNDEFINED)
    fail(MPI_ERR_GROUP, "this process is not of the group");
}

/// Both groups as one, in an order that both sides see alike.
Held<Group> united(const Group& one, const Group& other) {
  std::vector<int32_t> members = members_of(one);
  const std::vector<int32_t> more = members_of(other);
  members.insert(members.end(), more.begin(), more.end());
  std::sort(members.begin(), members.end());
  return Group::of(std::move(members));
}

/// The other side, as its leader knows it.
struct RemoteSide {
  const Group* known = nullptr;  ///< empty pointer: this process does not lead, or was given none
  int leader = 0;
};

/// What is wrong with what the leader was given: an error class.
int fault_of(const Group& local, const RemoteSide& remote) {
  if (remote.known == nullptr) return MPI_ERR_GROUP;
  if (remote.leader < 0 || remote.leader >= remote.known->size()) return MPI_ERR_RANK;
  return are_disjoint(local, *remote.known) ? MPI_SUCCESS : MPI_ERR_GROUP;
}

/// The leader tells the remote group, or what is wrong with it (`fault`), to its own, who are
/// `council`. Empty pointer: a message failed, or there is a fault; `met` says so.
Held<Group> learn_remote(const Council& council, bool leads, const Group* known, int& fault,
                         Trouble& met) {
  constexpr uint64_t kNothing = ~uint64_t{0};
  uint64_t head[2] = {kNothing, kNothing};
  if (leads) {
    head[0] = known == nullptr ? 0 : static_cast<uint64_t>(known->size());
    head[1] = static_cast<uint64_t>(fault);
  }
  // An AND with ones is a broadcast.
  run_part(council_and(council, head, 2), met);
  const bool told = leads || met.error == MPI_SUCCESS;
  if (!leads && told) fault = static_cast<int>(head[1]);
  // Who does not know the size goes on as if it were one, as in MPI_Intercomm_create. So do all who
  // know of a fault: others may have met a death instead, and wait for them.
  const bool knows = told && fault == MPI_SUCCESS;
  if (fault != MPI_SUCCESS) met.note(fault, runtime().rank());
  std::vector<uint64_t> words(knows ? head[0] : 1, kNothing);
  for (std::size_t i = 0; leads && knows && i < words.size(); ++i) {
    words[i] = static_cast<uint64_t>(known->process(static_cast<int>(i)).value);
  }
  run_part(council_and(council, words.data(), static_cast<int64_t>(words.size())), met);
  if (met.error != MPI_SUCCESS) return {};
  std::vector<int32_t> members(words.size());
  std::transform(words.begin(), words.end(), members.begin(),
                 [](uint64_t word) { return static_cast<int32_t>(word); });
  return Group::of(std::move(members));
}

/// What a call fails with for its leader's arguments.
Failure failure_of(int fault) {
  return {fault, fault == MPI_ERR_RANK
                     ? "the remote leader is no rank of the remote group"
                     : "the leader was given no remote group, or one that has a process in common "
                       "with the local one"};
}

}  // namespace

namespace calls {

void Comm_create_from_group(MPI_Group group, const char* stringtag, MPI_Info info,
                            MPI_Errhandler errhandler, MPI_Comm* newcomm) {
  Group& members = mpi::group(group);
  const Info* hints = info_or_null(info);
  Held<Errhandler> handler = usable_errhandler(errhandler, Errhandler::Kind::comm_function);
  begin_output(newcomm);
  const std::string_view name = checked_stringtag(stringtag);
  if (members.size() == 0) return;
  require_member(members);
  const Council council = council_named(name, members);
  Trouble met;
  make_sure(council, met);
  *newcomm = make_agreed(
      council, {.group = Held<Group>(&members), .errhandler = std::move(handler), .hints = hints},
      met);
  comm(*newcomm).session = members.session;
}

void Intercomm_create_from_groups(MPI_Group local_group, int local_leader, MPI_Group remote_group,
                                  int remote_leader, const char* stringtag, MPI_Info info,
                                  MPI_Errhandler errhandler, MPI_Comm* newintercomm) {
  Group& local = group(local_group);
  const Info* hints = info_or_null(info);
  Held<Errhandler> handler = usable_errhandler(errhandler, Errhandler::Kind::comm_function);
  begin_output(newintercomm);
  const std::string_view name = checked_stringtag(stringtag);
  require_member(local);
  if (local_leader < 0 || local_leader >= local.size())
    fail(MPI_ERR_RANK, "the local leader is no rank of the local group");
  const bool leads = local.process(local_leader) == runtime().rank();
  const RemoteSide side{leads ? groups().find(remote_group) : nullptr, remote_leader};
  Trouble met;
  int fault = leads ? fault_of(local, side) : MPI_SUCCESS;
  Council council = council_named(name, local);
  Held<Group> remote = learn_remote(council, leads, side.known, fault, met);
  // Then as in MPI_Intercomm_create: each side on its own, and across by way of the leaders. Who
  // does not know the other side takes part.
  const auto rank_of = [](Rank process) { return carrier().local_group->rank_of(process); };
  council.bridged = true;
  council.leader = rank_of(local.process(local_leader));
  if (leads && fault == MPI_SUCCESS) {
    council.bridge = &carrier();
    council.across = rank_of(side.known->process(side.leader));
    council.bridge_tag = leaders_tag(hash_of(name, *united(local, *side.known)));
  }
  if (remote) council.seed = hash_of(name, *united(local, *remote));
  make_sure(council, met);
  WantedInter wanted{.local = Held<Group>(&local),
                     .remote = std::move(remote),
                     .errhandler = std::move(handler),
                     .hints = hints};
  std::optional<Failure> wrong;
  if (fault != MPI_SUCCESS) wanted.wrong = &wrong.emplace(failure_of(fault));
  *newintercomm = make_inter(council, std::move(wanted), met);
  comm(*newintercomm).session = local.session;
}

}  // namespace calls
}  // namespace weft::mpi
