// What waits in a channel to be matched: a posted receive, or a message that came before its
// receive.
#pragma once

#include <cstdint>

#include "weft/base/types.hpp"

namespace weft::mpi {

/// The links and the key of an entry; all of it the channel's while it is in there.
struct Entry {
  Entry* next = nullptr;      ///< of the same key, in order; wildcards: the next wildcard
  Entry* previous = nullptr;  ///< the other way
  Entry* last = nullptr;      ///< the first of a key only: the last of it
  Entry* next_key = nullptr;  ///< the first of a key only: of the next key in this bucket
  uint64_t stamp = 0;         ///< arrivals: in order; receives: 0, or in order (keyed_channel.hpp)
  Rank process{};             ///< the sender; kAnySource
  int tag = 0;                ///< may be MPI_ANY_TAG for receives
  bool is_receive = false;
  bool linked = false;  ///< in a channel, or, a send, in its peer's backlog
};

inline constexpr Rank kAnySource{-1};

/// An entry to search by.
[[nodiscard]] inline Entry key_of(Rank source, int tag) noexcept {
  Entry key;
  key.process = source;
  key.tag = tag;
  return key;
}

}  // namespace weft::mpi
