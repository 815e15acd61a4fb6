# Point-to-point and requests.
weft_mpi_test(smoke RANKS 1 2 3 4 SOURCES programs/smoke.cpp)
