# Warnings and sanitizers, as one interface target that every weft target links.
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -fno-omit-frame-pointer
  # Options are meant to be named in part: {.progress = …}.
  -Wno-missing-field-initializers
  # GCC 12 sees overlapping copies in std::string where there are none (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # Clang calls a nameless struct in a nameless union an extension; GCC and MSVC take it alike.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-nested-anon-types>)

# Sanitized builds are optimized a little, whatever the build type: they are for running, and
# -O1 halves both the compile time and the run time of -O0.
# GCC's flow analysis is led astray by the instrumentation: -Wno-maybe-uninitialized.
if(WEFT_SANITIZE STREQUAL "address")
  set(sanitizers -fsanitize=address,undefined)
  target_compile_options(weft_flags INTERFACE -O1 -g1 ${sanitizers} -fno-sanitize-recover=all
    -Wno-maybe-uninitialized)
  target_link_options(weft_flags INTERFACE ${sanitizers})
elseif(WEFT_SANITIZE STREQUAL "thread")
  # -Wno-tsan (GCC): fences, which ThreadSanitizer does not model, are only used where an atomic
  # operation beside them carries the happens-before that it sees.
  target_compile_options(weft_flags INTERFACE -O1 -g1 -fsanitize=thread
    -Wno-maybe-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  target_link_options(weft_flags INTERFACE -fsanitize=thread)
elseif(NOT WEFT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "WEFT_SANITIZE is '${WEFT_SANITIZE}': use address, thread or nothing")
endif()
