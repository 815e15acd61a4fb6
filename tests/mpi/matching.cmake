weft_test(mpi_matching_test ROOM mpi SOURCES matching_test.cpp)
# A minute, which the other tests need not wait for: it begins first.
set_tests_properties(mpi.mpi_matching_test PROPERTIES COST 60)

# What is counted: of messages, of matching, of devices.
weft_mpi_test(counters RANKS 1 2 4 SOURCES programs/counters.cpp)
add_test(NAME mpi.counters_lists.2 COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
  $<TARGET_FILE:mpi_program_counters> lists)
set_tests_properties(mpi.counters_lists.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
  ENVIRONMENT "WEFT_MPI_MATCHING=list")
add_test(NAME mpi.counters_timed.2 COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
  $<TARGET_FILE:mpi_program_counters> timed)
set_tests_properties(mpi.counters_timed.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
  ENVIRONMENT "WEFT_MPI_MATCH_TIMES=1;WEFT_COMM_DEVICES=3")
weft_mpi_test(counters_seldom RANKS 2 SOURCES programs/counters_seldom.cpp
  ENV WEFT_COMM_DEVICES=2 WEFT_MPI_DEVICES=hash WEFT_MPI_UNEXPECTED_PER_PEER=4K)

# Promises by info keys, with the engine that relies on them and without.
weft_mpi_test(hints RANKS 1 2 4 SOURCES programs/hints.cpp)
add_test(NAME mpi.hints_hash.2 COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
  $<TARGET_FILE:mpi_program_hints> hash)
set_tests_properties(mpi.hints_hash.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
  ENVIRONMENT WEFT_MPI_MATCHING=hash)
