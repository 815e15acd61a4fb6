// Transports that are not made for themselves: the parts of a job's transport.
//
// They publish what peers need, and leave the fence behind which it can be had to whoever makes
// them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/base/types.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

/// `ranks`, ascending and this one among them, through shared segments. Throws Error(no_memory,
/// no_permission).
std::unique_ptr<Transport> make_shm_part(Job& job, const Geometry& geometry,
                                         std::vector<Rank> ranks);
/// `ranks` of this process, as above.
std::unique_ptr<Transport> make_local_part(Job& job, const Geometry& geometry,
                                           std::vector<Rank> ranks);
/// All ranks, over libfabric, with this rank's packets in `packets`, which outlives it; empty: in
/// memory of its own. Throws as make_ofi_transport.
std::unique_ptr<Transport> make_ofi_part(Job& job, const Geometry& geometry,
                                         std::span<std::byte> packets);

/// The ranks to which memory is shared and that are of this rank's node, pretended or not.
std::vector<Rank> near_ranks(const Job& job);

/// What make_ofi_transport would use for a job of one node or of several, in words: libfabric's
/// provider and the interface. Throws its Errors.
std::string ofi_choice(bool one_node);

}  // namespace weft::fabric
