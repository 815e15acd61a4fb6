// What the fronts of MPI functions do when something is wrong.
#include "mpi/abi/front.hpp"

#include <fmt/format.h>

#include <string_view>

#include "mpi/comm.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/failure.hpp"
#include "mpi/process/caught.hpp"

namespace weft::mpi::front {
namespace {

int raise_failure(MPI_Comm comm, const Failure& failure, const char* call) {
  // Whatever the call named: that handle may have been freed meanwhile.
  if (failure.comm() != nullptr)
    return raise_on_comm(static_cast<Comm&>(*failure.comm()), failure, call);
  return raise_on_comm(comm, failure, call);
}
int raise_failure(MPI_Session session, const Failure& failure, const char* call) {
  return raise_on_session(session, failure, call);
}
int raise_failure(MPI_Errhandler handler, const Failure& failure, const char* call) {
  return raise_by_handler(handler, failure, call);
}
int raise_failure(Nobody /*nobody*/, const Failure& failure, const char* call) {
  const int code = failure.code();
  // MPI 15.3.10: the tool interface has codes of its own.
  const bool of_tool = std::string_view(call).starts_with("MPI_T_");
  if (!of_tool) note_without_object(failure, call);
  if (!of_tool || code >= MPI_T_ERR_CANNOT_INIT) return code;
  if (code == MPI_ERR_NO_MEM) return MPI_T_ERR_MEMORY;
  if (code == MPI_ERR_UNSUPPORTED_OPERATION) return MPI_T_ERR_NOT_SUPPORTED;
  return std::string_view(call) == "MPI_T_init_thread" ? MPI_T_ERR_CANNOT_INIT : MPI_T_ERR_INVALID;
}

template <class Object>
int raise_caught(Object object, const char* call) {
  return with_caught([&](const Failure& failure) { return raise_failure(object, failure, call); });
}

Failure not_supported(const char* call) {
  return {MPI_ERR_UNSUPPORTED_OPERATION,
          fmt::format("{} is not there yet; docs/mpi-coverage.md tells what is", call)};
}

Failure not_up() {
  const bool before = g_gate.load(std::memory_order_relaxed) == Gate::before;
  return {MPI_ERR_OTHER,
          before ? "called before MPI was initialized" : "called after MPI was finalized"};
}

template <class Object>
int try_to_enter(Object object, const char* call) {
  try {
    enter_checked();
  } catch (const Failure& failure) {
    return raise_failure(object, failure, call);
  }
  return MPI_SUCCESS;
}

}  // namespace

int raise(MPI_Comm comm, const char* call) { return raise_caught(comm, call); }
int raise(MPI_Session session, const char* call) { return raise_caught(session, call); }
int raise(MPI_Errhandler handler, const char* call) { return raise_caught(handler, call); }
int raise(Nobody nobody, const char* call) { return raise_caught(nobody, call); }

int unsupported(MPI_Comm comm, const char* call) {
  return raise_failure(comm, not_supported(call), call);
}
int unsupported(MPI_Session session, const char* call) {
  return raise_failure(session, not_supported(call), call);
}
int unsupported(Nobody nobody, const char* call) {
  return raise_failure(nobody, not_supported(call), call);
}

int closed(MPI_Comm comm, const char* call) { return raise_failure(comm, not_up(), call); }
int closed(MPI_Session session, const char* call) { return raise_failure(session, not_up(), call); }
int closed(MPI_Errhandler handler, const char* call) {
  return raise_failure(handler, not_up(), call);
}

int enter(MPI_Comm comm, const char* call) { return try_to_enter(comm, call); }
int enter(MPI_Session session, const char* call) { return try_to_enter(session, call); }
int enter(MPI_Errhandler handler, const char* call) { return try_to_enter(handler, call); }

}  // namespace weft::mpi::front
