// Error handlers as programs make, set and free them.
#include <mutex>

#include "mpi/abi/calls.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/session.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/failure.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {
namespace {

using HandlerKind = Errhandler::Kind;

/// Of `handle` and `given` of all error handlers, and of making them visible.
std::mutex& naming() {
  static std::mutex& lock = *new std::mutex;
  return lock;
}

/// The handle of an object, which the program will free once more.
MPI_Errhandler give(Errhandler& handler) {
  if (handler.kind < HandlerKind::comm_function) return handler.handle;
  const std::scoped_lock guard(naming());
  if (handler.given == 0) {
    handler.handle = errhandlers().add(&handler);
    handler.hold();
  }
  ++handler.given;
  return handler.handle;
}

template <class Function>
MPI_Errhandler make(HandlerKind kind, Function function) {
  auto handler = Held<Errhandler>::adopt(new Errhandler);
  handler->kind = kind;
  function(*handler);
  return give(*handler);
}

}  // namespace

HandleTable<Errhandler, MPI_Errhandler>& errhandlers() {
  static HandleTable<Errhandler, MPI_Errhandler>& table = [&]() -> auto& {
    auto& made = *new HandleTable<Errhandler, MPI_Errhandler>;
    const auto define = [&](MPI_Errhandler handle, HandlerKind kind) {
      auto* handler = new Errhandler;
      handler->kind = kind;
      handler->handle = handle;
      made.define(handle, handler);
    };
    define(MPI_ERRORS_ARE_FATAL, HandlerKind::fatal);
    define(MPI_ERRORS_ABORT, HandlerKind::abort);
    define(MPI_ERRORS_RETURN, HandlerKind::returns);
    return made;
  }
  ();
  return table;
}

Errhandler& errhandler(MPI_Errhandler handle) {
  Errhandler* found = errhandlers().find(handle);
  if (found == nullptr)
    fail(MPI_ERR_ERRHANDLER, "not an error handler: null, freed, or never made");
  return *found;
}

Held<Errhandler> usable_errhandler(MPI_Errhandler handle, HandlerKind kind) {
  Errhandler& found = errhandler(handle);
  if (found.kind >= HandlerKind::comm_function && found.kind != kind)
    fail(MPI_ERR_ERRHANDLER, "an error handler of another kind of object");
  return Held<Errhandler>(&found);
}

namespace calls {

void Comm_create_errhandler(MPI_Comm_errhandler_function* comm_errhandler_fn,
                            MPI_Errhandler* errhandler) {
  need(errhandler);
  if (comm_errhandler_fn == nullptr) fail(MPI_ERR_ARG, "no function");
  *errhandler = make(HandlerKind::comm_function,
                     [&](Errhandler& made) { made.function.comm = comm_errhandler_fn; });
}

void Session_create_errhandler(MPI_Session_errhandler_function* session_errhandler_fn,
                               MPI_Errhandler* errhandler) {
  need(errhandler);
  if (session_errhandler_fn == nullptr) fail(MPI_ERR_ARG, "no function");
  *errhandler = make(HandlerKind::session_function,
                     [&](Errhandler& made) { made.function.session = session_errhandler_fn; });
}

void Errhandler_free(MPI_Errhandler* handle) {
  need(handle);
  Errhandler& freed = errhandler(*handle);
  if (freed.kind >= HandlerKind::comm_function) {
    const std::scoped_lock guard(naming());
    if (freed.given > 0 && --freed.given == 0) {
      if (Errhandler* held = errhandlers().remove(*handle)) held->drop();
    }
  }
  *handle = MPI_ERRHANDLER_NULL;
}

void Comm_set_errhandler(MPI_Comm handle, MPI_Errhandler errhandler) {
  Comm& object = comm(handle);
  Held<Errhandler> handler = usable_errhandler(errhandler, HandlerKind::comm_function);
  const std::scoped_lock guard(object.lock);
  std::swap(object.errhandler, handler);
  object.errhandler_given = true;
}

void Comm_get_errhandler(MPI_Comm handle, MPI_Errhandler* errhandler) {
  need(errhandler);
  Comm& object = comm(handle);
  const std::scoped_lock guard(object.lock);
  *errhandler = give(*object.errhandler);
}

void Comm_call_errhandler(MPI_Comm handle, int errorcode) {
  (void)comm(handle);
  raise_on_comm(handle, Failure(errorcode, "by the program's wish"), "MPI_Comm_call_errhandler");
}

void Session_set_errhandler(MPI_Session handle, MPI_Errhandler errhandler) {
  Session& object = session(handle);
  Held<Errhandler> handler = usable_errhandler(errhandler, HandlerKind::session_function);
  const std::scoped_lock guard(object.lock);
  std::swap(object.errhandler, handler);
}

void Session_get_errhandler(MPI_Session handle, MPI_Errhandler* errhandler) {
  need(errhandler);
  Session& object = session(handle);
  const std::scoped_lock guard(object.lock);
  *errhandler = give(*object.errhandler);
}

void Session_call_errhandler(MPI_Session handle, int errorcode) {
  (void)session(handle);
  raise_on_session(handle, Failure(errorcode, "by the program's wish"),
                   "MPI_Session_call_errhandler");
}

}  // namespace calls
}  // namespace weft::mpi
