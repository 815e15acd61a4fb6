// The configuration of this room.
#pragma once

namespace weft {

/// Registers the table of comm's keys; the runtime does it, and so does whoever lists all keys.
/// Throws Error(bad_config) if the environment holds nonsense for one of them.
void register_comm_config();

}  // namespace weft
