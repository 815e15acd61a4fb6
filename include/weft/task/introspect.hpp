// What the tasks of the process are about, asked from outside.
#pragma once

#include <csignal>
#include <string>

namespace weft::task {

/// Scheduler::dump of all live schedulers. Any thread; may take a lock, memory and files.
std::string dump_all();

/// From now on `signal`, sent to the process (kill -USR2), makes a thread in the background write
/// dump_all() to stderr. Replaces what the program did with that signal. May be called again, also
/// with other signals. Not inherited by a child after fork, which may call it itself. Any thread.
/// Error(bad_argument): not a signal that can be handled; Error(no_memory): no thread could be
/// made.
void dump_on_signal(int signal = SIGUSR2);

}  // namespace weft::task
