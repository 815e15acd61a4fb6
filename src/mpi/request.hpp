// Requests: what MPI_Request names, whatever is under way behind it.
#pragma once

#include <atomic>
#include <cstdint>

#include "mpi/abi/mpi.h"
#include "mpi/comm.hpp"
#include "mpi/datatype.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::mpi {

struct Request;

/// What differs between kinds of requests beside point-to-point. One object per request, ended with
/// it. All calls by one thread at a time (MPI's rule for a request).
class RequestWork {
 public:
  virtual ~RequestWork() = default;
  /// Persistent kinds: begins again. `request.transfer` is pending on return, or has ended.
  virtual void start(Request& request) { (void)request; }
  /// MPI_Cancel.
  virtual void cancel(Request& request) { (void)request; }
  /// Called when a wait or test is about to report the end: may fill `request.transfer.outcome`
  /// (generalized requests: the query function) and throw Failure.
  virtual void before_report(Request& request) { (void)request; }
  /// Called when the request is about to go, its end reported: may throw Failure (generalized
  /// requests: the free function).
  virtual void before_retire(Request& request) { (void)request; }
  /// MPI_Request_free was called while active: the end will not be reported. True: the work ends
  /// the request itself, when it is over, by `retire`.
  virtual bool detach(Request& request) {
    (void)request;
    return false;
  }
  /// Of a freed request, at the end of a session or the process: returns when what it sends has
  /// gone, and with `receives` has taken back what it receives, or waited for that. True: so it
  /// did, and the request ends of itself if it is over; else it is as if it were one transfer.
  virtual bool wind_up(bool receives) {
    (void)receives;
    return false;
  }
};

/// A request record, from a pool; its handle names its place and use.
///
/// `transfer.state` is what all waits look at, whatever the kind: a nonblocking collective ends
/// `transfer` when its schedule is over.
struct alignas(base::kCacheLine) Request {
  Transfer transfer;
  RequestWork* work = nullptr;  ///< owned; nullptr: a plain send or receive
  Held<Comm> comm;              ///< of which it is; errors go to its handler
  Held<Datatype> type;          ///< of transfer.type, if not predefined
  /// In place of `comm`, for point-to-point: no count is kept, MPI_Comm_free looks for it here
  /// (drop_when_unused).
  std::atomic<Comm*> borrowed{nullptr};
  bool persistent = false;  ///< else it is active from its making to its end
  bool active = false;      ///< persistent: started, and the end not yet reported
  bool receives = false;    ///< point-to-point
  bool constant = false;    ///< shared by all who ask for something that has ended already
  uint32_t generation = 0;  ///< odd: it has a handle

  /// The communicator that it concerns, or nullptr.
  [[nodiscard]] Comm* of() const noexcept {
    // relaxed: written by the thread whose request it is.
    return comm ? comm.get() : borrowed.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool inactive() const noexcept { return persistent && !active; }
};

/// A fresh, inactive request; throws MPI_ERR_OTHER if there are `mpi.requests` already.
Request& make_request();
/// Its handle.
MPI_Request handle_of(const Request& request) noexcept;
/// The request of a handle; throws MPI_ERR_REQUEST for a bad one (MPI_REQUEST_NULL included).
Request& request(MPI_Request handle);
/// Returns an inactive request to the pool: work, comm and type are let go.
void retire(Request& request) noexcept;
/// The same, once it has ended: nobody will ask for its end.
void retire_when_ended(Request& request) noexcept;

/// Returns when nothing is under way on it, whether its request was freed or not: sends, receives,
/// buffered sends, nonblocking collectives, blocking calls of other threads. Nobody begins others
/// meanwhile. False: some are, but a member has died, so that they may never end.
[[nodiscard]] bool wait_for_operations(const Comm& comm);

/// Takes over the hold that the handle of a communicator had (MPI_Comm_free): drops it now, or, if
/// requests or blocking calls still need the communicator, with the next one that is freed once
/// they are gone, or at the end. Its buffer for buffered sends is detached.
void drop_when_unused(Comm* comm);

}  // namespace weft::mpi
