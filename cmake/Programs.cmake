# weft_ship(<target> ...): programs that are installed, and that the target `programs` builds, which
# is everything but the tests and examples.
add_custom_target(programs)

function(weft_ship)
  foreach(program IN LISTS ARGN)
    add_dependencies(programs ${program})
    if(WEFT_INSTALL)
      install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    endif()
  endforeach()
endfunction()
