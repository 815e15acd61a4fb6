weft_mpi_test(tasks RANKS 1 2 4 SOURCES programs/tasks.cpp)
