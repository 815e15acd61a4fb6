# Warnings and sanitizers, as one interface target that every weft target links.
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -fno-omit-frame-pointer -momit-leaf-frame-pointer
  # Neighbouring words must stay words. Put together as a vector, two that came in registers go
  # through the stack, stored narrow and loaded wide, and the load waits until every earlier store
  # has left the store buffer: half of a sender's time was there.
  -fno-tree-slp-vectorize
  # Options are meant to be named in part: {.progress = …}.
  -Wno-missing-field-initializers
  # GCC 12 sees overlapping copies in std::string where there are none (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Clang calls a nameless struct in a nameless union an extension; GCC and MSVC take it alike.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-nested-anon-types>)

# In libmpi_abi, a thread's own variables are at a known distance from its pointer, as in programs,
# instead of behind a call each: a tenth of a microsecond of each message. They must be few for that,
# so that the library can also be loaded late (tests/mpi/process_test.py, Loaded): 352 bytes.
target_compile_options(weft_flags INTERFACE -ftls-model=initial-exec)

# A frame larger than a page touches each of its pages as it is made: it cannot step over the guard of
# a task's stack. Functions with smaller frames, all hot ones among them, are the same code with it.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-fstack-clash-protection WEFT_HAS_STACK_CLASH_PROTECTION)
if(WEFT_HAS_STACK_CLASH_PROTECTION)
  target_compile_options(weft_flags INTERFACE -fstack-clash-protection)
endif()

# Targets that are compiled often and run briefly, such as tests, say so (WEFT_LIGHT, a property of
# targets and a variable that sets it for those of a directory): they are optimized less.
define_property(TARGET PROPERTY WEFT_LIGHT INITIALIZE_FROM_VARIABLE WEFT_LIGHT)
target_compile_options(weft_flags INTERFACE
  $<$<AND:$<BOOL:$<TARGET_PROPERTY:WEFT_LIGHT>>,$<CONFIG:Release>>:-O1>)

# Sanitized builds are optimized a little, whatever the build type: they are for running. (The tools that
# say so, WEFT_BRIEF, are compiled for longer than they run: they are not.) Their
# instrumentation leads GCC's flow analysis astray. ThreadSanitizer does not model fences (-Wtsan);
# ours order atomics among themselves, never plain data.
define_property(TARGET PROPERTY WEFT_BRIEF)
set(sanitized_level $<IF:$<BOOL:$<TARGET_PROPERTY:WEFT_BRIEF>>,-O0,-O1>)
set(gnu $<CXX_COMPILER_ID:GNU>)
if(WEFT_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,undefined)
  target_compile_options(weft_flags INTERFACE ${sanitized_level} -g1 -fsanitize=address -fno-sanitize-recover=all
    $<${gnu}:-Wno-maybe-uninitialized>)
  # `make stress` looks for all undefined behaviour in the rooms. Their tests, which may bring the copy
  # of an inline function that a program ends up with, and `make asan` do without the dear checks: all
  # together are two fifths of a compilation. Null pointers, what lies behind an object and what is no
  # object any more, AddressSanitizer sees; UndefinedBehaviorSanitizer's look at an object's type takes a
  # descriptor, which tests leave it none of.
  if(WEFT_LONG_TESTS)
    set(WEFT_ROOM_CHECKS -fsanitize=undefined -fno-sanitize=null,object-size,vptr)
  endif()
  set(cheap_checks signed-integer-overflow,shift,integer-divide-by-zero,bounds,enum,bool,return)
  target_compile_options(weft_flags INTERFACE -fsanitize=${cheap_checks})
elseif(WEFT_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread)
  target_compile_options(weft_flags INTERFACE ${sanitized_level} -g1 ${sanitizers}
    $<${gnu}:-Wno-maybe-uninitialized> $<${gnu}:-Wno-tsan>)
elseif(NOT WEFT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "WEFT_SANITIZE is '${WEFT_SANITIZE}': use address, thread or nothing")
endif()
target_link_options(weft_flags INTERFACE ${sanitizers})
