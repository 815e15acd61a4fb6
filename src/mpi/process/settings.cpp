// The table of the room's configuration keys.
#include "mpi/process/settings.hpp"

#include <exception>
#include <mutex>

#include "mpi/collectives/settings.hpp"
#include "mpi/matching/channel.hpp"
#include "weft/base/config.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/mpi/config.hpp"
#include "weft/task/config.hpp"

namespace weft::mpi {
namespace {

using base::ConfigType;

constexpr base::ConfigKey kKeys[] = {
    {.key = "mpi.check_arguments",
     .type = ConfigType::boolean,
     .fallback = "true",
     .help = "MPI calls check their arguments. Handles are checked in any case."},
    {.key = "mpi.check_threads",
     .type = ConfigType::boolean,
     .fallback = "false",
     .help = "An MPI call that the provided thread level does not allow is an error."},
    {.key = "mpi.check_collectives",
     .type = ConfigType::boolean,
     .fallback = "false",
     .help =
         "Each collective, and maker of communicators, first compares what the ranks call: kind, "
         "root, operation, counts (those of MPI_Alltoallv and its like, too), kinds of types. It "
         "tells which rank differs."},
    {.key = "mpi.initial_errhandler",
     .type = ConfigType::choice,
     .fallback = "mpi_errors_are_fatal",
     .choices = "mpi_errors_are_fatal|mpi_errors_abort|mpi_errors_return",
     .help =
         "The error handler of MPI_COMM_WORLD and MPI_COMM_SELF until the program sets another, "
         "and "
         "that of errors before MPI_Init and after MPI_Finalize; as mpiexec -initial-errhandler."},
    {.key = "mpi.report_leaks",
     .type = ConfigType::boolean,
     .fallback = "false",
     .help =
         "MPI_Finalize warns of handles that were not freed and buffers that were not detached, "
         "and tells where they were made; messages that nobody received are told when their "
         "communicator ends; a send that ends at once has a request of its own, so that using "
         "a copy of it is told, too."},
    {.key = "mpi.report_waits",
     .type = ConfigType::nanoseconds,
     .fallback = "0",
     .low = 0,
     .high = int64_t{24} * 3600 * 1000 * 1000 * 1000,
     .help = "After how long without anything coming a rank logs what its receives and collectives "
             "wait "
             "for, and the call of the thread that looks for messages; in place of "
             "comm.report_quiet. 0: "
             "after that, and only where it looks wrong: a message is there with another tag, or a "
             "send "
             "or MPI_Finalize of another rank waits for this one."},
    {.key = "mpi.stats",
     .type = ConfigType::boolean,
     .fallback = "false",
     .help = "MPI_Finalize prints the counters of each rank to standard error."},
    {.key = "mpi.match_times",
     .type = ConfigType::boolean,
     .fallback = "false",
     .help = "The counters have the time spent in matching, and the longest queue of receives: two "
             "looks at the clock for each message."},
    {.key = "mpi.matching",
     .type = ConfigType::choice,
     .fallback = "keyed",
     .choices = "keyed|hash|list|per-source|bins|tail|tail-50|tail-per-source|tail-bins",
     .help = "The matching engine (docs/design/mpi-matching.md); the others are for comparison."},
    {.key = "mpi.matching_lock",
     .type = ConfigType::choice,
     .fallback = "spin",
     .choices = "spin|mcs",
     .help =
         "What the engines but keyed and hash lock with: a spin lock, which whoever runs may "
         "take again, or MCS locks, first come, first served, which threads that share a core hand "
         "to each other at the price of a switch a message."},
    {.key = "mpi.unexpected_per_peer",
     .type = ConfigType::bytes,
     .fallback = "16M",
     .low = 0,
     .high = int64_t{1} << 40,
     .help = "How many bytes of one sender may wait for receives; past it, that sender announces "
             "messages instead of sending them."},
    {.key = "mpi.unexpected",
     .type = ConfigType::bytes,
     .fallback = "64M",
     .low = 0,
     .high = int64_t{1} << 40,
     .help = "How many bytes of all senders may wait for receives; past it, all announce."},
    {.key = "mpi.requests",
     .type = ConfigType::integer,
     .fallback = "262144",
     .low = 64,
     .high = int64_t{1} << 22,
     .help = "Requests that may exist at once in a rank."},
    {.key = "mpi.devices",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|dedicated|round-robin|communicator|hash",
     .help = "How messages get devices: each thread its own, in turn, by communicator, or by "
             "communicator and tag; automatic: by communicator, but each thread its own where the "
             "communicator says that messages may overtake each other."},
    {.key = "mpi.operations",
     .type = ConfigType::integer,
     .fallback = "1048576",
     .low = 0,
     .high = int64_t{1} << 24,
     .help = "Messages that may be under way at once in a rank of an MPI program: more than "
             "mpi.requests, so that no send has to wait for those before it to be received; 0: as "
             "comm.operations says."},
};

// weft-info and MPI_T know the names without a process.
const base::AnnouncedConfig kAnnounced(kKeys);

}  // namespace

void register_mpi_config() {
  static std::once_flag once;
  std::call_once(once, [] {
    base::register_config(kKeys);
    register_collectives_config();
    register_comm_config();
    fabric::register_fabric_config();
    task::register_task_config();
  });
}

MPI_Errhandler initial_errhandler() noexcept {
  try {
    register_mpi_config();
    const std::string name = base::config_text("mpi.initial_errhandler");
    if (name == "mpi_errors_return") return MPI_ERRORS_RETURN;
    if (name == "mpi_errors_abort") return MPI_ERRORS_ABORT;
  } catch (const std::exception&) {
    // MPI_Init tells of it.
  }
  return MPI_ERRORS_ARE_FATAL;
}

Settings read_settings() {
  register_mpi_config();
  const auto bytes = [](std::string_view key) {
    return static_cast<std::size_t>(base::config_int(key));
  };
  return {
      .check_arguments = base::config_bool("mpi.check_arguments"),
      .check_threads = base::config_bool("mpi.check_threads"),
      .check_collectives = base::config_bool("mpi.check_collectives"),
      .report_leaks = base::config_bool("mpi.report_leaks"),
      .report_waits_ns = static_cast<uint64_t>(base::config_int("mpi.report_waits")),
      .stats = base::config_bool("mpi.stats"),
      .match_times = base::config_bool("mpi.match_times"),
      .matching = base::config_text("mpi.matching"),
      .matching_lock =
          base::config_text("mpi.matching_lock") == "mcs" ? MatchingLock::mcs : MatchingLock::spin,
      .unexpected_bytes_per_peer = bytes("mpi.unexpected_per_peer"),
      .unexpected_bytes = bytes("mpi.unexpected"),
      .requests = static_cast<uint32_t>(base::config_int("mpi.requests")),
      .devices = base::config_text("mpi.devices"),
      .operations = static_cast<uint32_t>(base::config_int("mpi.operations")),
      .initial_errhandler = initial_errhandler(),
  };
}

}  // namespace weft::mpi
