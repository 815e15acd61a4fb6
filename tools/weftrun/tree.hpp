// The fan-out tree of a job's launchers: who starts whom, and which way a message goes.
#pragma once

#include <algorithm>

namespace weft::run {

/// Members are numbered: 0 is weftrun, 1 to members - 1 the daemons. Member m's children are
/// m × degree + 1 … m × degree + degree, as far as there are such.
struct Tree {
  int members = 1;
  int degree = 1;

  [[nodiscard]] constexpr int parent(int member) const noexcept { return (member - 1) / degree; }
  [[nodiscard]] constexpr int first_child(int member) const noexcept {
    return static_cast<int>(
        std::min<long long>(static_cast<long long>(member) * degree + 1, members));
  }
  [[nodiscard]] constexpr int children(int member) const noexcept {
    return std::min(members - first_child(member), degree);
  }
  /// The child of `of` whose branch `member` is in; -1 if it is in none, or is `of` itself.
  [[nodiscard]] constexpr int child_towards(int of, int member) const noexcept {
    while (member > of) {
      const int above = parent(member);
      if (above == of) return member;
      member = above;
    }
    return -1;
  }
};

static_assert(Tree{8, 2}.first_child(0) == 1 && Tree{8, 2}.children(0) == 2);
static_assert(Tree{8, 2}.first_child(3) == 7 && Tree{8, 2}.children(3) == 1);
static_assert(Tree{8, 2}.children(4) == 0 && Tree{1, 4}.children(0) == 0);
static_assert(Tree{8, 2}.child_towards(0, 7) == 1 && Tree{8, 2}.child_towards(1, 7) == 3);
static_assert(Tree{8, 2}.child_towards(2, 7) == -1 && Tree{8, 2}.child_towards(7, 7) == -1);

}  // namespace weft::run
