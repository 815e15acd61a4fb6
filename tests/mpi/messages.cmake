weft_mpi_test(flood RANKS 2 SOURCES programs/flood.cpp)
