weft_test(mpi_matching_test ROOM mpi SOURCES matching_test.cpp)
