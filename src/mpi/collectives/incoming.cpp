// How an incoming vector is combined: by its receive, or after it.
#include "mpi/collectives/incoming.hpp"

#include <utility>

#include "weft/base/error.hpp"

namespace weft::mpi {

namespace {

/// Combined under a device's lock, as it comes: for about as long as such a copy takes.
constexpr int64_t kLongestAsItComes = 256 << 10;

}  // namespace

bool Incoming::comes_combined(int64_t some) const noexcept {
  return reduction_.combining(false).loop != nullptr &&
         reduction_.combining(true).loop != nullptr &&
         some * reduction_.type->size() <= kLongestAsItComes;
}

void Incoming::recv(Posts& step, const Team& team, int from) {
  WEFT_CHECK(step.count() == 0, "what is combined is not a step's first post");
  as_it_comes_ = reduction_.combining(other_is_lower_);
  comes_combined_ =
      as_it_comes_.loop != nullptr && some_ * reduction_.type->size() <= kLongestAsItComes;
  if (comes_combined_) {
    if (is_beside_) as_it_comes_.base = base_;
    step.recv_combining(team, from, reduction_.part(into_, 0, some_), as_it_comes_);
    return;
  }
  if (!is_beside_ && !std::exchange(has_room_, true))
    room_ = scratch_.elements(most_, *reduction_.type, reduction_.phase);
  step.recv(team, from, reduction_.part(is_beside_ ? into_ : room_, 0, some_));
}

void Incoming::recv_beside(Posts& step, const Team& team, int from, const void* base, void* into,
                           int64_t some, bool other_is_lower) {
  is_beside_ = true;
  base_ = static_cast<const std::byte*>(base);
  into_ = static_cast<std::byte*>(into);
  some_ = some;
  other_is_lower_ = other_is_lower;
  recv(step, team, from);
}

void Incoming::recv_with(Posts& step, const Team& team, int from, const void* base, void* into,
                         int64_t some, bool other_is_lower) {
  if (base != into && reduction_.op->predefined) {
    return recv_beside(step, team, from, base, into, some, other_is_lower);
  }
  if (base != into) copy(reduction_.part(base, 0, some), reduction_.part(into, 0, some));
  recv_onto(step, team, from, into, some, other_is_lower);
}

void Incoming::recv_onto(Posts& step, const Team& team, int from, void* at, int64_t some,
                         bool other_is_lower) {
  is_beside_ = false;
  into_ = static_cast<std::byte*>(at);
  some_ = some;
  other_is_lower_ = other_is_lower;
  recv(step, team, from);
}

void Incoming::combine(bool has_come) {
  if (comes_combined_ || !has_come) return;
  if (!is_beside_) {
    reduction_.combine_part(into_, room_, some_, other_is_lower_);
  } else if (other_is_lower_) {
    reduction_.fold_higher(base_, into_, some_);
  } else {
    reduction_.fold(base_, into_, some_);
  }
}

void Incoming::combine(bool has_come, std::byte*& at) {
  if (is_beside_) return combine(has_come);
  if (!comes_combined_ && has_come) reduction_.combine(at, room_, other_is_lower_);
}

}  // namespace weft::mpi
