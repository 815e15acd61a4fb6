// How processes agree on the context of a new communicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi/collectives.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/context_ids.hpp"
#include "mpi/schedule.hpp"

namespace weft::mpi {

/// Who agrees, and which way their messages go. All of an intra-communicator; some of its members
/// (`members`); or, if they are `bridged`, two such circles, whose leaders exchange what theirs
/// came to. What it names must outlive the agreement.
struct Council {
  Comm* inside = nullptr;
  int tag = 0;                     ///< on the collective plane of `inside`
  const Group* members = nullptr;  ///< nullptr: all of `inside`
  bool bridged = false;
  int leader = 0;          ///< rank in `inside`
  Comm* bridge = nullptr;  ///< used by the leader only
  int across = 0;          ///< the other leader's rank in `bridge`
  int bridge_tag = 0;      ///< on the collective plane of `bridge`
  uint64_t seed = 0;       ///< the same everywhere; differs from other agreements'
};

/// Everybody of `comm`, whichever kind it is. Takes collective tags.
[[nodiscard]] Council council_of(Comm& comm);

/// Bitwise AND of everybody's words, in place.
Schedule council_and(Council council, uint64_t* words, int64_t count);
/// The leaders of bridged circles exchange bytes, and tell theirs what came. All of a circle give
/// the same, and know how many the other one gives; who met a death may be wrong. A leader without
/// a bridge tells what is at its `theirs`.
Schedule tell_across(Council council, std::span<const std::byte> ours, std::span<std::byte> theirs);
/// A context id that was free everywhere and is in use now; none if a message failed. Throws
/// MPI_ERR_OTHER, everywhere, if there is none.
Schedule agree(Council council, Context& agreed);

/// A seed made of two numbers.
[[nodiscard]] constexpr uint64_t mix(uint64_t one, uint64_t other) noexcept {
  uint64_t x = one * 0x9e3779b97f4a7c15U + other;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// Tags on collective planes of what has no place in the order of collectives. Those of collectives
// are not negative, and MPI_ANY_TAG is none of these.
inline constexpr uint32_t kTagsEach = 0x3fffff00;
/// Of MPI_Comm_create_group with `tag`, and of what names itself by a string.
[[nodiscard]] constexpr int members_tag(uint64_t tag) noexcept {
  return static_cast<int>(0x80000000U + static_cast<uint32_t>(tag % kTagsEach));
}
/// Between the leaders of MPI_Intercomm_create with `tag`, and of MPI_Intercomm_create_from_groups.
[[nodiscard]] constexpr int leaders_tag(uint64_t tag) noexcept {
  return static_cast<int>(0xc0000000U + static_cast<uint32_t>(tag % kTagsEach));
}
static_assert(members_tag(kTagsEach - 1) < leaders_tag(0));
static_assert(leaders_tag(kTagsEach - 1) < MPI_ANY_TAG && leaders_tag(kTagsEach - 1) < 0);

}  // namespace weft::mpi
