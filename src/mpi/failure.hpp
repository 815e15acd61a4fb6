// How a call says that it failed: an MPI error class and a sentence, thrown, and caught in one
// place.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "mpi/abi/mpi.h"
#include "mpi/handle.hpp"

namespace weft::mpi {

/// Thrown by whatever serves a call; caught by the call's front (abi/front), which hands it to the
/// error handler of the communicator, session … that the call names. Never thrown on a success
/// path, nor through the message core.
class Failure : public std::exception {
 public:
  /// `code`: an error class (MPI_ERR_…), or a code that the program added.
  Failure(int code, std::string text) : code_(code), text_(std::move(text)) {}
  [[nodiscard]] int code() const noexcept { return code_; }
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }
  /// The communicator (a Comm) that it concerns, for calls that name none (MPI_Wait …), or whose
  /// handle may be gone when they fail (MPI_Recv …). Held. May be nullptr.
  [[nodiscard]] Counted* comm() const noexcept { return comm_.get(); }
  Failure& about(Counted* comm) noexcept {
    comm_ = Held<Counted>(comm);
    return *this;
  }
  /// The code that an error handler of the program's is given: the call's own, but for
  /// MPI_ERR_IN_STATUS that of the request that failed first (MPI 9.3).
  [[nodiscard]] int handler_code() const noexcept {
    return request_code_ != MPI_SUCCESS ? request_code_ : code_;
  }
  Failure& because_of(int request_code) noexcept {
    request_code_ = request_code;
    return *this;
  }

 private:
  int code_;
  std::string text_;
  Held<Counted> comm_;
  int request_code_ = MPI_SUCCESS;
};

/// Throws Failure.
[[noreturn]] void fail(int code, std::string text);

/// Whether arguments are checked (configuration `mpi.check_arguments`, default yes). Handles are
/// always checked: a bad one never crashes.
[[nodiscard]] bool checking() noexcept;

/// For the checks that can be switched off.
inline void require(bool holds, int code, const char* text) {
  if (!holds && checking()) [[unlikely]]
    fail(code, text);
}

/// Fails without a place for the answer; always checked: calls that need it may come before
/// anything was configured.
inline void need(const void* answer) {
  if (answer == nullptr) [[unlikely]]
    fail(MPI_ERR_ARG, "no place for the answer");
}

}  // namespace weft::mpi
