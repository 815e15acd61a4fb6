weft_mpi_test(collectives_moving RANKS 1 2 3 4 5 SOURCES programs/collectives_moving.cpp)
weft_mpi_test(collectives_reducing RANKS 1 2 3 4 5 SOURCES programs/collectives_reducing.cpp)
weft_mpi_test(collectives_inter RANKS 1 2 3 4 5 SOURCES programs/collectives_inter.cpp)
weft_mpi_test(collectives_neighbours RANKS 1 2 3 4 5 SOURCES programs/collectives_neighbours.cpp)
weft_mpi_test(collectives_many RANKS 1 2 3 5 SOURCES programs/collectives_many.cpp)
weft_mpi_test(collectives_errors RANKS 1 2 3 SOURCES programs/collectives_errors.cpp)
weft_mpi_test(collectives_board RANKS 2 3 5 SOURCES programs/collectives_board.cpp
  ARGUMENTS one_node)
if(NOT WEFT_SANITIZE)
  # More than exchange: they arrive, and the first releases them.
  weft_mpi_test(collectives_board_of_many PROGRAM collectives_board RANKS 17)
endif()
weft_mpi_test(collectives_at_once RANKS 2 3 SOURCES programs/collectives_at_once.cpp)
weft_mpi_test(collectives_mismatch RANKS 2 3 4 SOURCES programs/collectives_mismatch.cpp
  ENV WEFT_MPI_CHECK_COLLECTIVES=true)

# weft_collectives_by(<name> PROGRAM <program> RANKS <n> [NODES <n>] [ENV <K=V> ...]): the same programs
# with algorithms chosen by configuration, or on several pretended nodes.
# The release build alone: sanitizers have seen the algorithms by then.
function(weft_collectives_by name)
  if(WEFT_SANITIZE)
    return()
  endif()
  cmake_parse_arguments(ARG "" "PROGRAM;RANKS;NODES" "ENV" ${ARGN})
  if(ARG_NODES)
    set(nodes --fake-nodes ${ARG_NODES})
  endif()
  set(test mpi.${ARG_PROGRAM}_by_${name}.${ARG_RANKS})
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> ${nodes} -n ${ARG_RANKS} --timeout 100
    $<TARGET_FILE:mpi_program_${ARG_PROGRAM}>)
  set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi" ENVIRONMENT "${ARG_ENV}")
endfunction()

weft_collectives_by(nodes PROGRAM comms RANKS 4 NODES 2)
weft_collectives_by(nodes PROGRAM intercomms RANKS 6 NODES 3)
weft_collectives_by(bruck PROGRAM topologies RANKS 5 ENV WEFT_MPI_ALLTOALL=bruck)
weft_collectives_by(trees PROGRAM collectives_moving RANKS 5
  ENV WEFT_MPI_BCAST=binomial WEFT_MPI_GATHER=binomial WEFT_MPI_ALLGATHER=bruck
      WEFT_MPI_ALLTOALL=bruck)
weft_collectives_by(parts PROGRAM collectives_moving RANKS 5
  ENV WEFT_MPI_BCAST=scatter_allgather WEFT_MPI_GATHER=linear WEFT_MPI_ALLGATHER=ring
      WEFT_MPI_ALLTOALL=pairwise)
weft_collectives_by(segments PROGRAM collectives_moving RANKS 4
  ENV WEFT_MPI_BCAST=chain WEFT_MPI_SEGMENT_BYTES=4K WEFT_MPI_ALLTOALL=linear
      WEFT_MPI_ALLGATHER=linear)
weft_collectives_by(straight PROGRAM collectives_moving RANKS 10 ENV WEFT_MPI_BCAST=linear)
weft_collectives_by(straight PROGRAM collectives_reducing RANKS 10 ENV WEFT_MPI_REDUCE=linear)
weft_collectives_by(doubling PROGRAM collectives_reducing RANKS 5
  ENV WEFT_MPI_ALLREDUCE=recursive_doubling WEFT_MPI_REDUCE=binomial
      WEFT_MPI_REDUCE_SCATTER=reduce_then_scatter)
weft_collectives_by(halving PROGRAM collectives_reducing RANKS 5
  ENV WEFT_MPI_ALLREDUCE=rabenseifner WEFT_MPI_REDUCE=rabenseifner
      WEFT_MPI_REDUCE_SCATTER=pairwise)
weft_collectives_by(pairs PROGRAM collectives_reducing RANKS 5
  ENV WEFT_MPI_ALLREDUCE=pairwise WEFT_MPI_REDUCE=pairwise)
# Where nothing goes ahead by itself, and where there is little room.
weft_collectives_by(announced PROGRAM collectives_reducing RANKS 19 
  ENV WEFT_COMM_EAGER_BYTES=1K WEFT_COMM_OPEN_PACKETS=never)
weft_collectives_by(unread PROGRAM collectives_moving RANKS 4 ENV WEFT_FABRIC_CMA=off)
weft_collectives_by(few_packets PROGRAM collectives_moving RANKS 4 ENV WEFT_FABRIC_PACKETS=16)
weft_collectives_by(rings PROGRAM collectives_reducing RANKS 4 ENV WEFT_MPI_ALLREDUCE=ring)
weft_collectives_by(nodes PROGRAM collectives_moving RANKS 5 NODES 2)
weft_collectives_by(nodes PROGRAM collectives_reducing RANKS 7 NODES 3)
weft_collectives_by(few_nodes PROGRAM collectives_reducing RANKS 9 NODES 4)
weft_collectives_by(many_nodes PROGRAM collectives_reducing RANKS 10 NODES 5)
weft_collectives_by(nodes PROGRAM collectives_inter RANKS 6 NODES 2)
weft_collectives_by(nodes PROGRAM collectives_board RANKS 7 NODES 2)
weft_collectives_by(messages PROGRAM collectives_board RANKS 4 ENV WEFT_MPI_NODE_BOARD=false)
# As where no two ranks share a core.
weft_collectives_by(cores PROGRAM collectives_moving RANKS 5 ENV "WEFT_BASE_TOPOLOGY=core:16 pu:1")
weft_collectives_by(cores PROGRAM collectives_reducing RANKS 5 ENV "WEFT_BASE_TOPOLOGY=core:16 pu:1")
weft_collectives_by(past_caches PROGRAM collectives_reducing RANKS 3 ENV WEFT_COMM_NONTEMPORAL=always)
weft_collectives_by(turns PROGRAM collectives_moving RANKS 5 ENV "WEFT_BASE_TOPOLOGY=core:2 pu:1")
weft_collectives_by(turns PROGRAM collectives_reducing RANKS 6
  ENV "WEFT_BASE_TOPOLOGY=core:4 pu:1" WEFT_MPI_NODE_BOARD=false)
weft_collectives_by(checked PROGRAM collectives_moving RANKS 3 ENV WEFT_MPI_CHECK_COLLECTIVES=true)
weft_collectives_by(checked PROGRAM collectives_inter RANKS 5 ENV WEFT_MPI_CHECK_COLLECTIVES=true)
weft_collectives_by(checked PROGRAM collectives_many RANKS 3 ENV WEFT_MPI_CHECK_COLLECTIVES=true)
weft_collectives_by(checked PROGRAM collectives_at_once RANKS 3 ENV WEFT_MPI_CHECK_COLLECTIVES=true)

# The last rank dies when the others have called so many collectives.
weft_mpi_program(collectives_deaths programs/collectives_deaths.cpp)
foreach(moment 0 1 2 3 4 5 6 7)
  foreach(ranks 2 4)
    set(test mpi.collectives_deaths.${moment}.${ranks})
    add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --on-failure continue -n ${ranks}
      --timeout 60 $<TARGET_FILE:mpi_program_collectives_deaths> ${moment})
    # Its exit status is that of the rank that was killed.
    set_tests_properties(${test} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
      PASS_REGULAR_EXPRESSION "the survivors went on" FAIL_REGULAR_EXPRESSION "${WEFT_SURVIVOR_FAILS}")
  endforeach()
endforeach()
# Reductions that are under way meanwhile.
weft_mpi_program(collectives_meanwhile programs/collectives_meanwhile.cpp)
foreach(ranks 3 5)
  add_test(NAME mpi.collectives_meanwhile.${ranks} COMMAND $<TARGET_FILE:weftrun> --on-failure continue
    -n ${ranks} --timeout 60 $<TARGET_FILE:mpi_program_collectives_meanwhile>)
  set_tests_properties(mpi.collectives_meanwhile.${ranks} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
    PASS_REGULAR_EXPRESSION "all sums are whole" FAIL_REGULAR_EXPRESSION "${WEFT_SURVIVOR_FAILS}")
endforeach()
# weft_short_deaths(<name> NODES <n> ARGUMENTS <a> ...): the same where the others wait at their node's
# board, four ranks on each.
function(weft_short_deaths name)
  cmake_parse_arguments(ARG "" "NODES" "ARGUMENTS" ${ARGN})
  math(EXPR ranks "4 * ${ARG_NODES}")
  set(test mpi.collectives_deaths_${name}.${ranks})
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --on-failure continue --fake-nodes ${ARG_NODES}
    -n ${ranks} --timeout 60 $<TARGET_FILE:mpi_program_collectives_deaths> ${ARG_ARGUMENTS})
  set_tests_properties(${test} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
    PASS_REGULAR_EXPRESSION "the survivors went on" FAIL_REGULAR_EXPRESSION "${WEFT_SURVIVOR_FAILS}")
endfunction()
# Two ranks, which exchange.
set(pair_deaths "4 short" "8 short" "9 short" "41 short 0" "500 midst" "700 midst 0")
if(WEFT_SANITIZE)
  set(pair_deaths "41 short 0" "500 midst")
endif()
foreach(arguments IN LISTS pair_deaths)
  string(REPLACE " " ";" words "${arguments}")
  string(REPLACE " " "_" name "${arguments}")
  set(test mpi.collectives_deaths_pair_${name}.2)
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --on-failure continue -n 2 --timeout 60
    $<TARGET_FILE:mpi_program_collectives_deaths> ${words})
  set_tests_properties(${test} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
    PASS_REGULAR_EXPRESSION "the survivors went on" FAIL_REGULAR_EXPRESSION "${WEFT_SURVIVOR_FAILS}")
endforeach()
foreach(nodes 1 2)
  foreach(moment 1 2 3 4 8 41)
    weft_short_deaths(short_${moment} NODES ${nodes} ARGUMENTS ${moment} short)
  endforeach()
  weft_short_deaths(first_40 NODES ${nodes} ARGUMENTS 40 short 0)
  weft_short_deaths(second_43 NODES ${nodes} ARGUMENTS 43 short 1)
  weft_short_deaths(midst_last NODES ${nodes} ARGUMENTS 500 midst)
  weft_short_deaths(midst_first NODES ${nodes} ARGUMENTS 700 midst 0)
  weft_short_deaths(outside_12 NODES ${nodes} ARGUMENTS 12 outside)
  weft_short_deaths(outside_15 NODES ${nodes} ARGUMENTS 15 outside)
endforeach()
# In the midst of two levels.
foreach(moment 7 8 9 10 11 30)
  weft_short_deaths(of_levels_${moment} NODES 2 ARGUMENTS ${moment})
endforeach()
# Of those who are their node's agent or leader.
foreach(moment 4 10 11)
  weft_short_deaths(of_agents_${moment} NODES 2 ARGUMENTS ${moment} any 4)
endforeach()

# By the large-count twins.
weft_mpi_by_large_counts(collectives_moving RANKS 4)
weft_mpi_by_large_counts(collectives_reducing RANKS 4)
weft_mpi_by_large_counts(collectives_neighbours RANKS 4)
weft_mpi_by_large_counts(collectives_inter RANKS 3 5)
weft_mpi_by_large_counts(collectives_errors RANKS 2)
weft_mpi_by_large_counts(collectives_many RANKS 3)

# Over pretended nodes of three ranks, as over so many hosts: how many messages go between them.
# Sanitized, a minute and a half each: those of three nodes see all of the code.
weft_mpi_program(collectives_levels programs/collectives_levels.cpp)
set(levels 3 4 "3 flat")
if(WEFT_SANITIZE)
  set(levels 3 "3 flat")
endif()
foreach(arguments IN LISTS levels)
  separate_arguments(words UNIX_COMMAND "${arguments}")
  list(GET words 0 nodes)
  math(EXPR ranks "3 * ${nodes}")
  string(REPLACE " " "_" name "${arguments}")
  set(test mpi.collectives_levels_${name}.${ranks})
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --fake-nodes ${nodes} -n ${ranks} --timeout 100
    $<TARGET_FILE:mpi_program_collectives_levels> ${words})
  set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
    ENVIRONMENT "WEFT_FABRIC_TRANSPORT=by_node;WEFT_MPI_NODE_AWARE=$<IF:$<STREQUAL:${arguments},3 flat>,false,true>")
endforeach()
# So many that their leaders form a tree; nothing is counted.
if(NOT WEFT_SANITIZE)
  add_test(NAME mpi.collectives_levels_32.64 COMMAND $<TARGET_FILE:weftrun> --fake-nodes 32 -n 64 --timeout 100
    $<TARGET_FILE:mpi_program_collectives_levels> 32)
  set_tests_properties(mpi.collectives_levels_32.64 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs")
endif()
