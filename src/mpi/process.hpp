// This process in MPI: from Init to Finalize, its runtime, its settings.
#pragma once

#include <cstdint>
#include <string>

#include "mpi/abi/mpi.h"
#include "weft/comm/runtime.hpp"

namespace weft::mpi {

enum class MatchingLock : uint8_t;  // matching/channel.hpp

/// The room's configuration, read once (process.cpp, settings.cpp).
struct Settings {
  bool check_arguments = true;
  bool check_threads = false;      ///< calls at a lower thread level than asked are errors
  bool check_collectives = false;  ///< mismatched collectives are told by rank
  bool report_leaks = false;
  uint64_t report_waits_ns = 0;           ///< 0: only what looks wrong, as comm.report_quiet says
  bool stats = false;                     ///< counters at exit; also WEFT_MPI_STATS=1
  bool match_times = false;               ///< matching is timed, queues of receives measured
  std::string matching;                   ///< engine: "keyed" …
  MatchingLock matching_lock;             ///< of the engines that have locks of one's choice
  std::size_t unexpected_bytes_per_peer;  ///< past it, that sender announces instead of sending
  std::size_t unexpected_bytes;           ///< the same, of all senders
  uint32_t requests;                      ///< that may exist at once
  std::string devices;  ///< "automatic", "dedicated", "round-robin", "communicator", "hash"
  uint32_t operations;  ///< of the runtime; 0: comm.operations
  MPI_Errhandler initial_errhandler;  ///< of the predefined communicators
};

/// Owner: one per process, made by the first Init_thread or Session_init, ended by Finalize, a
/// later Session_finalize, or at the program's end. Thread-safe.
class Process {
 public:
  virtual ~Process() = default;
  [[nodiscard]] virtual Runtime& runtime() noexcept = 0;
  [[nodiscard]] virtual const Settings& settings() const noexcept = 0;
  [[nodiscard]] virtual int thread_level() const noexcept = 0;  ///< MPI_THREAD_…, as provided
  /// Ends the job: prints `why`, then exits with `code`.
  [[noreturn]] virtual void abort(int code, const std::string& why) = 0;
};

/// The process, while it is initialized. Set before anything else of MPI is made, and reset after
/// everything else is gone. Undefined before and after: fronts refuse calls then.
[[nodiscard]] Process& process() noexcept;
/// False before initialization and after finalization.
[[nodiscard]] bool is_active() noexcept;
/// Whether the configuration has been read, or may be at any moment: from before a process is made
/// until it is gone, also while it stands by until a session begins anew. Exact under the tool
/// interface's lock.
[[nodiscard]] bool is_configured() noexcept;
/// Which of the processes that were made one after the other it is, from 1.
[[nodiscard]] uint64_t process_number() noexcept;

/// Shorthands.
[[nodiscard]] inline Runtime& runtime() noexcept { return process().runtime(); }
[[nodiscard]] inline const Settings& settings() noexcept { return process().settings(); }

// What init and finalize call, in this order and back; each part in its own folder:
void open_messages();  ///< messages/: engine, endpoint
void close_messages();
void open_datatypes();  ///< types/: predefined datatypes and operations
void close_datatypes();
void open_comms();      ///< comms/: groups, MPI_COMM_WORLD, MPI_COMM_SELF; attributes' key values
void close_comms();     ///< deletes MPI_COMM_SELF's attributes first (MPI 11.2.4)
void open_requests();   ///< requests/
void end_sends();       ///< waits for what was sent without a request, or its request freed
void close_requests();  ///< warns of leaks with `mpi.report_leaks`, as each part does of its own

}  // namespace weft::mpi
