list(APPEND WEFT_MPI_SOURCES
  requests/arguments.cpp requests/arrays.cpp requests/blocking.cpp requests/buffered.cpp
  requests/ends.cpp requests/generalized.cpp requests/handling.cpp requests/nonblocking.cpp
  requests/pairs.cpp requests/persistent.cpp requests/pool.cpp requests/probes.cpp
  requests/send_buffer.cpp requests/statuses.cpp requests/tests.cpp requests/waits.cpp)
