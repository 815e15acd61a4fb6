// The room's configuration table.
#pragma once

namespace weft::task {

/// Registers the `task.` keys (docs/configuration.md); harmless if they are already. A scheduler
/// does so itself; for programs that print the configuration.
void register_task_config();

}  // namespace weft::task
