# What `cmake --install` puts where: headers, libraries, programs (see Programs.cmake), the CMake
# package (find_package(weft) gives weft::weft and each room as weft::<room>), and weft.pc.
include(CMakePackageConfigHelpers)

set(rooms weft)
set(WEFT_PC_LIBRARIES "")
foreach(entry IN LISTS WEFT_ROOMS)
  string(REGEX REPLACE ":.*" "" room "${entry}")
  list(APPEND rooms weft_${room})
  # A static library stands before those it needs: highest floor first.
  string(PREPEND WEFT_PC_LIBRARIES "-lweft_${room} ")
endforeach()

install(TARGETS ${rooms} EXPORT weftTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(FILES LICENSE README.md CHANGELOG.md SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION ${package})
configure_package_config_file(cmake/weftConfig.cmake.in ${PROJECT_BINARY_DIR}/weftConfig.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weftConfig.cmake ${PROJECT_BINARY_DIR}/weftConfigVersion.cmake
  DESTINATION ${package})

if(WEFT_HAS_STACK_CLASH_PROTECTION)
  set(WEFT_PC_CFLAGS " -fstack-clash-protection")
endif()
# weft.pc finds its prefix from where it lies, so the tree may be moved.
file(RELATIVE_PATH WEFT_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" WEFT_PC_PREFIX "${WEFT_PC_PREFIX}")
configure_file(cmake/weft.pc.in ${PROJECT_BINARY_DIR}/weft.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weft.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
