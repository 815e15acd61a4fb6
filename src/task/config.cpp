// The table of the room's configuration keys.
#include "weft/task/config.hpp"

#include <mutex>

#include "weft/base/config.hpp"

namespace weft::task {
namespace {

using base::ConfigType;

constexpr base::ConfigKey kKeys[] = {
    {.key = "task.workers",
     .type = ConfigType::integer,
     .fallback = "0",
     .low = 0,
     .high = 1024,
     .help = "Worker threads of a scheduler; 0: one for each core that the process may use."},
    {.key = "task.stack_bytes",
     .type = ConfigType::bytes,
     .fallback = "64K",
     .low = 16 << 10,
     .high = int64_t{1} << 30,
     .help =
         "Stack of a task that asks for no other, guard included; rounded up to a power of two. "
         "Only touched pages take memory."},
    {.key = "task.bind",
     .type = ConfigType::boolean,
     .fallback = "true",
     .help = "Workers are bound to a core each, while there are enough: to such as no other "
             "scheduler of "
             "the process and no other rank of the node has, while there are enough of those."},
    {.key = "task.spin",
     .type = ConfigType::nanoseconds,
     .fallback = "50us",
     .low = 0,
     .high = int64_t{10} * 1000 * 1000 * 1000,
     .help = "How long a worker without work looks for some, yielding its core, before it sleeps."},
    {.key = "task.guards",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|madvise|mprotect|canary",
     .help = "What meets the overflow of a stack: guard pages that the kernel installs (madvise), "
             "such made by mprotect, or a known word at its end; automatic: the first that the "
             "kernel has."},
    {.key = "task.mprotect_guards",
     .type = ConfigType::integer,
     .fallback = "16000",
     .low = 0,
     .high = 30000,
     .help =
         "Where guard pages are made by mprotect: how many stacks get one, two maps of the process "
         "each. Further ones have a canary."},
    {.key = "task.patience",
     .type = ConfigType::nanoseconds,
     .fallback = "10s",
     .low = 0,
     .high = int64_t{3600} * 1000 * 1000 * 1000,
     .help = "How long the end of a scheduler waits for tasks that wait for what nobody does."},
    {.key = "task.report_quiet",
     .type = ConfigType::nanoseconds,
     .fallback = "0",
     .low = 0,
     .high = int64_t{3600} * 1000 * 1000 * 1000,
     .help =
         "After how long a standstill, with tasks alive and none that can run, a scheduler logs "
         "which they are and where they wait; 0: never."},
    {.key = "task.dump_signal",
     .type = ConfigType::choice,
     .fallback = "none",
     .choices = "none|USR1|USR2|QUIT",
     .help =
         "The signal that makes the process write all its tasks to stderr, where each waits, and "
         "go on, from its first scheduler on (in a child by fork, from that one's); as "
         "task::dump_on_signal does."},
    {.key = "task.blocking_threads",
     .type = ConfigType::integer,
     .fallback = "16",
     .low = 1,
     .high = 1024,
     .help = "The most kernel threads that a scheduler makes for blocking calls."},
    {.key = "task.blocking_idle",
     .type = ConfigType::nanoseconds,
     .fallback = "10s",
     .low = 0,
     .high = int64_t{3600} * 1000 * 1000 * 1000,
     .help = "How long a thread for blocking calls stays without one."},
};

// A runtime that warns of settings that nobody knows may come before the first scheduler.
const base::AnnouncedConfig kAnnounced(kKeys);

}  // namespace

void register_task_config() {
  static std::once_flag once;
  std::call_once(once, [] { base::register_config(kKeys); });
}

}  // namespace weft::task
