# The experiment of examples/mpi: each program run in each of its ways. They check what they computed
# themselves, and fail by their exit code.
if(TARGET bfs AND TARGET uts AND TARGET hpccg)
  # weft_mpi_example(program RANKS n ARGUMENTS ... HOW ...)
  function(weft_mpi_example program)
    cmake_parse_arguments(ARG "" "RANKS" "ARGUMENTS;HOW" ${ARGN})
    string(REGEX REPLACE "[; -]+" "_" way "${ARG_HOW}")
    set(test mpi.example_${program}${way}.${ARG_RANKS})
    add_test(NAME ${test} COMMAND $<TARGET_FILE:weftrun> -n ${ARG_RANKS} --timeout 100
      $<TARGET_FILE:${program}> ${ARG_ARGUMENTS} ${ARG_HOW})
    set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs")
  endfunction()

  # Sanitized, the most ranks: the others are for the release build.
  set(ranks_of_examples 2 4)
  if(WEFT_SANITIZE)
    set(ranks_of_examples 4)
  endif()
  foreach(ranks IN LISTS ranks_of_examples)
    foreach(how "--units;1" "--threads;4" "--tasks;8" "--tasks;3;--workers;2")
      weft_mpi_example(bfs RANKS ${ranks} ARGUMENTS --scale 12 --roots 4 --batch 64 HOW ${how})
      weft_mpi_example(uts RANKS ${ranks} ARGUMENTS --chunk 8 HOW ${how})
      weft_mpi_example(hpccg RANKS ${ranks} ARGUMENTS --size 32 HOW ${how})
    endforeach()
  endforeach()
  # What is odd: neither ranks nor units a power of two, letters and gifts of one node, the other tree.
  weft_mpi_example(bfs RANKS 3 ARGUMENTS --scale 7 --roots 3 --degree 3 --batch 1 HOW --tasks 5)
  weft_mpi_example(uts RANKS 3 ARGUMENTS --tree T1 --chunk 1 HOW --tasks 5)
  weft_mpi_example(uts RANKS 1 ARGUMENTS --tree T1 HOW --threads 3)
  weft_mpi_example(hpccg RANKS 3 ARGUMENTS --size 22 HOW --threads 7)

  add_test(NAME mpi.example_flags COMMAND ${Python3_EXECUTABLE}
    ${CMAKE_CURRENT_SOURCE_DIR}/examples_test.py $<TARGET_FILE:weftrun> $<TARGET_FILE_DIR:bfs>)
  set_tests_properties(mpi.example_flags PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
    ENVIRONMENT PYTHONDONTWRITEBYTECODE=1)
endif()
