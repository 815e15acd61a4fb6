list(APPEND WEFT_MPI_SOURCES
  tool/categories.cpp tool/counters.cpp tool/cvars.cpp tool/events.cpp tool/pvars.cpp tool/stats.cpp
  tool/tool.cpp)
