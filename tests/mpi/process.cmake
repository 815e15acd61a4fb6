# Beginning and end of a process, the ABI, errors, info, the tool interface, and what surrounds them.
weft_mpi_test(abi RANKS 1 2 SOURCES programs/abi.cpp)
weft_mpi_test(abi_told_early RANKS 1 2 PROGRAM abi ARGUMENTS early)
weft_mpi_test(abi_told_late RANKS 1 2 PROGRAM abi ARGUMENTS late)
target_include_directories(mpi_program_abi PRIVATE ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(mpi_program_abi PRIVATE ${CMAKE_DL_LIBS})
# It loads the library itself, which it is not linked with.
add_executable(mpi_program_unloaded programs/unloaded.cpp)
target_link_libraries(mpi_program_unloaded PRIVATE weft_flags Threads::Threads ${CMAKE_DL_LIBS})
target_include_directories(mpi_program_unloaded PRIVATE ${PROJECT_BINARY_DIR}/include)
add_dependencies(mpi_program_unloaded mpi_abi)
add_test(NAME mpi.unloaded COMMAND mpi_program_unloaded $<TARGET_FILE:mpi_abi>)
set_tests_properties(mpi.unloaded PROPERTIES TIMEOUT 120 LABELS mpi)
weft_mpi_test(life RANKS 1 2 4 SOURCES programs/life.cpp)
foreach(level RANGE 0 3)
  add_test(NAME mpi.life_level_${level}.2
    COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100 $<TARGET_FILE:mpi_program_life> ${level})
  set_tests_properties(mpi.life_level_${level}.2 PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
    ENVIRONMENT WEFT_MPI_CHECK_THREADS=on)
endforeach()
weft_mpi_program(initial_errhandler programs/initial_errhandler.cpp)
weft_left_out_of_tsan(mpi_program_initial_errhandler)
add_test(NAME mpi.initial_errhandler COMMAND $<TARGET_FILE:weftrun> -initial-errhandler mpi_errors_return
  -n 2 --timeout 100 $<TARGET_FILE:mpi_program_initial_errhandler>)
set_tests_properties(mpi.initial_errhandler PROPERTIES TIMEOUT 120 LABELS "mpi;jobs")
weft_mpi_test(handles RANKS 1 3 SOURCES programs/handles.cpp)
weft_mpi_by_large_counts(handles RANKS 2)
weft_mpi_test(errors RANKS 1 2 SOURCES programs/errors.cpp)
weft_mpi_test(info RANKS 1 2 SOURCES programs/info.cpp)
weft_mpi_test(tool RANKS 1 2 SOURCES programs/tool.cpp)
weft_mpi_test(late_finalize RANKS 1 2 SOURCES programs/late_finalize.cpp)
weft_mpi_test(late_finalize_by_handler PROGRAM late_finalize RANKS 1 2 ARGUMENTS handler)
weft_mpi_test(misuse RANKS 2 SOURCES programs/misuse.cpp ARGUMENTS nothing)
target_include_directories(mpi_program_misuse PRIVATE ${PROJECT_SOURCE_DIR}/tests)
# One process, of which all others are children.
weft_mpi_program(outside programs/outside.cpp)
weft_left_out_of_tsan(mpi_program_outside)
target_include_directories(mpi_program_outside PRIVATE ${PROJECT_BINARY_DIR}/generated)
add_test(NAME mpi.outside COMMAND mpi_program_outside)
weft_test_properties(mpi.outside mpi_program_outside "mpi;jobs")
weft_long_if_sanitized(mpi.outside)

# Across hosts made of namespaces.
if(OFI_FOUND AND NOT WEFT_SANITIZE)
  add_test(NAME mpi.hosts
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/hosts_test.py
      $<TARGET_FILE:weftrun> ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  set_tests_properties(mpi.hosts PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT_S} LABELS "mpi;jobs"
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()

# What a user sees when something is wrong, and the wrappers.
foreach(part Ends Threads Loaded Wrappers)
  add_test(NAME mpi.process.${part}
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/process_test.py
      $<TARGET_FILE:weftrun> $<TARGET_FILE:mpi_program_misuse> ${part})
  set_tests_properties(mpi.process.${part} PROPERTIES TIMEOUT ${WEFT_TEST_TIMEOUT_S} LABELS "mpi;jobs"
    ENVIRONMENT "PYTHONDONTWRITEBYTECODE=1;PROCESS_TEST_SANITIZER=${WEFT_SANITIZE};PROCESS_TEST_OFI=$<BOOL:${OFI_FOUND}>")
endforeach()
