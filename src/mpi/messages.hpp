// Point-to-point messages: what requests, blocking calls and collectives post.
//
// Thread-safe throughout. Arguments are not checked here (callers do): ranks are those of the
// communicator's remote group, in range, never MPI_PROC_NULL; counts are not negative. Types and
// communicators must live until the transfer has ended: callers hold them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "mpi/comm.hpp"
#include "mpi/datatype.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/parker.hpp"

namespace weft::mpi {

enum class SendMode : uint8_t {
  standard,
  exchange,  ///< the same, while a message is awaited: its receiver is likely to send, too
  synchronous,
  ready,
};

/// Begins a send; never waits for room (it goes on when there is some). It may have ended already
/// on return. Errors are in `outcome.error`.
void start_send(Transfer& transfer, Comm& comm, Plane plane, int to, int tag, const void* buffer,
                int64_t count, const Datatype& type, SendMode mode = SendMode::standard);
/// Writes down what a receive is; in line, where its caller has most of that in registers.
inline void prepare_recv(Transfer& transfer, Comm& comm, Plane plane, int from, int tag,
                         void* buffer, int64_t count, const Datatype& type) {
  const Rank process = from == MPI_ANY_SOURCE ? kAnySource : comm.process(from);
  transfer.prepare(*comm.channels[static_cast<std::size_t>(plane)], process, tag, buffer, count,
                   type);
  transfer.kind = 0;
  transfer.outcome.source = from;
}
/// Begins one that was written down.
void start_prepared_recv(Transfer& transfer, Comm& comm);
/// Begins a receive. `from` may be MPI_ANY_SOURCE, `tag` MPI_ANY_TAG.
inline void start_recv(Transfer& transfer, Comm& comm, Plane plane, int from, int tag, void* buffer,
                       int64_t count, const Datatype& type) {
  prepare_recv(transfer, comm, plane, from, tag, buffer, count, type);
  start_prepared_recv(transfer, comm);
}
/// The same, of contiguous elements, which are combined with others. `how` must live until it has
/// ended.
inline void start_recv_combining(Transfer& transfer, Comm& comm, Plane plane, int from, int tag,
                                 void* buffer, int64_t count, const Datatype& type,
                                 const Combining& how) {
  prepare_recv(transfer, comm, plane, from, tag, buffer, count, type);
  transfer.kind = Transfer::kCombines;
  transfer.combining = &how;
  start_prepared_recv(transfer, comm);
}

/// Sends what goes at once and needs no Transfer: standard mode, one run of bytes, room now. False:
/// nothing happened.
bool try_send(Comm& comm, Plane plane, int to, int tag, const void* buffer, int64_t count,
              const Datatype& type);

/// Sends one run of bytes to several (Endpoint::kMostShared at most) at once, which is written
/// once, where all of them read it: which of `to` it went to, a bit for each place. The others are
/// the caller's to send to.
uint64_t send_shared(Comm& comm, Plane plane, std::span<const int> to, int tag, const void* buffer,
                     int64_t count, const Datatype& type);

/// A blocking send by a Transfer. Throws Failure.
void send_and_wait(Comm& comm, Plane plane, int to, int tag, const void* buffer, int64_t count,
                   const Datatype& type, SendMode mode);
/// A blocking send in place: returns when the buffer may be used again. No Transfer is made for
/// what goes at once, but in an exchange. Throws Failure.
inline void send_now(Comm& comm, Plane plane, int to, int tag, const void* buffer, int64_t count,
                     const Datatype& type, SendMode mode = SendMode::standard) {
  if (mode == SendMode::synchronous || mode == SendMode::exchange ||
      !try_send(comm, plane, to, tag, buffer, count, type)) [[unlikely]]
    send_and_wait(comm, plane, to, tag, buffer, count, type, mode);
}

/// Takes a posted receive back: true: it ends cancelled. False: it was matched, or has ended.
bool cancel_recv(Transfer& transfer);
/// Takes a send back: it ends cancelled if its receive was not there yet, else as ever: perhaps
/// only when its receiver progresses, who is asked. What has gone eagerly has ended.
void cancel_send(Transfer& transfer);

/// Looks for a message that a receive would get now; does not progress. False: none.
bool probe(Comm& comm, int from, int tag, Outcome& found);

/// Of a message that was looked for and not found. False: it may come. Where its source has died,
/// or, from any source, everybody else has: true if it is there, else throws MPI_ERR_PROC_ABORTED.
bool is_there_after_death(Comm& comm, int from, int tag, Outcome& found);

/// A message taken out of matching (MPI_Mprobe). Ends in start_recv_extracted or discard.
struct Extracted;
/// As probe, and takes it out: its record, or nullptr.
Extracted* extract(Comm& comm, int from, int tag, Outcome& found);
void start_recv_extracted(Transfer& transfer, Extracted& message, void* buffer, int64_t count,
                          const Datatype& type);
/// At the end of the process, when nobody waits for its being received.
void discard(Extracted& message) noexcept;

/// Serves what waits. Returns how much.
uint32_t progress();
/// Until nothing more waits: for who is about to tell what nobody received.
void serve_what_came();
/// As progress, in a call that only looks (MPI_Test, MPI_Iprobe): who does so time after time in
/// vain gives its core away.
uint32_t progress_for_asker();
/// The caller, if it is a task that may park while others progress.
[[nodiscard]] base::Parker* parking_task() noexcept;
void wait_in_thread(Transfer& transfer);
/// Returns when it has ended. Blocks the thread, or suspends the task: that in the caller's own
/// frame, so that a waiting task's stack has no more of them than it needs.
inline void wait(Transfer& transfer) {
  if (transfer.ended()) return;
  if (base::Parker* const task = parking_task(); task != nullptr) {
    if (transfer.set_parker(*task)) {
      do task->park();
      while (!transfer.ended());
    }
  } else {
    wait_in_thread(transfer);
  }
}
/// Returns when all have ended (one counter preset to their number, 000 §2.2).
void wait_all(std::span<Transfer* const> transfers);
/// Returns when at least one has ended. False: at once, none has, but one is there twice, or is
/// waited for elsewhere.
[[nodiscard]] bool wait_any(std::span<Transfer* const> transfers);
/// Returns when a message that `probe` would find may have come, or something else has (callers
/// look again): one round of waiting for arrivals at this communicator.
void wait_for_arrival(Comm& comm, int from, int tag, Outcome& found);

/// Opens both planes of a new communicator, whose context is agreed upon; closes them. Messages
/// that come earlier wait; those never received are dropped when it closes.
void open_channels(Comm& comm);
void close_channels(Comm& comm) noexcept;
/// `comm.name` has changed (its lock).
void name_channels(const Comm& comm);
/// What the receives and collectives of this process wait for, and the call that the calling thread
/// is in, for RuntimeOptions::what_waits. `all`: also where nothing looks wrong.
[[nodiscard]] std::string what_waits(bool all);
/// Whether other threads are in blocking calls, of whatever communicator.
[[nodiscard]] bool any_blocking_call();
/// `comm.hints` has changed.
void hints_changed(Comm& comm);

/// Why a transfer to or from `process` (kAnySource: nobody knows) failed with this class.
[[nodiscard]] std::string why_failed(int error, Rank process);
/// Whether any of those who may send on it has died.
[[nodiscard]] bool has_dead_member(const Comm& comm);

}  // namespace weft::mpi
