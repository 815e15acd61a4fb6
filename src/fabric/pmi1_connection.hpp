// The connection to a PMI-1 server: one request at a time, and a barrier beside it.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/pmi1_wire.hpp"

namespace weft::fabric {

/// The socket that a launcher left in PMI_FD.
///
/// Owner and lifetime: the session, until the process ends; the descriptor is closed in what this
/// process executes from now on, which is no rank of this job.
/// Who may call: any thread. A thread that waits for an answer reads for all that wait, so that
/// requests are answered while another thread is in a barrier (a peer may come to its own barrier
/// only after that request). Blocks in the kernel, with no lock held.
/// Invariants: (1) at most one request is unanswered; (2) at most one thread reads, and it
/// waits for a line of its own: no other can have taken what it blocks for; (3) once lost, or out
/// of step, the connection stays so, and every call throws the same sentence.
class Pmi1Connection {
 public:
  /// Throws Error(launcher) if `descriptor` is no open socket.
  explicit Pmi1Connection(int descriptor);

  /// Sends `line` and returns what answers it, which must be the command `answer`. Throws
  /// Error(launcher) if the server is gone or says something else.
  Pmi1Message ask(std::string_view line, std::string_view answer);
  /// Returns when all ranks are in it. One call at a time. Throws Error(launcher).
  void barrier();
  /// Sends what has no answer; what cannot be sent is not.
  void tell(std::string_view line) noexcept;

 private:
  void await_reader() const;
  void send(std::string_view line);
  template <class Over>
  void wait(std::unique_lock<std::mutex>& hold, Over over);
  std::string read_line();
  void deliver(std::string_view line);

  const int descriptor_;
  std::string unread_;  ///< the reading thread's
  std::mutex lock_;     ///< of what follows
  std::condition_variable changed_;
  bool reading_ = false;               ///< a thread is in read_line
  bool asking_ = false;                ///< a request is on its way
  std::optional<Pmi1Message> answer_;  ///< to it
  bool in_barrier_ = false;
  bool barrier_over_ = false;
  std::string lost_;  ///< why nothing works any more
};

}  // namespace weft::fabric
