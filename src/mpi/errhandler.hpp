// Error handlers: what happens with a Failure, by the object that the call named.
#pragma once

#include <cstdint>
#include <string>

#include "mpi/abi/mpi.h"
#include "mpi/failure.hpp"
#include "mpi/handle.hpp"

namespace weft::mpi {

class Comm;

/// What a program registered, or one of the predefined ones.
class Errhandler final : public Counted {
 public:
  enum class Kind : uint8_t {
    fatal,
    abort,
    returns,
    comm_function,
    win_function,
    file_function,
    session_function
  };
  Kind kind = Kind::fatal;
  union {
    MPI_Comm_errhandler_function* comm = nullptr;
    MPI_Win_errhandler_function* win;
    MPI_File_errhandler_function* file;
    MPI_Session_errhandler_function* session;
  } function;
  /// The handle by which the program knows it, and how often it was given that (each is freed
  /// once); under the lock of errhandler_calls.cpp.
  MPI_Errhandler handle = MPI_ERRHANDLER_NULL;
  unsigned given = 0;
};

HandleTable<Errhandler, MPI_Errhandler>& errhandlers();
/// The object of a handle; throws MPI_ERR_ARG (MPI_ERR_ERRHANDLER where the ABI has it).
Errhandler& errhandler(MPI_Errhandler handle);
/// One that may be set on an object whose own functions are of `kind`; throws MPI_ERR_ERRHANDLER.
Held<Errhandler> usable_errhandler(MPI_Errhandler handle, Errhandler::Kind kind);

/// Hands a failure to the error handler of `comm` (MPI_COMM_NULL or bad: that of MPI_COMM_SELF, or
/// of MPI_COMM_WORLD if the program set only that; before init and after finalize: the initial one)
/// and answers what the call returns: the code, if the handler returns at all. `call`: the name of
/// the MPI function, for the message.
int raise_on_comm(MPI_Comm comm, const Failure& failure, const char* call);
/// The same of one that may have been freed: the handler is given the handle that it had.
int raise_on_comm(Comm& comm, const Failure& failure, const char* call);
int raise_on_session(MPI_Session session, const Failure& failure, const char* call);
/// One of no object's: for MPI_Error_string alone; the call returns the code.
void note_without_object(const Failure& failure, const char* call) noexcept;
/// To a handler that the call was given for what it makes.
int raise_by_handler(MPI_Errhandler handle, const Failure& failure, const char* call);

/// The class of a code; the text of a code (both know added ones).
int error_class(int code);
std::string error_string(int code);
/// The highest error code that there is, added ones included (MPI_LASTUSEDCODE).
int last_used_code() noexcept;

}  // namespace weft::mpi
