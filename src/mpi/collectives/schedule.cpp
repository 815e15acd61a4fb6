// Running schedules: in place, or from progress to progress (docs/design/mpi-schedules.md).
#include "mpi/schedule.hpp"

#include <exception>
#include <new>
#include <utility>

#include "mpi/collectives/promise.hpp"
#include "mpi/failure.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caught.hpp"

namespace weft::mpi {

Schedule::~Schedule() {
  // Never in the middle: its transfers would have no home.
  if (handle_) handle_.destroy();
}

void run(Schedule schedule) {
  const Schedule::Handle handle = schedule.handle();
  if (!handle) return;
  // It waits in its steps and comes back at its end only.
  handle.resume();
  handle.promise().report();
}

void run_part(const Schedule& schedule, Trouble& met) {
  const Schedule::Handle handle = schedule.handle();
  if (!handle) return;
  Schedule::promise_type& promise = handle.promise();
  promise.own_trouble = met;
  handle.resume();
  met = promise.own_trouble;
  if (promise.failure) [[unlikely]]
    std::rethrow_exception(promise.failure);
}

void launch(Schedule schedule, Request& request, Comm& comm, std::string& why) {
  Schedule::Handle handle = schedule.handle();
  if (request.comm.get() != &comm) request.comm = Held<Comm>(&comm);
  request.active = true;
  request.transfer.outcome = kEmpty;
  if (!handle) {
    // relaxed: nobody else looks at it yet.
    request.transfer.state.store(Transfer::kEnded, std::memory_order_relaxed);
    return;
  }
  auto* driver = new Driver(std::move(schedule), request, comm, why);
  handle.promise().driver = driver;
  // relaxed: it is told to others by set_waiter and by the handle's way through the program.
  request.transfer.state.store(Transfer::kPending, std::memory_order_relaxed);
  driver->go(handle);
}

void Driver::go(std::coroutine_handle<> at) noexcept {
  // On this stack: once the coroutine suspends, another thread may have ended the driver.
  bool over = false;
  over_ = &over;
  at.resume();
  if (over) finish();
}

bool Driver::suspend(Posts& step, std::coroutine_handle<> at) noexcept {
  at_ = at;
  // relaxed: set_waiter releases it to on_end.
  left_.store(step.count() + 1, std::memory_order_relaxed);
  uint32_t told = 1;
  step.for_each([&](Transfer& transfer) {
    if (!transfer.set_waiter(*this)) ++told;
  });
  // acq_rel: release: whoever goes on sees the coroutine suspended; acquire: results of those who
  // counted before.
  return left_.fetch_sub(told, std::memory_order_acq_rel) != told;
}

void Driver::on_end(Transfer& /*transfer*/) noexcept {
  // acq_rel: see suspend. Not the last one: the driver may end at any time from here on.
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) runtime().defer(resume_);
}

void Driver::finish() noexcept {
  int error = MPI_SUCCESS;
  const Schedule::promise_type& ended = schedule_.handle().promise();
  if (ended.failure || !ended.is_well()) [[unlikely]] {
    try {
      ended.report();
    } catch (const Failure& failure) {
      error = failure.code();
      why_ = failure.what();
    } catch (const std::bad_alloc&) {
      error = MPI_ERR_NO_MEM;
    } catch (const std::exception& thrown) {  // by an operation of the user's
      const Failure failure = as_failure(thrown);
      error = failure.code();
      why_ = failure.what();
    } catch (...) {
      error = MPI_ERR_OTHER;
    }
  }
  Request& request = request_;
  Comm& comm = comm_;  // the request holds it
  delete this;  // and the frame with it: nothing of the schedule is left when the request ends
  request.transfer.outcome.error = error;
  // release: pairs with wait_for_operations; what it received is there.
  comm.launched.fetch_sub(1, std::memory_order_release);
  request.transfer.end();
}

void ScheduleWork::cancel(Request& /*request*/) {
  fail(MPI_ERR_REQUEST, "a collective cannot be cancelled");
}

void ScheduleWork::before_report(Request& request) {
  if (!why_.empty()) throw Failure(request.transfer.outcome.error, why_);
}

bool ScheduleWork::detach(Request& request) {
  if (request.transfer.ended()) return false;
  fail(MPI_ERR_REQUEST, "a collective that is under way cannot be freed");
}

}  // namespace weft::mpi
