weft_mpi_test(flood RANKS 2 SOURCES programs/flood.cpp)

# A rank dies while another has this or that under way with it.
add_executable(mpi_program_p2p_deaths programs/p2p_deaths.cpp)
target_link_libraries(mpi_program_p2p_deaths PRIVATE weft_flags mpi_abi)
add_dependencies(mpi_program_p2p_deaths weft_mpi_generated)
foreach(moment 0 1 2 3 4 5 6)
  set(test mpi.p2p_deaths.${moment})
  add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> --on-failure continue -n 3 --timeout 60
    $<TARGET_FILE:mpi_program_p2p_deaths> ${moment})
  # Its exit status is that of the rank that was killed.
  set_tests_properties(${test} PROPERTIES TIMEOUT 80 LABELS "mpi;jobs"
    PASS_REGULAR_EXPRESSION "the living went on")
endforeach()
