// The pairs of recursive doubling and halving, in which combined ranks are always neighbours.
#pragma once

#include <bit>
#include <cstdint>

#include "mpi/collectives/team.hpp"

namespace weft::mpi {

/// The largest power of two of ranks that pair up; of the others, `rest`, each gives its vector to
/// the rank after it first: of the first 2 * rest ranks, the even ones stand aside.
///
/// Numbers keep the ranks' order, and after the step with distance d whoever takes part has
/// combined an aligned run of 2 d numbers: operations need not be commutative.
struct Pairing {
  explicit Pairing(const Team& team)
      : power(static_cast<int>(std::bit_floor(static_cast<unsigned>(team.size)))),
        rest(team.size - power),
        aside(team.rank < 2 * rest && team.rank % 2 == 0),
        number(number_of(team.rank)) {}
  [[nodiscard]] int number_of(int rank) const noexcept {
    return rank < 2 * rest ? rank / 2 : rank - rest;
  }
  [[nodiscard]] int rank_of(int wanted) const noexcept {
    return wanted < rest ? 2 * wanted + 1 : wanted + rest;
  }
  /// Takes the vector of the rank before it first.
  [[nodiscard]] bool doubles(int rank) const noexcept { return rank < 2 * rest && rank % 2 == 1; }

  int power;
  int rest;
  bool aside;
  int number;
};

/// The parts of a vector that are left to a number after each step of halving.
class Halves {
 public:
  explicit Halves(int64_t count) noexcept { end_[0] = count; }
  /// Goes one step on. `low`: this number keeps the lower half.
  void halve(bool low) noexcept {
    const int64_t middle = begin_[depth_] + (end_[depth_] - begin_[depth_]) / 2;
    begin_[depth_ + 1] = low ? begin_[depth_] : middle;
    end_[depth_ + 1] = low ? middle : end_[depth_];
    ++depth_;
  }
  void back() noexcept { --depth_; }
  [[nodiscard]] int64_t begin() const noexcept { return begin_[depth_]; }
  [[nodiscard]] int64_t count() const noexcept { return end_[depth_] - begin_[depth_]; }
  /// The half that the last step left to the partner.
  [[nodiscard]] int64_t other_begin() const noexcept {
    return begin_[depth_] == begin_[depth_ - 1] ? end_[depth_] : begin_[depth_ - 1];
  }
  [[nodiscard]] int64_t other_count() const noexcept {
    return end_[depth_ - 1] - begin_[depth_ - 1] - count();
  }

 private:
  static constexpr int kSteps = 32;
  int64_t begin_[kSteps] = {};
  int64_t end_[kSteps] = {};
  int depth_ = 0;
};

}  // namespace weft::mpi
