// How calls fail: throwing, the switch for argument checks, and other exceptions as failures.
#include "mpi/failure.hpp"

#include <fmt/format.h>

#include <atomic>
#include <new>

#include "mpi/process/caught.hpp"
#include "mpi/process/settings.hpp"
#include "weft/base/error.hpp"

namespace weft::mpi {
namespace {

constinit std::atomic<bool> g_checking{true};

int class_of(Errc code) noexcept {
  switch (code) {
    case Errc::bad_argument:
      return MPI_ERR_ARG;
    case Errc::no_such_peer:
      return MPI_ERR_RANK;
    case Errc::no_memory:
      return MPI_ERR_NO_MEM;
    case Errc::truncated:
      return MPI_ERR_TRUNCATE;
    case Errc::peer_died:
      return MPI_ERR_PROC_ABORTED;
    case Errc::bad_memory:
      return MPI_ERR_BUFFER;
    case Errc::protocol:
      return MPI_ERR_INTERN;
    default:
      return MPI_ERR_OTHER;
  }
}

}  // namespace

void fail(int code, std::string text) { throw Failure(code, std::move(text)); }

void refuse_more_handles(uint32_t count) {
  fail(MPI_ERR_OTHER,
       fmt::format("{} objects of this kind exist already, as many as there may be", count));
}

// relaxed: written once, before other calls can come.
bool checking() noexcept { return g_checking.load(std::memory_order_relaxed); }
void set_checking(bool on) noexcept { g_checking.store(on, std::memory_order_relaxed); }

Failure as_failure(const std::exception& error) noexcept {
  try {
    if (const auto* const of_core = dynamic_cast<const Error*>(&error); of_core != nullptr)
      return {class_of(of_core->code()), error.what()};
    if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr)
      return {MPI_ERR_INTERN, error.what()};
  } catch (const std::bad_alloc&) {
  }
  return {MPI_ERR_NO_MEM, "out of memory"};  // so short that a string takes no memory
}

}  // namespace weft::mpi
