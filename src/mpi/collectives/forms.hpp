// The three forms of each collective, from one function that checks its arguments.
#pragma once

#include "mpi/collectives/arguments.hpp"
#include "mpi/comm.hpp"

#define WEFT_MPI_UNPACK(...) __VA_ARGS__

// Defines Name, Iname and Name_init by `check_Name`, which has the same parameters and returns
// Call.
#define WEFT_MPI_FORMS(Name, Iname, PARAMETERS, ARGUMENTS)                            \
  void Name(WEFT_MPI_UNPACK PARAMETERS) { run_now(check_##Name ARGUMENTS); }          \
  void Iname(WEFT_MPI_UNPACK PARAMETERS, MPI_Request* request) {                      \
    start(check_##Name ARGUMENTS, request);                                           \
  }                                                                                   \
  void Name##_init(WEFT_MPI_UNPACK PARAMETERS, MPI_Info info, MPI_Request* request) { \
    make_persistent(check_##Name ARGUMENTS, info, request);                           \
  }
