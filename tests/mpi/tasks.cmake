weft_mpi_test(tasks RANKS 1 2 4 SOURCES programs/tasks.cpp)
# Engines whose locks are held for longer: who waits for one in a task, or in the midst of progress.
if(NOT WEFT_SANITIZE)
  foreach(lock spin mcs)
    set(test mpi.tasks_over_tail_${lock}.2)
    add_test(NAME ${test}
      COMMAND $<TARGET_FILE:weftrun> -n 2 --timeout 100 $<TARGET_FILE:mpi_program_tasks>)
    set_tests_properties(${test} PROPERTIES TIMEOUT 120 LABELS "mpi;jobs"
      ENVIRONMENT "WEFT_MPI_MATCHING=tail;WEFT_MPI_MATCHING_LOCK=${lock}")
  endforeach()
endif()
