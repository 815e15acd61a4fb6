# Unit tests of the room; those of which ThreadSanitizer runs nothing are with their programs (types.cmake).
weft_tests(mpi_units_test ROOM mpi SOURCES attributes_test.cpp board_test.cpp
  combining_test.cpp context_ids_test.cpp dims_test.cpp
  groups_test.cpp types_arguments_test.cpp types_external_test.cpp)
