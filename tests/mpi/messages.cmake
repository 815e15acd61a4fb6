weft_mpi_test(flood RANKS 2 SOURCES programs/flood.cpp)

weft_mpi_test(p2p_out_of_records RANKS 2 SOURCES programs/p2p_out_of_records.cpp
  ENV WEFT_MPI_OPERATIONS=64)

# Short ones that are matched together, by each kind of engine.
weft_mpi_test(p2p_runs RANKS 2 SOURCES programs/p2p_runs.cpp ENV WEFT_MPI_REQUESTS=64)
if(NOT WEFT_SANITIZE)
  foreach(engine list tail)
    add_test(NAME mpi.p2p_runs_by_${engine}.2 COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
      $<TARGET_FILE:mpi_program_p2p_runs>)
    set_tests_properties(mpi.p2p_runs_by_${engine}.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
      ENVIRONMENT "WEFT_MPI_MATCHING=${engine};WEFT_MPI_REQUESTS=64")
  endforeach()
endif()

# Over one device, over two whose messages race, with little room for what comes early, and where what did not come
# along must be asked for.
weft_mpi_test(p2p_synchronous RANKS 2 SOURCES programs/p2p_synchronous.cpp)
weft_mpi_test(p2p_synchronous_racing RANKS 2 PROGRAM p2p_synchronous
  ENV WEFT_COMM_DEVICES=2 WEFT_MPI_DEVICES=hash WEFT_MPI_UNEXPECTED_PER_PEER=4K)
weft_mpi_test(p2p_synchronous_asked RANKS 2 PROGRAM p2p_synchronous ENV WEFT_FABRIC_CMA=off)

# Of sizes that go in one packet, in several or announced; and however they are lent.
weft_mpi_test(p2p_wide RANKS 2 SOURCES programs/p2p_wide.cpp)
set(ways WEFT_COMM_OPEN_PACKETS=always)
if(NOT WEFT_SANITIZE)
  list(APPEND ways WEFT_COMM_OPEN_PACKETS=never WEFT_FABRIC_CMA=off WEFT_COMM_DEVICES=2
    WEFT_MPI_MATCHING=tail)
endif()
foreach(way IN LISTS ways)
  string(REGEX REPLACE "^WEFT_[A-Z]+_(.*)=(.*)$" "\\1_\\2" test ${way})
  string(TOLOWER mpi.p2p_wide_with_${test}.2 test)
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
    $<TARGET_FILE:mpi_program_p2p_wide>)
  set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs" ENVIRONMENT "${way}")
endforeach()

# Lanes and packets so few that most sends are refused at first.
weft_mpi_program(p2p_backlog programs/p2p_backlog.cpp)
weft_left_out_of_tsan(mpi_program_p2p_backlog)
foreach(devices "1" "4" "4;WEFT_MPI_DEVICES=dedicated")
  string(MAKE_C_IDENTIFIER "mpi.p2p_backlog_over_${devices}" test)
  string(REPLACE "mpi_p2p" "mpi.p2p" test ${test}.2)
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
    $<TARGET_FILE:mpi_program_p2p_backlog>)
  set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
    ENVIRONMENT "WEFT_FABRIC_LANE_CELLS=16;WEFT_FABRIC_PACKETS=64;WEFT_COMM_DEVICES=${devices};WEFT_MPI_STATS=1"
    # Instead of its exit code: that it went well, and that most were refused.
    PASS_REGULAR_EXPRESSION "rank 0: stalls = [0-9][0-9][0-9][0-9]"
    FAIL_REGULAR_EXPRESSION "failed: ;${WEFT_SURVIVOR_FAILS};aborted")
endforeach()

# A rank dies while another has this or that under way with it.
weft_mpi_program(p2p_deaths programs/p2p_deaths.cpp)
weft_left_out_of_tsan(mpi_program_p2p_deaths)
foreach(moment RANGE 12)
  # By tag over four devices, too, of which each has its part of what the dead had sent.
  set(ranks 3)
  if(moment EQUAL 12)
    set(ranks 4)
  endif()
  set(numbers 1)
  if(NOT WEFT_SANITIZE OR moment EQUAL 11)
    list(APPEND numbers 4)
  endif()
  foreach(devices ${numbers})
    set(test mpi.p2p_deaths.${moment}_over_${devices})
    add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --on-failure continue -n ${ranks} --timeout 60
      $<TARGET_FILE:mpi_program_p2p_deaths> ${moment})
    # Its exit status is that of the rank that was killed.
    set_tests_properties(${test} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
      ENVIRONMENT "WEFT_COMM_DEVICES=${devices};WEFT_MPI_DEVICES=hash"
      PASS_REGULAR_EXPRESSION "the living went on" FAIL_REGULAR_EXPRESSION "failed: ;${WEFT_SURVIVOR_FAILS}")
  endforeach()
endforeach()

# The same messages over several devices, chosen in each way, and matched by each engine.
if(NOT WEFT_SANITIZE)
  foreach(devices automatic dedicated round-robin communicator hash)
    foreach(program p2p_order p2p_model p2p_probe collectives_many)
      set(test mpi.${program}_over_${devices}.2)
      add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
        $<TARGET_FILE:mpi_program_${program}>)
      set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
        ENVIRONMENT "WEFT_COMM_DEVICES=4;WEFT_MPI_DEVICES=${devices}")
    endforeach()
  endforeach()
  # Each rank with another number of them, as where hosts or shares of cores are unlike.
  foreach(program p2p_order p2p_model p2p_probe collectives_many)
    set(test mpi.${program}_over_unlike_devices.3)
    add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --timeout 100
      -n 1 --env WEFT_COMM_DEVICES=1 $<TARGET_FILE:mpi_program_${program}> :
      -n 1 --env WEFT_COMM_DEVICES=2 $<TARGET_FILE:mpi_program_${program}> :
      -n 1 --env WEFT_COMM_DEVICES=3 $<TARGET_FILE:mpi_program_${program}>)
    set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs")
  endforeach()
  # The 64 threads of each rank over two devices, wildcards posted and withdrawn.
  add_test(NAME mpi.p2p_order_64_over_two_devices.2 COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
    $<TARGET_FILE:mpi_program_p2p_order> 64)
  set_tests_properties(mpi.p2p_order_64_over_two_devices.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
    ENVIRONMENT "WEFT_COMM_DEVICES=2;WEFT_MPI_DEVICES=dedicated")
  foreach(engine hash list per-source bins tail tail-50 tail-per-source tail-bins)
    set(devices 1)
    foreach(program p2p_order p2p_model p2p_recalls p2p_probe)
      set(test mpi.${program}_by_${engine}.2)
      add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100
        $<TARGET_FILE:mpi_program_${program}>)
      set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
        ENVIRONMENT "WEFT_MPI_MATCHING=${engine};WEFT_COMM_DEVICES=${devices}")
      set(devices 2)
    endforeach()
  endforeach()
endif()
