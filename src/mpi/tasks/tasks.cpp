// Tasks for MPI programs (include/weft_mpi.h).
#include <weft_mpi.h>

#include <exception>
#include <new>
#include <string>

#include "mpi/abi/mpi.h"
#include "mpi/process.hpp"
#include "weft/base/error.hpp"
#include "weft/base/log.hpp"
#include "weft/base/parker.hpp"
#include "weft/task/group.hpp"
#include "weft/task/scheduler.hpp"
#include "weft/task/task.hpp"

namespace weft::mpi {

namespace {

/// A task is what may not poll while it waits.
bool in_task() noexcept { return !base::this_parker().may_poll(); }

/// Calls `work`; the error class of what it threw.
template <class Work>
int error_class_of_work(Work work) noexcept {
  try {
    work();
    return MPI_SUCCESS;
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  } catch (const Error& error) {
    return error.code() == Errc::no_memory      ? MPI_ERR_NO_MEM
           : error.code() == Errc::bad_argument ? MPI_ERR_ARG
                                                : MPI_ERR_OTHER;
  } catch (const std::exception& error) {
    base::log(base::LogLevel::error, std::string("a task threw: ") + error.what());
    return MPI_ERR_OTHER;
  } catch (...) {
    base::log(base::LogLevel::error, "a task threw what is no std::exception");
    return MPI_ERR_OTHER;
  }
}

}  // namespace

}  // namespace weft::mpi

using weft::mpi::error_class_of_work;
using weft::mpi::in_task;

extern "C" {

[[gnu::visibility("default")]] int weft_mpi_run(int workers, int64_t count,
                                                void (*body)(int64_t, void*), void* argument) {
  if (body == nullptr || count < 0 || workers < 0) return MPI_ERR_ARG;
  if (!weft::mpi::is_active() || in_task() ||
      weft::mpi::process().thread_level() < MPI_THREAD_MULTIPLE) {
    return MPI_ERR_OTHER;
  }
  return error_class_of_work([&] {
    weft::task::Scheduler scheduler({.workers = workers});
    weft::task::Group all(scheduler);
    for (int64_t i = 0; i < count; ++i) all.spawn([=] { body(i, argument); });
    all.wait();
    // The scheduler's end waits for what they spawned.
  });
}

[[gnu::visibility("default")]] int weft_mpi_spawn(void (*body)(void*), void* argument) {
  if (body == nullptr) return MPI_ERR_ARG;
  if (!in_task()) return MPI_ERR_OTHER;
  return error_class_of_work([&] { weft::task::spawn_detached([=] { body(argument); }); });
}

[[gnu::visibility("default")]] void weft_mpi_yield(void) {
  if (in_task()) weft::task::yield();
}

}  // extern "C"
