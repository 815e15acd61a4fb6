// Groups: runs and lists, and sets of them.
#include <gtest/gtest.h>

#include "mpi/comms/group_sets.hpp"
#include "mpi/group.hpp"

namespace weft::mpi {
namespace {

TEST(Groups, ARunKnowsItsMembers) {
  const Held<Group> group = Group::run(3, 4);
  EXPECT_EQ(group->size(), 4);
  EXPECT_EQ(group->process(0), Rank{3});
  EXPECT_EQ(group->process(3), Rank{6});
  EXPECT_EQ(group->rank_of(Rank{5}), 2);
  EXPECT_EQ(group->rank_of(Rank{2}), MPI_UNDEFINED);
  EXPECT_EQ(group->rank_of(Rank{7}), MPI_UNDEFINED);
}

TEST(Groups, AListKnowsItsMembers) {
  const Held<Group> group = Group::of({7, 2, 9, 0});
  EXPECT_EQ(group->size(), 4);
  EXPECT_EQ(group->process(2), Rank{9});
  EXPECT_EQ(group->rank_of(Rank{0}), 3);
  EXPECT_EQ(group->rank_of(Rank{1}), MPI_UNDEFINED);
  EXPECT_EQ(members_of(*group), (std::vector<int32_t>{7, 2, 9, 0}));
}

TEST(Groups, AListThatIsARunEqualsIt) {
  const Held<Group> group = Group::of({4, 5, 6});
  EXPECT_EQ(compare(*group, *Group::run(4, 3)), MPI_IDENT);
  EXPECT_EQ(Group::of({})->size(), 0);
  EXPECT_EQ(Group::of({})->rank_of(Rank{0}), MPI_UNDEFINED);
}

TEST(Groups, Comparing) {
  EXPECT_EQ(compare(*Group::of({1, 0}), *Group::run(0, 2)), MPI_SIMILAR);
  EXPECT_EQ(compare(*Group::of({1, 2}), *Group::run(0, 2)), MPI_UNEQUAL);
  EXPECT_EQ(compare(*Group::run(0, 3), *Group::run(0, 2)), MPI_UNEQUAL);
}

TEST(Groups, PartsAndStrangers) {
  EXPECT_TRUE(is_within(*Group::of({5, 3}), *Group::run(0, 6)));
  EXPECT_FALSE(is_within(*Group::of({5, 6}), *Group::run(0, 6)));
  EXPECT_TRUE(are_disjoint(*Group::run(0, 3), *Group::run(3, 3)));
  EXPECT_FALSE(are_disjoint(*Group::run(0, 4), *Group::of({9, 3})));
}

}  // namespace
}  // namespace weft::mpi
