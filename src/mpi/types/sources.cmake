# Datatypes, packing, reduction operations.
list(APPEND WEFT_MPI_SOURCES
  types/arguments.cpp types/arrays.cpp types/builder.cpp types/constructors.cpp types/contents.cpp
  types/datatype.cpp types/elements.cpp types/external32.cpp types/fortran.cpp types/layout.cpp types/nameless.cpp
  types/op.cpp types/op_arithmetic.cpp types/op_bits.cpp types/op_location.cpp types/op_order.cpp
  types/pack_calls.cpp types/plan.cpp types/predefined.cpp types/queries.cpp)
