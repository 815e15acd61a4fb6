weft_mpi_test(comms RANKS 1 2 3 4 SOURCES programs/comms.cpp)
weft_mpi_test(comms_errors RANKS 1 2 4 SOURCES programs/comms_errors.cpp)
weft_mpi_test(comms_threads RANKS 1 2 4 SOURCES programs/comms_threads.cpp)
weft_mpi_test(comms_many RANKS 1 2 4 SOURCES programs/comms_many.cpp)
weft_mpi_test(groups RANKS 1 2 4 SOURCES programs/groups.cpp)
weft_mpi_test(intercomms RANKS 2 3 4 SOURCES programs/intercomms.cpp)
weft_mpi_test(sessions RANKS 1 2 4 SOURCES programs/sessions.cpp)
# Ranks of which each does something else with sessions.
weft_mpi_program(sessions_apart programs/sessions_apart.cpp)
weft_left_out_of_tsan(mpi_program_sessions_apart)
foreach(whats "before_init world" "once again" "static once" "after_again after_once")
  separate_arguments(whats)
  list(GET whats 0 one)
  list(GET whats 1 other)
  add_test(NAME mpi.sessions_apart.${one} COMMAND $<TARGET_FILE:weftrun> --timeout 100
    -n 1 $<TARGET_FILE:mpi_program_sessions_apart> ${one} :
    -n 1 $<TARGET_FILE:mpi_program_sessions_apart> ${other})
  set_tests_properties(mpi.sessions_apart.${one} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs")
endforeach()
weft_mpi_test(topologies RANKS 1 2 4 6 SOURCES programs/topologies.cpp)
weft_mpi_test(attributes RANKS 1 2 SOURCES programs/attributes.cpp)

# A rank dies while others begin, make communicators, or end.
weft_mpi_program(comms_deaths programs/comms_deaths.cpp)
weft_left_out_of_tsan(mpi_program_comms_deaths)
set(moments init dup idup split create group session graph inter wrong finalize sides
  sides_leader sides_checked split_some graph_some graph_bruck)
if(WEFT_SANITIZE)
  set(moments init split finalize)
endif()
foreach(when IN LISTS moments)
  set(survived "the living went on")
  if(when STREQUAL init)
    set(survived "MPI_Init failed: MPI_ERR_PROC_ABORTED .*rank 3 ")
  endif()
  set(how ${when})
  set(checks false)
  if(when STREQUAL sides_checked)
    set(how sides)
    set(checks true)
  endif()
  set(alltoall automatic)
  if(when STREQUAL graph_bruck)
    set(how graph)
    set(alltoall bruck)
  endif()
  set(test mpi.comms_deaths.${when})
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --on-failure continue -n 4 --timeout 60
    $<TARGET_FILE:mpi_program_comms_deaths> ${how})
  # Its exit status is that of the rank that was killed.
  set_tests_properties(${test} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
    ENVIRONMENT "WEFT_MPI_CHECK_COLLECTIVES=${checks};WEFT_MPI_ALLTOALL=${alltoall}"
    PASS_REGULAR_EXPRESSION "${survived}" FAIL_REGULAR_EXPRESSION "check failed: ;${WEFT_SURVIVOR_FAILS}")
endforeach()
