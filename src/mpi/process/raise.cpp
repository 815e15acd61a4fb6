// What becomes of a failure: it goes to the error handler of the object that the call named.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include "mpi/comm.hpp"
#include "mpi/comms/session.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/process.hpp"
#include "mpi/process/error_table.hpp"
#include "mpi/process/gate.hpp"
#include "mpi/process/last_failure.hpp"
#include "mpi/process/settings.hpp"

namespace weft::mpi {
namespace {

/// An exit code that says failure, whatever the error code was.
int exit_code_of(int code) noexcept { return (code & 0xff) != 0 ? code & 0xff : 1; }

/// What a failed call named, for who wants to read it: made when it is needed, for there may be no
/// memory.
struct Named {
  Comm* comm = nullptr;
  const char* what = "";  ///< else

  [[nodiscard]] std::string text() const {
    if (comm == nullptr) return what;
    const std::scoped_lock guard(comm->lock);
    return comm->name.empty() ? std::string("a communicator without a name")
                              : fmt::format("communicator {}", comm->name);
  }
};

std::string sentence(const Failure& failure, const char* call, const Named& named) {
  const int code_class = error_class(failure.code());
  const std::string object = named.text();
  return fmt::format("{}{}{} failed: {} ({}): {}", call, object.empty() ? "" : " on ", object,
                     error_name(code_class), error_string(failure.code()), failure.what());
}

/// For who asks MPI_Error_string what the code says.
void note(const Failure& failure, const char* call, const Named& named) noexcept {
  // The program raises again what a call told it.
  if (std::string_view(call).ends_with("_call_errhandler")) return;
  try {
    const std::string object = named.text();
    note_failure(
        failure.code(), failure.handler_code(),
        fmt::format("{}{}{}: {}", call, object.empty() ? "" : " on ", object, failure.what()));
  } catch (const std::exception&) {  // no memory: the class says what it can
  }
}

}  // namespace

void note_without_object(const Failure& failure, const char* call) noexcept {
  note(failure, call, {});
}

namespace {

[[noreturn]] void end_process(const Failure& failure, const char* call, const Named& named) {
  std::fflush(nullptr);
  try {
    fmt::print(stderr, "weft: {}\n", sentence(failure, call, named));
  } catch (const std::exception&) {  // no memory, or nobody who reads
    std::fputs("weft: MPI failed, and there is no room to say how\n", stderr);
  }
  std::_Exit(exit_code_of(failure.code()));
}

/// Ends the job; before and after its time in MPI, a process can only end itself.
[[noreturn]] void end_job(const Failure& failure, const char* call, const Named& named) {
  if (is_active()) {
    std::string why;
    try {
      why = fmt::format("rank {}: {}", runtime().rank().value, sentence(failure, call, named));
    } catch (const std::bad_alloc&) {
      why = "out of memory";
    }
    process().abort(exit_code_of(failure.code()), why);
  }
  end_process(failure, call, named);
}

/// `comm` gets a handle that it may write to; MPI lets it be anything but used afterwards.
int hand_over(const Errhandler& handler, MPI_Comm comm, MPI_Session session, const Failure& failure,
              const char* call, const Named& named) {
  int code = failure.handler_code();
  if (handler.kind != Errhandler::Kind::abort && handler.kind != Errhandler::Kind::fatal)
    note(failure, call, named);
  switch (handler.kind) {
    case Errhandler::Kind::returns:
      break;
    case Errhandler::Kind::comm_function:
      handler.function.comm(&comm, &code, call, failure.what());
      break;
    case Errhandler::Kind::session_function:
      handler.function.session(&session, &code, call, failure.what());
      break;
    case Errhandler::Kind::abort:
      // MPI 9.3: of a session, this process alone.
      if (session != MPI_SESSION_NULL) end_process(failure, call, named);
      end_job(failure, call, named);
    default:
      end_job(failure, call, named);
  }
  return failure.code();
}

Held<Errhandler> handler_of(Comm& comm) {
  const std::scoped_lock guard(comm.lock);
  return comm.errhandler;
}

/// For failures that no communicator is named in: MPI_COMM_SELF (MPI 4.0), or MPI_COMM_WORLD
/// where the program gave only that a handler, as programs for MPI 3.1 and before do.
MPI_Comm default_comm() {
  for (const MPI_Comm handle : {MPI_COMM_SELF, MPI_COMM_WORLD}) {
    Comm* found = comms().find(handle);
    if (found == nullptr) continue;
    const std::scoped_lock guard(found->lock);
    if (found->errhandler_given) return handle;
  }
  return MPI_COMM_SELF;
}

}  // namespace

int raise_on_comm(MPI_Comm handle, const Failure& failure, const char* call) {
  if (!is_active()) {
    if (initial_errhandler() != MPI_ERRORS_RETURN) end_job(failure, call, {});
    note(failure, call, {});
    return failure.code();
  }
  Comm* found = comms().find(handle);
  const bool named = found != nullptr;
  if (!named) {
    handle = default_comm();
    found = comms().find(handle);
  }
  if (found == nullptr) end_job(failure, call, {});
  const Held<Comm> comm(found);
  return hand_over(*handler_of(*comm), handle, MPI_SESSION_NULL, failure, call,
                   named ? Named{.comm = comm.get()} : Named{});
}

int raise_on_comm(Comm& comm, const Failure& failure, const char* call) {
  return hand_over(*handler_of(comm), comm.handle, MPI_SESSION_NULL, failure, call,
                   {.comm = &comm});
}

int raise_by_handler(MPI_Errhandler handle, const Failure& failure, const char* call) {
  Errhandler* found = errhandlers().find(handle);
  if (found == nullptr) return raise_on_comm(MPI_COMM_NULL, failure, call);
  const Held<Errhandler> handler(found);
  // It may be one of another kind than of what the call makes: that is no function to call.
  const bool makes_session = std::string_view(call) == "MPI_Session_init";
  const Errhandler::Kind wanted =
      makes_session ? Errhandler::Kind::session_function : Errhandler::Kind::comm_function;
  if (handler->kind >= Errhandler::Kind::comm_function && handler->kind != wanted)
    return raise_on_comm(MPI_COMM_NULL, failure, call);
  if (makes_session && handler->kind == Errhandler::Kind::abort) end_process(failure, call, {});
  return hand_over(*handler, MPI_COMM_NULL, MPI_SESSION_NULL, failure, call, {});
}

int raise_on_session(MPI_Session handle, const Failure& failure, const char* call) {
  Session* found = is_active() ? sessions().find(handle) : nullptr;
  if (found == nullptr) return raise_on_comm(MPI_COMM_NULL, failure, call);
  const Held<Session> session(found);
  Held<Errhandler> handler;
  {
    const std::scoped_lock guard(session->lock);
    handler = session->errhandler;
  }
  if (!handler) end_job(failure, call, {.what = "a session"});
  return hand_over(*handler, MPI_COMM_NULL, handle, failure, call, {.what = "a session"});
}

}  // namespace weft::mpi
