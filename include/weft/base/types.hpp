// The words that every floor shares: ranks, tags, and the three answers of a posting call.
#pragma once

#if __cplusplus < 202002L
#error "weft needs C++20: compile with -std=c++20, or later"
#endif

#include <compare>
#include <cstdint>

namespace weft {

/// A process of the job, 0 ≤ value < job size. `kAnyRank` is for receives of an endpoint with
/// MatchOn::tag, which look at no rank.
struct Rank {
  int32_t value = 0;
  friend constexpr auto operator<=>(Rank, Rank) = default;
};
inline constexpr Rank kAnyRank{-1};

/// A message's tag, chosen by the program: any 32-bit value.
struct Tag {
  uint32_t value = 0;
  friend constexpr auto operator<=>(Tag, Tag) = default;
};

/// The answer of every posting call. None of them is an error, and none is ever a crash.
enum class [[nodiscard]] Post : uint8_t{
    done,    ///< Finished: the buffer is the caller's again and no completion will follow.
    posted,  ///< Under way: a completion will follow; the buffer is lent until then.
    retry,   ///< No packet, ring or credit now: nothing happened. Progress, then call again.
};

}  // namespace weft
