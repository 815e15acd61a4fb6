list(APPEND WEFT_MPI_SOURCES
  process/caller.cpp process/calls_abi.cpp process/calls_process.cpp process/errhandler_calls.cpp
  process/error_codes.cpp process/failure.cpp process/gate.cpp process/info.cpp
  process/info_env.cpp process/last_failure.cpp process/leaks.cpp process/process.cpp process/raise.cpp process/settings.cpp)
