// What comes from others and is combined with what is here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/collectives/blocks.hpp"
#include "mpi/collectives/posts.hpp"
#include "mpi/collectives/reduction.hpp"
#include "mpi/collectives/team.hpp"

namespace weft::mpi {

/// A receive of a step whose elements are combined with others: as they come, where that can be
/// (Combining), so that they are not copied only to be read again; or else once they are there.
/// After the co_await comes `combine`, before the next receive. In a coroutine's frame, before the
/// step; its receive is the step's first post, since making room may throw.
class Incoming {
 public:
  /// At most so many elements at once.
  Incoming(const Reduction& reduction, int64_t most) noexcept
      : reduction_(reduction), most_(most) {}

  /// `into` becomes `base` combined with `some` elements, of higher or lower ranks: operations that
  /// commute, or higher ranks. Neither is touched elsewhere meanwhile; `base` may be sent.
  void recv_beside(Posts& step, const Team& team, int from, const void* base, void* into,
                   int64_t some, bool other_is_lower);
  /// The same; a program's function has its operands in the order of `recv_onto`, to which `base`
  /// is copied first. The two may be the same.
  void recv_with(Posts& step, const Team& team, int from, const void* base, void* into,
                 int64_t some, bool other_is_lower);
  /// What is at `at` is combined with `some` elements, in place.
  void recv_onto(Posts& step, const Team& team, int from, void* at, int64_t some,
                 bool other_is_lower);
  /// Whether so many elements are combined by their receive: no room is made then, `combine` has
  /// nothing to do, and neither throws.
  [[nodiscard]] bool comes_combined(int64_t some) const noexcept;
  /// Does what is left to do, if what was received is what was meant.
  void combine(bool has_come);
  /// The same; of a whole vector received onto `at` the result may be elsewhere afterwards: it and
  /// this object's room have changed places.
  void combine(bool has_come, std::byte*& at);

 private:
  void recv(Posts& step, const Team& team, int from);

  const Reduction& reduction_;
  int64_t most_;
  Combining as_it_comes_;
  // Addresses do not tell: MPI_BOTTOM is null.
  bool is_beside_ = false;
  bool has_room_ = false;
  const std::byte* base_ = nullptr;
  std::byte* into_ = nullptr;
  std::byte* room_ = nullptr;  ///< for what cannot be combined as it comes
  int64_t some_ = 0;
  bool other_is_lower_ = false;
  bool comes_combined_ = false;
  Scratch scratch_;
};

}  // namespace weft::mpi
