# mpicc, mpicxx and mpic++: the compiler that built weft, with what an MPI program needs. One script,
# which finds headers and library from where it lies: ../include and ../lib, in the build tree, too.
get_filename_component(found_cxx ${CMAKE_CXX_COMPILER} NAME)
string(REGEX REPLACE "clang\\+\\+" "clang" found_cc ${found_cxx})
string(REGEX REPLACE "g\\+\\+" "gcc" found_cc ${found_cc})
string(REGEX REPLACE "^c\\+\\+" "cc" found_cc ${found_cc})

function(weft_mpi_wrapper name compiler variable)
  set(WEFT_WRAPPER ${name})
  set(WEFT_COMPILER ${compiler})
  set(WEFT_COMPILER_VARIABLE ${variable})
  set(WEFT_LIBDIR lib)
  configure_file(abi/mpicc.in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name} @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
      WORLD_EXECUTE)
  if(WEFT_INSTALL)
    set(WEFT_LIBDIR ${CMAKE_INSTALL_LIBDIR})
    configure_file(abi/mpicc.in ${CMAKE_CURRENT_BINARY_DIR}/installed/${name} @ONLY)
    install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/installed/${name}
      DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

weft_mpi_wrapper(mpicc ${found_cc} WEFT_MPI_CC)
weft_mpi_wrapper(mpicxx ${found_cxx} WEFT_MPI_CXX)
weft_mpi_wrapper(mpic++ ${found_cxx} WEFT_MPI_CXX)
