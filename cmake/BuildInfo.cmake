# weft_build_info: an interface target with the generated header "weft_build_info.hpp": commit,
# compiler, flags. The commit is looked up at each build, and the header touched only if it moved.
#
# Also the script that does so: cmake -DROOT=... -DOUT=... -DIN=... -DVERSION=... -P BuildInfo.cmake
if(CMAKE_SCRIPT_MODE_FILE)
  set(WEFT_COMMIT "unknown")
  find_program(GIT git)
  if(GIT AND EXISTS ${ROOT}/.git)
    execute_process(COMMAND ${GIT} -C ${ROOT} describe --always --dirty --exclude=* --abbrev=12
      OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      set(WEFT_COMMIT "${found}")
    endif()
  endif()
  configure_file(${IN} ${OUT} @ONLY)
  return()
endif()

string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
set(WEFT_FLAGS "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
if(WEFT_SANITIZE)
  string(APPEND WEFT_FLAGS " -fsanitize=${WEFT_SANITIZE}")
endif()
string(STRIP "${WEFT_FLAGS}" WEFT_FLAGS)

set(header ${PROJECT_BINARY_DIR}/generated/weft_build_info.hpp)
add_custom_target(weft_commit ALL BYPRODUCTS ${header}
  COMMAND ${CMAKE_COMMAND} -DROOT=${PROJECT_SOURCE_DIR} -DIN=${PROJECT_SOURCE_DIR}/cmake/weft_build_info.hpp.in
    -DOUT=${header} "-DWEFT_FLAGS=${WEFT_FLAGS}" -DWEFT_BUILD_TYPE=${CMAKE_BUILD_TYPE}
    "-DWEFT_COMPILER=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}"
    -P ${PROJECT_SOURCE_DIR}/cmake/BuildInfo.cmake
  COMMENT "" VERBATIM)
add_library(weft_build_info INTERFACE)
target_include_directories(weft_build_info INTERFACE ${PROJECT_BINARY_DIR}/generated)
add_dependencies(weft_build_info weft_commit)
