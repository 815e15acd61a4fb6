# weft_program(<name> SOURCES ... LIBRARIES ...): an installed program of floor 5.
# The target `programs` builds them all, without the tests.
add_custom_target(programs)

function(weft_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE weft_flags ${ARG_LIBRARIES})
  add_dependencies(programs ${name})
  if(WEFT_INSTALL)
    install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()
