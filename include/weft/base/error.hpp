// Failures that a caller can meet, and broken contracts that end the job.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

/// What went wrong. Carried by `Error` at set-up and by error completions on the message path.
enum class Errc : uint8_t {
  ok = 0,
  bad_config,       ///< A configuration key has a value out of its range.
  bad_argument,     ///< An argument that no state of the program could make right.
  no_such_peer,     ///< A rank outside the job.
  no_permission,    ///< The system refused; the text says what.
  no_memory,        ///< A segment or a pool could not be made as large as configured.
  truncated,        ///< A receive too small for its message; the message is dropped whole.
  bad_key,          ///< A key of a region that was withdrawn, or never was.
  peer_died,        ///< The peer ended; the text names rank, host and cause.
  cancelled,        ///< Taken back: a receive before its message came, or the other way round.
  not_initialized,  ///< Called before the runtime was made or after it was ended.
  protocol,         ///< Bytes from outside that make no sense.
  launcher,         ///< The launcher refused or went away.
  bad_memory,       ///< A buffer, here or at the peer, is not its process' memory; a log line says
                    ///< which.
};
inline constexpr Errc kLastErrc = Errc::bad_memory;

/// The name of `code`, e.g. "truncated".
std::string_view to_string(Errc code) noexcept;

/// Thrown at set-up. On the message path failures are error completions instead.
class Error : public std::runtime_error {
 public:
  Error(Errc code, const std::string& what) : std::runtime_error(what), code_(code) {}
  [[nodiscard]] Errc code() const noexcept { return code_; }

 private:
  Errc code_;
};

namespace base {

/// A broken contract: prints rank, thread, `what` and a backtrace to stderr, then aborts.
[[noreturn]] void broken(std::string_view what, const char* file, int line) noexcept;

}  // namespace base
}  // namespace weft

/// Ends the job when `condition`, which the code itself guarantees, does not hold. Kept in release.
#define WEFT_CHECK(condition, what)                                       \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::weft::base::broken(what " [" #condition "]", __FILE__, __LINE__); \
  } while (false)
