#include "weft/task/loops.hpp"

#include <algorithm>

#include "task/scheduler_impl.hpp"
#include "task/worker.hpp"

namespace weft::task::detail {

uint64_t default_grain(uint64_t iterations) {
  constexpr uint64_t kTasksPerWorker = 8;
  Worker* const here = Worker::current();
  if (here == nullptr || here->running() == nullptr) {
    throw Error(Errc::not_initialized, "a parallel loop outside of a task: use Scheduler::run");
  }
  return std::max<uint64_t>(1, iterations / (kTasksPerWorker * here->scheduler().workers.size()));
}

}  // namespace weft::task::detail
