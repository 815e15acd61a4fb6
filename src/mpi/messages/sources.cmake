list(APPEND WEFT_MPI_SOURCES
  messages/arriving.cpp messages/combining.cpp messages/counting.cpp messages/engine.cpp
  messages/flow.cpp
  messages/recalls.cpp messages/sending.cpp messages/waiting.cpp
  messages/what_waits.cpp)
