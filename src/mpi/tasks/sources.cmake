list(APPEND WEFT_MPI_SOURCES tasks/tasks.cpp)
