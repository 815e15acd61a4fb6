// The provider for ranks that are threads of one process: what tests may do to it beyond the
// contract of Job.
#pragma once

#include <string_view>

#include "weft/fabric/job.hpp"

namespace weft::fabric {

/// Declares `victim` of the job that `any` (from make_local_job) belongs to dead, as a launcher
/// would after a SIGKILL: fences that wait for it throw Error(peer_died), later ones throw at
/// once, and each surviving rank's on_peer_death handler is called, from the calling thread, under
/// no lock. Once per victim; a second call does nothing. Any thread may call it; the victim's own
/// thread goes on, and must see to it that it does nothing any more. A handler that waits for
/// another rank to leave waits for ever.
void kill_local_rank(Job& any, Rank victim, std::string_view cause);

}  // namespace weft::fabric
