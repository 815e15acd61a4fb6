// What an exception says, for messages.
#pragma once

#include <exception>
#include <string>

namespace weft::base {

inline std::string what_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "not a std::exception";
  }
}

}  // namespace weft::base
