# Every library that weft stands on; scripts/bootstrap installs them.
# What the installed libraries need of these is found again by cmake/weftConfig.cmake.in.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(PkgConfig REQUIRED)
set(Boost_NO_WARN_NEW_VERSIONS ON)
find_package(Boost REQUIRED)
# Tasks switch by Boost.Context where weft has no switch of its own: asked as src/task/context.hpp asks.
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
  #if !defined(__x86_64__) || !defined(__ELF__) || defined(__ILP32__)
  #error none
  #endif
  int main() {}" WEFT_OWN_SWITCH)
option(WEFT_BOOST_SWITCH "Tasks switch by Boost.Context though weft has a switch of its own here" OFF)
if(WEFT_BOOST_SWITCH)
  set(WEFT_OWN_SWITCH FALSE)
  add_compile_definitions(WEFT_BOOST_SWITCH)
endif()
set(WEFT_SWITCH_LIBRARY "")
if(NOT WEFT_OWN_SWITCH)
  find_package(Boost REQUIRED COMPONENTS context)
  set(WEFT_SWITCH_LIBRARY Boost::context)
  set(WEFT_PC_SWITCH_LIBRARY "-lboost_context ")
endif()
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(PMIX REQUIRED IMPORTED_TARGET pmix)
pkg_check_modules(SODIUM REQUIRED IMPORTED_TARGET libsodium)
option(WEFT_OFI "The transport between nodes, over libfabric (libfabric-dev)" ON)
if(WEFT_OFI)
  include(${CMAKE_CURRENT_LIST_DIR}/Libfabric.cmake)
else()
  set(OFI_FOUND FALSE)  # the cache may say otherwise
endif()

# The programs alone:
if(WEFT_TOOLS OR WEFT_BENCH)
  find_package(CLI11 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(ZLIB REQUIRED)
  find_package(LibLZMA REQUIRED)
endif()
# The rival of tasks.
if(WEFT_BENCH)
  find_package(Boost REQUIRED COMPONENTS context fiber)
endif()
