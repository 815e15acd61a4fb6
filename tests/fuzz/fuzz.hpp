// What the fuzzers share. Each is a program of libFuzzer (scripts/fuzz) that gives bytes to
// functions that take bytes from outside, and ends by a trap where one breaks its promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "weft/base/error.hpp"

namespace weft::fuzz {

inline void demand(bool holds) {
  if (!holds) __builtin_trap();
}

inline std::string_view text_of(const uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Calls it; it may refuse its argument, by Error(`code`) and nothing else.
template <class Call>
void or_refuses(Errc code, Call call) {
  try {
    call();
  } catch (const Error& error) {
    demand(error.code() == code);
  }
}

}  // namespace weft::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size);
