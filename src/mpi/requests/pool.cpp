// The slow ways of the request pool, its beginning and end, and communicators that end while
// requests still need them.
#include "mpi/requests/pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "mpi/counters.hpp"
#include "mpi/messages.hpp"
#include "mpi/messages/under_way.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/requests/matched.hpp"
#include "mpi/requests/send_buffer.hpp"
#include "weft/base/error.hpp"

namespace weft::mpi {

static_assert(sizeof(Request) == 3 * base::kCacheLine);

constinit RequestPool* detail::the_request_pool = nullptr;

namespace {

/// Handles fit an int.
constexpr uint32_t kMostRequests = (1U << (31 - kGenerationBits)) - 2;
constexpr std::chrono::microseconds kBetweenLooks{100};
constexpr std::size_t kSpareBytes = base::kThreadSlots * base::kCacheLine;

/// Freed communicators that were still needed when they were looked at last.
struct Unused {
  std::mutex lock;
  std::vector<Comm*> comms;
};
Unused& freed_comms() {
  static Unused& freed = *new Unused;  // not destroyed: see release at exit, process.cpp
  return freed;
}

/// Drops those that no request or blocking call needs any more; all of them if `all`.
void sweep_freed_comms(bool all) {
  std::vector<Comm*> gone;
  {
    Unused& freed = freed_comms();
    const std::scoped_lock guard(freed.lock);
    const auto kept = std::partition(freed.comms.begin(), freed.comms.end(), [&](Comm* comm) {
      return !all &&
             (request_pool().is_borrowed(*comm) || is_in_buffers(*comm) || UnderWay::any_on(*comm));
    });
    gone.assign(kept, freed.comms.end());
    freed.comms.erase(kept, freed.comms.end());
  }
  for (Comm* comm : gone) comm->drop();
}

/// A request that was freed while it was active goes when it ends.
class Retirer final : public Waiter {
 public:
  void on_end(Transfer& transfer) noexcept override { retire(request_of(transfer)); }
};
constinit Retirer the_retirer;

/// Sends that the program freed before they had ended are sent all the same (MPI 11.2.2);
/// `receives`: and receives that nothing came for are taken back.
void end_freed(bool receives) {
  request_pool().for_each([&](Request& freed) {
    if (freed.receives && !receives) return;
    if (!freed.transfer.withdraw_waiter(the_retirer)) return;
    if (freed.work != nullptr && freed.work->wind_up(receives)) return retire_when_ended(freed);
    if (freed.receives) (void)cancel_recv(freed.transfer);
    if (!freed.transfer.ended()) wait(freed.transfer);
    retire(freed);
  });
}

/// "receive from rank 1 tag 5 on MPI_COMM_WORLD (pending)"
std::string described(const Request& request) {
  std::string text = request.receives ? "receive" : "send";
  if (request.work != nullptr) text = "nonblocking operation";
  if (request.persistent) text = "persistent request";
  Comm* const comm = request.of();
  const Transfer& transfer = request.transfer;
  const bool is_pending = !transfer.ended();
  if (is_pending && request.work == nullptr && comm != nullptr) {
    text +=
        fmt::format(" {} {} {}", request.receives ? "from" : "to",
                    transfer.process == kAnySource
                        ? "any rank"
                        : fmt::format("rank {}", comm->remote->rank_of(transfer.process)),
                    transfer.tag == MPI_ANY_TAG ? "any tag" : fmt::format("tag {}", transfer.tag));
  }
  if (comm != nullptr) {
    const std::scoped_lock guard(comm->lock);
    text += comm->name.empty() ? fmt::format(" in context {}", comm->context) : " on " + comm->name;
  }
  return text + (is_pending ? " (pending)" : " (ended)");
}

void tell_leaked_requests() {
  std::vector<std::string> which;
  request_pool().for_each([&](Request& leaked) {
    which.push_back(described(leaked) + made_at(request_pool().maker_of(leaked)));
  });
  tell_leaks("requests", which);
}

}  // namespace

RequestPool::RequestPool(uint32_t count, bool each_its_own)
    : each_its_own_(each_its_own),
      records_(std::clamp(count, 64U, kMostRequests)),
      makers_(each_its_own ? std::make_unique<const void*[]>(records_.count()) : nullptr),
      spares_(reinterpret_cast<Spare*>(base::map_records(kSpareBytes))),
      begun_(reinterpret_cast<std::atomic<uint64_t>*>(base::map_records(begun_bytes()))) {
  static_assert(sizeof(Spare) == base::kCacheLine);
  done_ = make_constant(kEmpty);
  done_with_no_process_ = make_constant(kNoProcess);
}

RequestPool::~RequestPool() {
  for (const MPI_Request constant : {done_, done_with_no_process_}) {
    const uintptr_t place = (reinterpret_cast<uintptr_t>(constant) >> kGenerationBits) - 1;
    let_go(records_[static_cast<uint32_t>(place)]);
  }
  base::unmap_records(reinterpret_cast<std::byte*>(begun_), begun_bytes());
  base::unmap_records(reinterpret_cast<std::byte*>(spares_), kSpareBytes);
}

void RequestPool::refuse() const {
  fail(MPI_ERR_OTHER, fmt::format("{} requests exist already, as many as there may be "
                                  "(configuration mpi.requests)",
                                  records_.count()));
}

void RequestPool::begin(Request& request) noexcept {
  new (&request) Request;
  WEFT_CHECK(&request_of(request.transfer) == &request, "a request begins with its transfer");
  request.generation = 2;
  const uint32_t index = records_.index_of(request);
  const uint32_t word = index / kWordBits;
  // release, twice: pairs with any_begun's acquires; the record is whole.
  begun_[word].fetch_or(uint64_t{1} << (index % kWordBits), std::memory_order_release);
  uint32_t words = begun_words_.load(std::memory_order_relaxed);
  while (words <= word &&
         !begun_words_.compare_exchange_weak(words, word + 1, std::memory_order_release,
                                             std::memory_order_relaxed)) {
  }
}

void RequestPool::let_go(Request& request) noexcept {
  delete std::exchange(request.work, nullptr);
  request.comm = Held<Comm>();
  request.type = Held<Datatype>();
  request.persistent = false;
  request.active = false;
}

MPI_Request RequestPool::make_constant(const Outcome& outcome) {
  Request& request = take();
  request.constant = true;
  // So that whoever handles plain requests first leaves these to the general way.
  request.work = new RequestWork;
  request.transfer.outcome = outcome;
  return issue(request);
}

MPI_Request RequestPool::issue_done(const Outcome& outcome, bool receives) noexcept {
  Request* request = records_.allocate();
  // What it is about has happened, so there is nothing to refuse any more.
  if (request == nullptr) return receives ? done_with_no_process_ : done_;
  if (request->generation == 0) begin(*request);
  request->transfer.outcome = outcome;
  // relaxed: nobody else knows it. A record whose transfer never began may have been left pending.
  request->transfer.state.store(Transfer::kEnded, std::memory_order_relaxed);
  request->receives = receives;
  return issue(*request);
}

bool RequestPool::is_borrowed(const Comm& comm) noexcept {
  return any_begun([&](const Request& request) {
    // acquire: pairs with end_handle's release.
    return request.borrowed.load(std::memory_order_acquire) == &comm;
  });
}

bool RequestPool::is_pending(const Comm& comm) noexcept {
  // Should another communicator's use of the record come in between, the next look tells.
  return any_begun([&](const Request& request) {
    return request.borrowed.load(std::memory_order_acquire) == &comm && !request.transfer.ended();
  });
}

Request& make_request() {
  Request& request = request_pool().take();
  request_pool().issue(request);
  request.transfer.outcome = kEmpty;
  // relaxed: as in issue_done.
  request.transfer.state.store(Transfer::kEnded, std::memory_order_relaxed);
  request.persistent = false;
  request.active = false;
  request.receives = false;
  return request;
}

MPI_Request handle_of(const Request& request) noexcept { return request_pool().name(request); }

void refuse_handle(MPI_Request handle) {
  fail(MPI_ERR_REQUEST, handle == MPI_REQUEST_NULL ? "MPI_REQUEST_NULL where a request must be"
                                                   : "not a request: ended, freed, or never made");
}

Request& request(MPI_Request handle) { return named(handle); }

void retire(Request& request) noexcept { request_pool().retire(request); }

void retire_when_ended(Request& request) noexcept {
  if (!request.transfer.set_waiter(the_retirer)) retire(request);
}

bool wait_for_operations(const Comm& comm) {
  bool all = false;
  runtime().wait_until([&] {
    // acquire: pairs with Driver::finish.
    all = comm.launched.load(std::memory_order_acquire) == 0 && !request_pool().is_pending(comm) &&
          !is_in_buffers(comm);
    // What a dead member was to send to whoever may never come.
    return all || has_dead_member(comm);
  });
  // Who ends a blocking call wakes nobody: this looks again from time to time.
  while (all && UnderWay::any_on(comm)) {
    if (has_dead_member(comm)) return false;
    Synchronizer never(1);
    (void)runtime().wait_for(never, kBetweenLooks);
  }
  return all;
}

void drop_when_unused(Comm* comm) {
  detach_buffer_of(*comm);
  {
    Unused& freed = freed_comms();
    const std::scoped_lock guard(freed.lock);
    freed.comms.push_back(comm);
  }
  sweep_freed_comms(false);
}

void open_requests() {
  detail::the_request_pool = new RequestPool(settings().requests, settings().report_leaks);
  add_counter({.name = "requests",
               .help = "Requests that exist now.",
               .kind = CounterKind::level,
               .read = [](const Comm*) -> uint64_t {
                 return detail::the_request_pool == nullptr ? 0 : request_pool().live();
               }});
}

void end_sends() {
  detach_all_buffers();
  end_freed(false);
}

void close_requests() {
  detach_all_buffers();
  end_freed(true);
  if (settings().report_leaks) tell_leaked_requests();
  end_leaked_messages();
  bool under_way = false;
  request_pool().for_each([&](Request& leaked) {
    if (leaked.work == nullptr && leaked.receives && !leaked.transfer.ended()) {
      (void)cancel_recv(leaked.transfer);
    }
    if (leaked.transfer.ended()) {
      retire(leaked);
    } else {
      under_way = true;
    }
  });
  sweep_freed_comms(true);  // after their receives are gone
  // Those that are still under way are written to when they end: the records stay where they are.
  RequestPool* pool = std::exchange(detail::the_request_pool, nullptr);
  if (!under_way) delete pool;
}

}  // namespace weft::mpi
