# Datatypes, packing, reduction operations.
weft_test(mpi_types_pack_test ROOM mpi SOURCES types_pack_test.cpp)
weft_test(mpi_types_arguments_test ROOM mpi SOURCES types_arguments_test.cpp)
weft_test(mpi_types_external_test ROOM mpi SOURCES types_external_test.cpp)
weft_test(mpi_types_ops_test ROOM mpi SOURCES types_ops_test.cpp)
weft_mpi_test(datatypes RANKS 1 2 4 SOURCES programs/datatypes.cpp)
