// What must not happen in functions of the user's that progress calls.
#include "comm/users_code.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>

#include "base/what_of.hpp"
#include "weft/base/error.hpp"

namespace weft::comm {

namespace {

std::string name_of(int32_t endpoint) {
  if (endpoint == kCompletionsFunction) return "the function of a HandlerCompletion";
  return fmt::format("the handler of endpoint {}", endpoint);
}

}  // namespace

void UsersCode::refuse_wait(int32_t endpoint) noexcept {
  base::broken(
      fmt::format("{} waits, or tries again until there is room, which it must not: it runs inside "
                  "progress, which others need to go on. It may post once; a thread, a task or "
                  "Runtime::defer does the rest",
                  name_of(endpoint)),
      __FILE__, __LINE__);
}

void users_code_threw(int32_t endpoint) noexcept {
  base::broken(fmt::format("{} threw, which it must not: {}", name_of(endpoint),
                           base::what_of(std::current_exception())),
               __FILE__, __LINE__);
}

}  // namespace weft::comm
