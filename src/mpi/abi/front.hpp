// What the fronts of MPI functions share: the gate, and what becomes of exceptions.
//
// A front costs one load and a branch when all is well; the rest is out of line.
#pragma once

#include <climits>
#include <cstdint>

#include "mpi/abi/mpi.h"
#include "mpi/process/gate.hpp"

#define WEFT_MPI_EXPORT __attribute__((visibility("default")))

namespace weft::mpi::front {

/// In place of an object: its failures are just returned.
struct Nobody {};

/// In a catch block: hands the exception to the object's error handler; what the call returns.
int raise(MPI_Comm comm, const char* call);
int raise(MPI_Session session, const char* call);
int raise(MPI_Errhandler handler, const char* call);
int raise(Nobody nobody, const char* call);

int unsupported(MPI_Comm comm, const char* call);
int unsupported(MPI_Session session, const char* call);
int unsupported(Nobody nobody, const char* call);

/// MPI is not up: tells so, and what the call returns.
int closed(MPI_Comm comm, const char* call);
int closed(MPI_Session session, const char* call);
int closed(MPI_Errhandler handler, const char* call);

/// `mpi.check_threads`: the call may begin, or not: its error code. Each good one is left again.
int enter(MPI_Comm comm, const char* call);
int enter(MPI_Session session, const char* call);
int enter(MPI_Errhandler handler, const char* call);

[[gnu::always_inline]] inline bool not_open() noexcept {
  return g_gate.load(std::memory_order_relaxed) != Gate::open;
}

/// Runs the call, whose server is `server`.
template <class Object, class Server>
[[gnu::always_inline]] inline int serve(Object object, const char* call, Server server) {
  try {
    server();
  } catch (...) {
    return raise(object, call);
  }
  return MPI_SUCCESS;
}

/// The same where the gate is not simply open.
template <class Object, class Server>
int serve_checked(Object object, const char* call, Server server) {
  if (g_gate.load(std::memory_order_relaxed) != Gate::checked) return closed(object, call);
  if (const int code = enter(object, call); code != MPI_SUCCESS) return code;
  const int code = serve(object, call, server);
  leave_checked();
  return code;
}

template <class Handle>
Handle pointed(Handle* handle) noexcept {
  return handle != nullptr ? *handle : Handle{};
}

inline MPI_Count widen(const int* value) noexcept { return value != nullptr ? *value : 0; }
/// MPI_UNDEFINED stands for what an int cannot hold (MPI 3.2.5, 5.1.5).
inline void narrow(MPI_Count value, int* out) noexcept {
  if (out != nullptr)
    *out = value >= INT_MIN && value <= INT_MAX ? static_cast<int>(value) : MPI_UNDEFINED;
}

}  // namespace weft::mpi::front
