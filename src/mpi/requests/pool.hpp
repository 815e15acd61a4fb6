// Where request records come from, and how handles name them.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>

#include "mpi/request.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/records.hpp"
#include "weft/base/thread_slot.hpp"

namespace weft::mpi {

/// What receives from MPI_PROC_NULL answer.
inline constexpr Outcome kNoProcess{.source = MPI_PROC_NULL, .tag = MPI_ANY_TAG};

/// The request that a transfer is the first member of.
[[nodiscard]] inline Request& request_of(Transfer& transfer) noexcept {
  return reinterpret_cast<Request&>(transfer);
}

/// All request records of the process.
///
/// Owner and lifetime: from open_requests to close_requests. Who may call: any thread.
/// Progress: taking and giving back are a few instructions in the thread's own part
/// (base::Records). Layout: three cache lines a request, touched when first used. Invariants:
///  1. a record whose `generation` is 0 was never used and is all zeroes; any other one is a
///     Request; threads that do not own a record look at it only once its bit of `begun_` says so
///     (threads take blocks of records: those below a used one need not be);
///  2. `generation` is odd while the record has a handle, and counts up with each handle made and
///     ended, so that a handle names one use (of 2,048 in a row);
///  3. a record without handle has no work, comm, type nor borrowed communicator, but for one that
///     is being issued, which borrows its communicator before anybody can know of it.
class RequestPool {
 public:
  /// `each_its_own`: what had ended when it began has a record, too (mpi.report_leaks).
  RequestPool(uint32_t count, bool each_its_own);
  ~RequestPool();
  RequestPool(const RequestPool&) = delete;
  RequestPool& operator=(const RequestPool&) = delete;

  /// A record without handle. Throws MPI_ERR_OTHER if all are in use.
  [[nodiscard]] Request& take() {
    Request* request = records_.allocate();
    if (request == nullptr) [[unlikely]]
      refuse();
    if (request->generation == 0) [[unlikely]]
      begin(*request);
    return *request;
  }
  void give_back(Request& request) noexcept { records_.release(request); }

  /// A record for something that will most likely have ended before it gets a handle: this thread's
  /// spare one.
  [[nodiscard]] Request& take_spare() {
    Spare& spare = spares_[base::this_thread_slot()];
    Request* request = spare.request;
    if (request == nullptr) [[unlikely]]
      return take();
    spare.request = nullptr;
    return *request;
  }
  void give_back_spare(Request& request) noexcept {
    const unsigned slot = base::this_thread_slot();
    // The last slot may be several threads': it keeps none.
    if (slot == base::kSharedThreadSlot || spares_[slot].request != nullptr) [[unlikely]] {
      give_back(request);
      return;
    }
    spares_[slot].request = &request;
  }

  /// Gives it a handle.
  MPI_Request issue(Request& request) noexcept {
    ++request.generation;
    if (makers_ != nullptr) [[unlikely]]
      makers_[records_.index_of(request)] = program_call();
    return name(request);
  }
  [[nodiscard]] MPI_Request name(const Request& request) const noexcept {
    return reinterpret_cast<MPI_Request>((uintptr_t{records_.index_of(request)} + 1)
                                             << kGenerationBits |
                                         (request.generation & kGenerations));
  }
  /// nullptr: no such handle.
  [[nodiscard]] Request* find(MPI_Request handle) noexcept {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    const uintptr_t index = (value >> kGenerationBits) - 1;  // huge for what is below kFirstOwn
    if (index >= records_.count()) [[unlikely]]
      return nullptr;
    Request& request = records_[static_cast<uint32_t>(index)];
    return is_named_by(request, handle) ? &request : nullptr;
  }
  /// Whether `handle`, which was found to name this record, still does.
  [[nodiscard]] static bool is_named_by(const Request& request, MPI_Request handle) noexcept {
    const auto value = reinterpret_cast<uintptr_t>(handle);
    return (value & 1) != 0 && (request.generation & kGenerations) == (value & kGenerations);
  }

  /// Ends the handle and lets go of everything.
  void retire(Request& request) noexcept {
    end_handle(request);
    give_back(request);
  }
  /// Retires several, whose records go back together: at its end at the latest.
  class Retirements {
   public:
    explicit Retirements(RequestPool& pool) noexcept : pool_(pool) {}
    ~Retirements() { give_back(); }
    Retirements(const Retirements&) = delete;
    Retirements& operator=(const Retirements&) = delete;
    void add(Request& request) noexcept {
      pool_.end_handle(request);
      indices_[count_++] = pool_.records_.index_of(request);
      if (count_ == kMost) give_back();
    }
    /// All that were added: before the program's code runs, which may want them.
    void give_back() noexcept {
      if (count_ == 0) return;
      pool_.records_.release(std::span<const uint32_t>(indices_, count_));
      count_ = 0;
    }

   private:
    static constexpr uint32_t kMost = 32;
    RequestPool& pool_;
    uint32_t count_ = 0;
    uint32_t indices_[kMost];
  };

  /// A request for what had ended when it began: a send, or a receive from MPI_PROC_NULL. All who
  /// ask have the same one, which is never written to, so its copies are never told to be stale.
  [[nodiscard]] MPI_Request done() noexcept {
    if (each_its_own_) [[unlikely]]
      return issue_done(kEmpty, false);
    return done_;
  }
  [[nodiscard]] MPI_Request done_with_no_process() noexcept {
    if (each_its_own_) [[unlikely]]
      return issue_done(kNoProcess, true);
    return done_with_no_process_;
  }
  /// Whether it is the one of all ended sends.
  [[nodiscard]] bool is_common_done(MPI_Request handle) const noexcept { return handle == done_; }

  /// Where the program made it, for made_at.
  [[nodiscard]] const void* maker_of(const Request& request) const noexcept {
    return makers_ == nullptr ? nullptr : makers_[records_.index_of(request)];
  }

  /// Whether a request concerns it that has no hold of its own.
  [[nodiscard]] bool is_borrowed(const Comm& comm) noexcept;
  /// Whether one of these has not ended.
  [[nodiscard]] bool is_pending(const Comm& comm) noexcept;
  /// Calls `each(request)` for those that have a handle.
  template <class Each>
  void for_each(Each each) {
    // Only exact when nothing moves.
    (void)any_begun([&](Request& request) {
      if ((request.generation & 1) != 0 && !request.constant) each(request);
      return false;
    });
  }
  [[nodiscard]] uint32_t live() const noexcept { return records_.live(); }

 private:
  static constexpr uintptr_t kGenerations = (1U << kGenerationBits) - 1;
  static constexpr uint32_t kWordBits = 64;
  struct alignas(base::kCacheLine) Spare {
    Request* request;  ///< only its slot's thread looks
  };
  [[nodiscard]] std::size_t begun_bytes() const noexcept {
    return (records_.count() / kWordBits + 1) * sizeof(uint64_t);
  }
  [[noreturn]] void refuse() const;
  /// All of `retire` but giving the record back.
  void end_handle(Request& request) noexcept {
    if ((reinterpret_cast<uintptr_t>(request.work) |
         reinterpret_cast<uintptr_t>(request.comm.get()) |
         reinterpret_cast<uintptr_t>(request.type.get())) != 0) [[unlikely]]
      let_go(request);
    ++request.generation;
    // release: pairs with is_borrowed's acquire: the transfer's end came before.
    request.borrowed.store(nullptr, std::memory_order_release);
  }
  void begin(Request& request) noexcept;
  /// Whether `is_it(request)` for one that was ever used.
  template <class Predicate>
  bool any_begun(Predicate is_it) {
    // acquire, twice: pairs with begin's releases; the record is whole.
    const uint32_t words = begun_words_.load(std::memory_order_acquire);
    for (uint32_t word = 0; word < words; ++word) {
      for (uint64_t bits = begun_[word].load(std::memory_order_acquire); bits != 0;
           bits &= bits - 1) {
        if (is_it(records_[word * kWordBits + static_cast<uint32_t>(std::countr_zero(bits))]))
          return true;
      }
    }
    return false;
  }
  static void let_go(Request& request) noexcept;
  MPI_Request make_constant(const Outcome& outcome);
  MPI_Request issue_done(const Outcome& outcome, bool receives) noexcept;

  const bool each_its_own_;
  base::Records<Request> records_;
  std::unique_ptr<const void*[]> makers_;  ///< by record, if each has its own
  Spare* spares_;                          ///< by thread slot; pages of slots in use
  MPI_Request done_ = MPI_REQUEST_NULL;
  MPI_Request done_with_no_process_ = MPI_REQUEST_NULL;
  std::atomic<uint64_t>* begun_;          ///< a bit for each record that was ever used
  std::atomic<uint32_t> begun_words_{0};  ///< words of `begun_` that may have bits
};

namespace detail {
extern constinit RequestPool* the_request_pool;
}  // namespace detail
/// Between open_requests and close_requests.
[[nodiscard]] inline RequestPool& request_pool() noexcept { return *detail::the_request_pool; }

/// Throws MPI_ERR_REQUEST: `handle` names nothing.
[[noreturn]] void refuse_handle(MPI_Request handle);
/// As request(), in line.
[[nodiscard]] inline Request& named(MPI_Request handle) {
  Request* found = request_pool().find(handle);
  if (found == nullptr) [[unlikely]]
    refuse_handle(handle);
  return *found;
}

}  // namespace weft::mpi
