# Warnings and sanitizers, as one interface target that every weft target links.
add_library(weft_flags INTERFACE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -fno-omit-frame-pointer)
if(WEFT_SANITIZE STREQUAL "address")
  target_compile_options(weft_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_link_options(weft_flags INTERFACE -fsanitize=address,undefined)
elseif(WEFT_SANITIZE STREQUAL "thread")
  target_compile_options(weft_flags INTERFACE -fsanitize=thread -Wno-tsan)
  target_link_options(weft_flags INTERFACE -fsanitize=thread)
elseif(NOT WEFT_SANITIZE STREQUAL "")
  message(FATAL_ERROR "WEFT_SANITIZE is '${WEFT_SANITIZE}': use address, thread or nothing")
endif()
