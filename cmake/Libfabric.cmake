# libfabric is loaded when it is needed (src/fabric/ofi/libfabric.hpp), not linked. As a linker would,
# this binds what is loaded to the versions that the installed library has now: weft::libfabric has its
# headers, and says where the library was and which version of each function the headers mean.
pkg_check_modules(OFI REQUIRED libfabric>=1.15)
find_library(WEFT_LIBFABRIC fabric HINTS ${OFI_LIBRARY_DIRS} ${OFI_LIBDIR} REQUIRED)
mark_as_advanced(WEFT_LIBFABRIC)

block()
  file(REAL_PATH ${WEFT_LIBFABRIC} real)
  execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${real} OUTPUT_VARIABLE about COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${CMAKE_NM} -D ${real} OUTPUT_VARIABLE names COMMAND_ERROR_IS_FATAL ANY)
  if(NOT about MATCHES "SONAME +([^ \n]+)")
    message(FATAL_ERROR "${real}: no shared library with a name of its own")
  endif()
  set(name ${CMAKE_MATCH_1})
  get_filename_component(place ${WEFT_LIBFABRIC} DIRECTORY)

  add_library(weft_libfabric INTERFACE)
  add_library(weft::libfabric ALIAS weft_libfabric)
  target_include_directories(weft_libfabric SYSTEM INTERFACE ${OFI_INCLUDE_DIRS})
  target_link_libraries(weft_libfabric INTERFACE ${CMAKE_DL_LIBS})
  target_compile_definitions(weft_libfabric INTERFACE
    WEFT_LIBFABRIC_NAME="${name}" WEFT_LIBFABRIC_PLACE="${place}/${name}")
  foreach(function getinfo freeinfo dupinfo fabric strerror)
    if(NOT names MATCHES " fi_${function}@@([^ \n]+)")
      message(FATAL_ERROR "${real}: no fi_${function} with a version")
    endif()
    string(TOUPPER ${function} upper)
    target_compile_definitions(weft_libfabric INTERFACE WEFT_FI_${upper}="${CMAKE_MATCH_1}")
  endforeach()
endblock()
