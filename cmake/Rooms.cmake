# The house: one library target per room, and the one table of what each may stand on.
# tests/house/check_includes.py reads the same table and fails on an #include that is not in it.
#
#            room    stands on
set(WEFT_ROOMS
            "base:"
            "task:base"
            "fabric:base"
            "comm:fabric,base"
            "mpi:comm,fabric,task,base")

# weft_room(<name> LIBRARIES <external libraries>): called by src/<name>/CMakeLists.txt.
function(weft_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_library(weft_${name} STATIC ${ARG_SOURCES})
  add_library(weft::${name} ALIAS weft_${name})
  set_target_properties(weft_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(weft_${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_features(weft_${name} PUBLIC cxx_std_20)
  target_compile_options(weft_${name} PRIVATE ${WEFT_ROOM_CHECKS})
  target_link_libraries(weft_${name} PRIVATE $<BUILD_INTERFACE:weft_flags> ${ARG_LIBRARIES})
  foreach(entry IN LISTS WEFT_ROOMS)
    if(entry MATCHES "^${name}:(.*)$")
      string(REPLACE "," ";" floors "${CMAKE_MATCH_1}")
      foreach(room IN LISTS floors)
        target_link_libraries(weft_${name} PUBLIC weft_${room})
      endforeach()
      set(known TRUE)
    endif()
  endforeach()
  if(NOT known)
    message(FATAL_ERROR "room '${name}' is not in the table of cmake/Rooms.cmake")
  endif()
endfunction()

foreach(entry IN LISTS WEFT_ROOMS)
  string(REGEX REPLACE ":.*" "" room "${entry}")
  add_subdirectory(src/${room})
endforeach()

# weft::weft: all rooms at once, for programs.
add_library(weft INTERFACE)
add_library(weft::weft ALIAS weft)
foreach(entry IN LISTS WEFT_ROOMS)
  string(REGEX REPLACE ":.*" "" room "${entry}")
  target_link_libraries(weft INTERFACE weft_${room})
endforeach()
