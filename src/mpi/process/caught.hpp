// Any exception that a call may end with, as a Failure.
#pragma once

#include <cxxabi.h>

#include <exception>

#include "mpi/failure.hpp"

namespace weft::mpi {

/// One that is not thrown as such; where there is no memory for its words, of that.
Failure as_failure(const std::exception& error) noexcept;

/// In a catch block: calls `told` with the exception being handled, as a Failure, and answers what
/// it does. Forced unwinding (a cancelled thread) goes on. There may be no memory: then `told` is
/// not to need any.
template <class Told>
auto with_caught(Told told) {
  try {
    throw;
  } catch (const Failure& failure) {
    return told(failure);
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::exception& error) {
    return told(as_failure(error));
  }
}

}  // namespace weft::mpi
