# Datatypes, packing, reduction operations.
weft_tests(mpi_types_test ROOM mpi ONLY address SOURCES types_ops_test.cpp types_pack_test.cpp
  op_loops_test.cpp)
# As the library is in releases.
set_source_files_properties(op_loops_test.cpp PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=off"
  SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
weft_mpi_test(datatypes RANKS 1 2 4 SOURCES programs/datatypes.cpp)
weft_mpi_test(typemaps RANKS 1 SOURCES programs/typemaps.cpp)

# By the large-count twins.
weft_mpi_by_large_counts(typemaps RANKS 1)
weft_mpi_by_large_counts(datatypes RANKS 2)
