# The benchmark that weft and its rivals run, each measure for a moment: that it ends, and says more than 0.
weft_mpi_test(compare RANKS 2 4 SOURCES ${PROJECT_SOURCE_DIR}/bench/mpi/compare.cpp
  ARGUMENTS rate --seconds 0.5)
foreach(arguments
    "latency" "latency-iprobe" "rate-iprobe" "rate-improbe" "wildcard" "bandwidth --bytes 1048576" "pingpong-bandwidth --bytes 1048576" "allreduce --calls 100" "pairwise --threads 16"
    "pairwise --threads 64 --bytes 0 --own-comms" "pairwise --threads 16 --overtaking"
    "pairwise --threads 8 --any-tag --window 16"
    "pingpong --threads 16" "rounds --threads 8 --window 10" "allreduce-mt --threads 8" "latency-ssend" "latency-mt --threads 16" "latency-mt --threads 16 --tasks" "pairwise --threads 8 --exact"
    "flood --bytes 1024 --calls 20000" "depth --threads 2 --length 1024"
    "depth --length 64 --unexpected 64" "depth --length 64 --unexpected 64 --cold" "allreduce" "barrier" "bcast --bytes 65536"
    "reduce" "gather" "scatter" "allgather" "alltoall" "reduce-scatter")
  string(REPLACE " " ";" words "${arguments}")
  string(REGEX REPLACE "[ -]+" "_" name "${arguments}")
  add_test(NAME mpi.compare_${name}.2
    COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100 $<TARGET_FILE:mpi_program_compare> ${words}
      --seconds 0.05)
  set_tests_properties(mpi.compare_${name}.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs")
  weft_long_if_sanitized(mpi.compare_${name}.2)
endforeach()

# The program whose start is measured; one that may go on at once.
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/startup/go "")
weft_mpi_test(startup RANKS 1 4 SOURCES ${PROJECT_SOURCE_DIR}/bench/mpi/startup.cpp
  ARGUMENTS ${CMAKE_CURRENT_BINARY_DIR}/startup talk)
