// Groups: how they are kept, and what their handles name.
#include "mpi/group.hpp"

#include "mpi/comms/group_sets.hpp"

namespace weft::mpi {

namespace {

bool is_run(const std::vector<int32_t>& members) {
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (members[i] != members[0] + static_cast<int32_t>(i)) return false;
  }
  return true;
}

}  // namespace

Held<Group> Group::run(int first, int size) {
  auto made = Held<Group>::adopt(new Group);
  made->first_ = first;
  made->size_ = size;
  return made;
}

Held<Group> Group::of(std::vector<int32_t> members) {
  if (is_run(members)) {
    return run(members.empty() ? 0 : members[0], static_cast<int>(members.size()));
  }
  auto made = Held<Group>::adopt(new Group);
  made->first_ = -1;
  made->size_ = static_cast<int32_t>(members.size());
  made->ranks_.reserve(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    made->ranks_.emplace(members[i], static_cast<int32_t>(i));
  }
  made->members_ = std::move(members);
  return made;
}

int Group::look_up(Rank process) const noexcept {
  const auto found = ranks_.find(process.value);
  return found == ranks_.end() ? MPI_UNDEFINED : found->second;
}

HandleTable<Group, MPI_Group>& groups() noexcept {
  static HandleTable<Group, MPI_Group>& table = never_destroyed<HandleTable<Group, MPI_Group>>();
  return table;
}

Group& group(MPI_Group handle) {
  Group* found = groups().find(handle);
  if (found == nullptr) [[unlikely]]
    fail(MPI_ERR_GROUP, "not a group: null, freed, or never made");
  return *found;
}

MPI_Group handle_for(Held<Group> group) {
  if (group->size() == 0) return MPI_GROUP_EMPTY;
  const MPI_Group handle = groups().add(group.get());
  (void)group.release();
  return handle;
}

std::vector<int32_t> members_of(const Group& group) {
  std::vector<int32_t> members(static_cast<std::size_t>(group.size()));
  for (int i = 0; i < group.size(); ++i) {
    members[static_cast<std::size_t>(i)] = group.process(i).value;
  }
  return members;
}

bool is_within(const Group& part, const Group& whole) {
  for (int i = 0; i < part.size(); ++i) {
    if (whole.rank_of(part.process(i)) == MPI_UNDEFINED) return false;
  }
  return true;
}

bool are_disjoint(const Group& one, const Group& other) {
  for (int i = 0; i < one.size(); ++i) {
    if (other.rank_of(one.process(i)) != MPI_UNDEFINED) return false;
  }
  return true;
}

int compare(const Group& one, const Group& other) {
  if (&one == &other) return MPI_IDENT;
  if (one.size() != other.size()) return MPI_UNEQUAL;
  int answer = MPI_IDENT;
  for (int i = 0; i < one.size(); ++i) {
    const int there = other.rank_of(one.process(i));
    if (there == MPI_UNDEFINED) return MPI_UNEQUAL;
    if (there != i) answer = MPI_SIMILAR;
  }
  return answer;
}

}  // namespace weft::mpi
