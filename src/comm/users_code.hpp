// The user's functions that progress calls under a device's lock: handlers, and completions that
// are functions.
#pragma once

#include <cstdint>

namespace weft::comm {

/// In place of an endpoint's number: a HandlerCompletion's function.
inline constexpr int32_t kCompletionsFunction = -2;

/// In a catch block around such a function, of that endpoint: ends the process with a sentence that
/// says what it threw. Progress cannot go on: the message would be half taken.
[[noreturn]] void users_code_threw(int32_t endpoint) noexcept;

}  // namespace weft::comm
