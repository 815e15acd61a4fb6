// A device: a communication resource instance (002 §III, 000 §5.2.6). Own port of the transport,
// own progress lock (only ever tried), own pending work, own counters.
//
// Who may call: `try_progress`, `enqueue` any thread. Everything marked (lock) runs under the
// progress lock, in whichever thread holds it.
// Progress guarantee: `try_progress` never blocks; `enqueue` is one exchange.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "comm/keepers.hpp"
#include "comm/kept_bytes.hpp"
#include "comm/operation.hpp"
#include "comm/owed_answers.hpp"
#include "comm/received_regions.hpp"
#include "comm/unexpected.hpp"
#include "comm/waiting.hpp"
#include "comm/wire.hpp"
#include "weft/base/asymmetric_fence.hpp"
#include "weft/base/biased_lock.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/counters.hpp"
#include "weft/base/thread_counters.hpp"
#include "weft/comm/runtime.hpp"
#include "weft/fabric/transport.hpp"

namespace weft {

namespace comm {
/// Unparks a server that sleeps on doorbells: rings its device's own.
class BellParker final : public base::Parker {
 public:
  explicit BellParker(fabric::Port& port) noexcept : port_(port) {}
  void park() noexcept override {}
  bool park_until(uint64_t /*deadline_ns*/) noexcept override { return true; }
  void unpark() noexcept override { port_.ring_self(); }

 private:
  fabric::Port& port_;
};
}  // namespace comm

class Device final : public fabric::Sink {
 public:
  /// What a device counts; written under its lock.
  enum Count : uint8_t {
    frames_in,
    polls,
    empty_polls,
    unexpected,
    held,
    late,         ///< frames for an endpoint or an operation that is gone
    malformed,    ///< frames that made no sense
    probe_polls,  ///< that brought probes alone (probes.hpp), which end no quiet
    kCounts
  };

  /// What threads count that do not hold its lock.
  enum ThreadCount : uint8_t {
    refusals,  ///< tries of the lock that found it taken
    parks,     ///< times that a thread parked, waiting for what it brings
    kThreadCounts
  };

  Device(Runtime::Impl& runtime, uint16_t number, std::unique_ptr<fabric::Port> port);

  [[nodiscard]] uint16_t number() const noexcept { return number_; }
  [[nodiscard]] fabric::Port& port() noexcept { return *port_; }
  /// Tells `theirs`, an operation of `to`, that it is over; false: not now. Any thread.
  [[nodiscard]] bool send_finished(Rank to, uint16_t reply_port, comm::Handle theirs,
                                   Errc error) noexcept;
  [[nodiscard]] comm::WaitList& waiters() noexcept { return waiters_; }
  [[nodiscard]] base::Parker& bell() noexcept { return bell_; }
  [[nodiscard]] const base::CounterCells<kCounts>& counters() const noexcept { return counters_; }

  /// Serves what waits, if nobody else is serving. Returns how much was served. `lingers`: the
  /// caller waits for this device's messages, not for any.
  uint32_t try_progress(bool lingers = true) {
    uint32_t served = 0;
    if (const Turn turn(*this); turn) {
      note_kept();
      served = progress_locked(kBudget, lingers);
    }
    do_deferred();
    return served;
  }
  /// The same for a caller who will soon be back: ends after few, where polls cost little.
  uint32_t try_progress_a_little() {
    uint32_t served = 0;
    if (const Turn turn(*this); turn) {
      note_kept();
      served = progress_locked(port_->polls_dearly() ? kBudget : kFew);
    }
    do_deferred();
    return served;
  }
  /// Polls up to `turns` times until something came; one lock for all of them.
  uint32_t try_progress_often(uint32_t turns) {
    uint32_t served = 0;
    if (const Turn turn(*this); turn) {
      note_kept();
      while (served == 0 && turns-- > 0) served = progress_locked();
    }
    do_deferred();
    return served;
  }
  /// The same for somebody who wants a message of a queue endpoint: serves one frame, and if it is
  /// one of those it goes into `wanted`, past the queue.
  uint32_t try_progress_for(Endpoint::Impl& endpoint, Message& wanted) {
    uint32_t served = 0;
    if (const Turn turn(*this); turn) {
      note_kept();
      wish_ = {&endpoint, &wanted};
      served = progress_locked(1);
      wish_.endpoint = nullptr;
    }
    do_deferred();
    return served;
  }
  /// What should be short: calls `take()` under the lock, if that is free; true: it took a frame.
  template <class Take>
  bool try_short(Take take) {
    const Turn turn(*this);
    const uint32_t left = row_left_.load(std::memory_order_relaxed);
    // relaxed: as in progress_locked; what came early goes first.
    if (!turn || left == 0 || openings_.load(std::memory_order_relaxed) != 0 || !take())
      return false;
    row_left_.store(left - 1, std::memory_order_relaxed);
    count(frames_in);
    return true;
  }
  /// Whoever dequeues took so many since the other devices had their turn that they have it now.
  [[nodiscard]] bool row_is_over() const noexcept {
    return row_left_.load(std::memory_order_relaxed) == 0;
  }
  /// Whoever wants messages of any device got so many of this, its own.
  void count_in_row(uint32_t served) noexcept {
    const uint32_t left = row_left_.load(std::memory_order_relaxed);  // relaxed: see begin_row
    if (served != 0) row_left_.store(left - std::min(left, served), std::memory_order_relaxed);
  }
  /// The others had their turn: a next row, longer for each that found nothing there. relaxed, and
  /// lost updates: how long a row is decides about shares only.
  void begin_row() noexcept {
    const uint32_t row = std::min(row_.load(std::memory_order_relaxed) * 2, kMostRow);
    row_.store(row, std::memory_order_relaxed);
    row_left_.store(row, std::memory_order_relaxed);
  }
  void others_had_some() noexcept { row_.store(kLeastRow / 2, std::memory_order_relaxed); }
  /// (lock) Somebody polls for a message of this endpoint's right now.
  [[nodiscard]] bool wishes_from(const Endpoint::Impl& endpoint) const noexcept {
    return wish_.endpoint == &endpoint;
  }
  /// (lock) Where that message goes; nobody wishes any more.
  [[nodiscard]] Message* end_wish() noexcept {
    wish_.endpoint = nullptr;
    return wish_.message;
  }
  /// (lock) Tells a completion. Those that only count are told of the first success in a row at
  /// once, and of the others together, at the end of this progress. False: no room now.
  [[nodiscard]] bool tell(Completion& completion, const Event& event) noexcept {
    // The one told before may be gone, and another kind of completion be where it was.
    if (told_.completion != &completion || !completion.counts() || event.error != Errc::ok)
        [[unlikely]]
      return tell_another(completion, event);
    assign(told_.last, event);
    ++told_.count;
    return true;
  }
  /// (lock) Nobody waits for this endpoint's messages any more: it ends.
  void forget(const comm::WaitSet& waiters) noexcept {
    if (queued_ == &waiters) queued_ = nullptr;
  }
  /// All packets that came with it.
  void give_back(const fabric::Frame& frame) noexcept;
  /// (lock) Drops a frame that makes no sense; the first is told.
  void malformed_frame(const fabric::Frame& frame, const char* why);
  /// (lock) A record and a place for messages without a receive, of which early messages may take
  /// the last: while one of these is delivered it has a spare of each (early.cpp).
  struct Spares {
    comm::Unexpected* record = nullptr;
    uint32_t place = comm::KeptBytes::kNone;
  };
  [[nodiscard]] Spares& spares() noexcept { return spares_; }
  /// (lock) The same of a frame that came early, which may take what is spare.
  fabric::Taken dispatch_early(Endpoint::Impl& endpoint, const comm::Header& header,
                               std::span<const std::byte> rest, const fabric::Frame& frame) {
    struct Early {
      bool& flag;
      explicit Early(bool& the_flag) noexcept : flag(the_flag) { flag = true; }
      ~Early() { flag = false; }
    } const early(delivers_early_);
    return dispatch(endpoint, header, rest, frame);
  }
  [[nodiscard]] comm::Unexpected* allocate_unexpected() noexcept;
  [[nodiscard]] uint32_t allocate_kept() noexcept;
  /// What they gave, but was not used, or is used no more.
  void release_unexpected(comm::Unexpected& record) noexcept;
  void release_kept(uint32_t place) noexcept;
  /// (lock) An early frame was delivered.
  void note_early() noexcept { ++early_delivered_; }
  /// With serial progress, the rank's lock while this exists, taken before the device's.
  [[nodiscard]] std::unique_lock<std::recursive_mutex> serially() {
    if (serial_ == nullptr) return {};
    return std::unique_lock(*serial_);
  }
  /// Announces that the caller will sleep. fabric::arming_barrier and `look` follow.
  void arm() {
    const auto one = serially();
    const base::BiasedLock::Hold hold(lock_);
    port_->arm();
  }
  /// Looks, waiting for the lock: whoever holds it may have looked before a message came whose
  /// sender saw nobody asleep.
  uint32_t look() {
    uint32_t served;
    {
      const auto one = serially();
      const base::BiasedLock::Hold hold(lock_);
      served = progress_locked();
    }
    do_deferred();
    return served;
  }
  /// True if there is work that no doorbell will announce: do not sleep.
  [[nodiscard]] bool busy() const noexcept {
    return pending_count_.load(std::memory_order_relaxed) != 0 ||
           holding_.load(std::memory_order_relaxed) || !owed_.empty() ||
           inbox_.load(std::memory_order_relaxed) != nullptr;
  }

  /// What the last poll left in its ring for want of room. For reports.
  struct Held {
    Rank source;
    uint32_t endpoint;
  };
  [[nodiscard]] std::optional<Held> held_now() const noexcept {
    if (!holding_.load(std::memory_order_relaxed)) return std::nullopt;
    const uint64_t what = last_held_.load(std::memory_order_relaxed);
    return Held{Rank{static_cast<int32_t>(what)}, static_cast<uint32_t>(what >> 32)};
  }

  /// Hands an operation with work to this device. Any thread.
  void enqueue(comm::Operation& op) noexcept;
  /// What is left over here, or was deferred, is announced by no doorbell: whoever sleeps must come
  /// back to it. Any thread.
  void wake_sleeper() noexcept;
  /// (lock) The same, from within progress.
  void enqueue_locked(comm::Operation& op) noexcept;

  /// (lock) Gives a new operation its first turn at once.
  void start_locked(comm::Operation& op) noexcept {
    op.device = number_;
    if (!step(op)) enqueue_locked(op);
  }
  /// (lock) Ends the operation `theirs` of a peer with `error`. False: no room now.
  [[nodiscard]] bool answer(Rank to, uint16_t reply_port, comm::Handle theirs, Errc error) noexcept;
  /// (lock) Answers with an operation that has that to do, and ends it, once what this device owed
  /// that port before is answered. False: there is no memory, and nothing happened.
  [[nodiscard]] bool answer_in_order(comm::Operation& op) noexcept;
  /// (lock) The same for whoever waits for an answer to `frame`, which nobody here can take. hold:
  /// no room now. The frame is not given back.
  [[nodiscard]] fabric::Taken refuse(const fabric::Frame& frame, Errc why) noexcept;
  /// (lock) A message came to an endpoint that takes none.
  void note_refused(const Endpoint::Impl& endpoint, Rank source);
  /// (lock) What came early has no room yet: it is offered again at each look, and nobody sleeps.
  void note_early_held(Rank source, uint16_t endpoint) noexcept {
    note_held(source, endpoint);
    wake_sleeper();
  }
  /// (lock) Delivers a frame to an endpoint.
  fabric::Taken dispatch(Endpoint::Impl& endpoint, const comm::Header& header,
                         std::span<const std::byte> rest, const fabric::Frame& frame);
  /// The launcher reported a death: look at it at the next progress. Any thread.
  void note_death() noexcept;

  /// Runs `call` under the progress lock, waiting for it.
  template <class Call>
  void with_lock(Call call) {
    {
      const auto one = serially();
      const base::BiasedLock::Hold hold(lock_);
      call();
      after_progress();
    }
    do_deferred();
  }

  // Sink (lock)
  fabric::Taken on_short(Rank source, fabric::ShortHeader header,
                         std::span<const std::byte> payload) override;
  uint32_t on_run(const fabric::ShortRun& run) override;
  fabric::Taken on_frame(const fabric::Frame& frame) override;
  bool may_take_open(const fabric::Frame& frame, const comm::Header& header);
  void on_control(const fabric::Frame& frame) override;
  void on_returned(std::span<const uint32_t> packets) override;
  void on_read(uint64_t token, bool ok) override;
  void on_peer_down(Rank peer, std::string_view cause) override;

  void count(Count what, uint32_t n = 1) noexcept { counters_.add(what, n); }  // (lock)
  /// The sleeper, of which there is one: its own counter cell has one writer at a time.
  void note_sleep() noexcept { sleeps_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t far_frames() const noexcept { return port_->far_frames(); }
  [[nodiscard]] uint64_t sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }
  /// The second look of a sleep found something here that had not rung.
  void note_unrung() noexcept { unrung_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] uint64_t unrung() const noexcept { return unrung_.load(std::memory_order_relaxed); }
  void note(ThreadCount what) noexcept { thread_counters_.add(what); }
  [[nodiscard]] uint64_t counted(ThreadCount what) const noexcept {
    return thread_counters_.read(what);
  }
  /// (lock) Messages were put into an endpoint's queue: afterwards wake one of its waiters, which
  /// sees to the others if it leaves any (Endpoint::dequeue_until). None if the caller is about to
  /// take them itself.
  void note_queued(comm::WaitSet& waiters) noexcept {
    if (queued_ == &waiters || waiters.is_taken_here()) [[likely]]
      return;
    if (queued_ != nullptr) queued_->wake(1);
    queued_ = &waiters;
  }

 private:
  static constexpr uint32_t kBudget = 64;  ///< messages of a poll, at most
  static constexpr uint32_t kFew = 8;      ///< of one that ends soon
  /// Messages that a thread takes from its own device before it looks at others: as many as another
  /// gives in one poll; where others have nothing, so many that looking at 63 does not show.
  static constexpr uint32_t kLeastRow = kBudget, kMostRow = 8192;

  /// The progress lock, if nobody has it, while this exists; with serial progress the rank's, too.
  class Turn {
   public:
    explicit Turn(Device& device) noexcept : device_(device), mine_(enter()) {
      if (!mine_) [[unlikely]]
        device_.note(refusals);
    }
    ~Turn() {
      if (!mine_) return;
      device_.lock_.leave(mark_);
      if (device_.serial_ != nullptr) [[unlikely]]
        device_.serial_->unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    explicit operator bool() const noexcept { return mine_; }

   private:
    bool enter() noexcept {
      std::recursive_mutex* const serial = device_.serial_;
      if (serial == nullptr) [[likely]]
        return device_.lock_.try_enter(mark_);
      if (!serial->try_lock()) return false;
      if (device_.lock_.try_enter(mark_)) return true;
      serial->unlock();
      return false;
    }
    Device& device_;
    base::BiasedLock::Mark mark_ = nullptr;
    bool mine_;
  };

  uint32_t progress_locked(uint32_t budget = kBudget, bool lingers = true) {
    counters_.add(polls);
    holding_.store(false, std::memory_order_relaxed);
    uint32_t served = port_->poll(*this, budget);
    if (served == 0 && lingers) served = port_->linger(*this, budget);
    bool tried_some = false;
    // relaxed: `openings_` is only a hint that there may be early frames to deliver.
    if (busy() || openings_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      polled_ = served;
      served += attend();
      tried_some = std::exchange(tried_some_, false);
    }
    if (served != 0 || tried_some || queued_ != nullptr) {
      if (probes_polled_ != 0) [[unlikely]]
        note_probes(served);
      after_progress();
    } else {
      counters_.add(empty_polls);
      base::settle();
    }
    return served;
  }
  /// For those that look at others' devices, of which there may be none.
  void note_kept() noexcept {
    if (keepers_ != nullptr) keepers_->note(number_, polls_);
  }
  /// What a poll does not do by itself: pending work, early frames, and whoever sleeps.
  uint32_t attend();
  fabric::Taken noted(fabric::Taken taken, Rank source, uint16_t endpoint) noexcept;
  void note_held(Rank source, uint16_t endpoint) noexcept {
    // relaxed, both: a hint for whoever wants to sleep, and for reports.
    holding_.store(true, std::memory_order_relaxed);
    last_held_.store(uint64_t{endpoint} << 32 | static_cast<uint32_t>(source.value),
                     std::memory_order_relaxed);
  }
  void after_progress() noexcept {
    if (told_.completion != nullptr) tell_counted();
    if (queued_ != nullptr) wake_queued();
    base::light_fence();  // between what was served and the look for watchers
    if (!watchers_.empty()) [[unlikely]]
      watchers_.wake_all();
  }
  void do_deferred() noexcept { owner_.run_deferred(); }
  void wake_queued() noexcept;
  bool tell_another(Completion& completion, const Event& event) noexcept;
  void tell_counted() noexcept;
  uint32_t work();
  bool step(comm::Operation& op);
  bool read_chunk(comm::Operation& op);
  bool write_chunk(comm::Operation& op);
  Post read_piece(comm::Operation& op);
  bool fetch(comm::Operation& op);
  void fetch_next();
  bool tell_readable(comm::Operation& op);
  // shared_copy.cpp
  struct Shares;
  Shares* try_shares_with(Rank peer) noexcept;
  Shares& shares_with(Rank peer) noexcept;
  [[nodiscard]] bool takes_turns() const noexcept;
  [[nodiscard]] uint64_t patience(const Shares& shares) const noexcept;
  bool offer_share(comm::Operation& op, Shares& shares);
  bool share_chunk(comm::Operation& op);
  void copy_share(comm::Operation& op);
  void receive_share(comm::Operation& op, std::span<const std::byte> data, uint64_t offset);
  void end_share(comm::Operation& op);
  void take_share(const comm::Operation& op, uint16_t reply_port, const comm::ShareBody& offer);
  enum class Help : uint8_t { goes_on, rests, over };
  bool help_copy(comm::Operation& op);
  Help send_help(comm::Operation& op);
  [[nodiscard]] uint32_t most_ahead() const noexcept;
  void end_rests() noexcept;
  /// Between two looks at what came, which cost a quarter of a fragment's copy.
  static constexpr uint32_t kFragmentsPerTurn = 8;
  bool stream_fragments(comm::Operation& op);
  void refuse_if_freed(comm::Operation& op);
  [[nodiscard]] bool may_stream() const noexcept;
  bool send_fragment(const comm::Operation& op, uint64_t offset, uint32_t size);
  bool await_end(comm::Operation& op);
  bool send_request(comm::Operation& op);
  bool end_and_answer(comm::Operation& op);
  bool pay(comm::Operation& op) noexcept;
  bool send_signal(comm::Operation& op);
  void receive_probe(const fabric::Frame& frame, const comm::Header& header);
  void note_probes(uint32_t served) noexcept;
  void receive_fragment(const fabric::Frame& frame, const comm::DataBody& body);
  bool look_at_deaths();
  void sweep(Rank peer);
  static uint8_t wire_error(Errc error) noexcept;
  static void tell_missing_memory(const comm::Operation& op) noexcept;
  bool finish(comm::Operation& op);

  // Read by everybody, written at set-up.
  Runtime::Impl& runtime_;
  Runtime& owner_;
  std::atomic<Endpoint::Impl*>* const endpoints_;  // the runtime's, as the next two
  const std::atomic<uint32_t>& openings_;
  comm::WaitSet& watchers_;
  std::recursive_mutex* const serial_;  ///< nullptr: devices progress at the same time (002 §III.E)
  std::unique_ptr<fabric::Port> port_;
  comm::BellParker bell_;
  comm::Keepers* const keepers_;  ///< nullptr: it is the only device
  uint16_t number_;

  alignas(base::kCacheLine) base::BiasedLock lock_{base::BiasedLock::Level::outer};
  comm::Keepers::Polls polls_;          // (lock)
  comm::Operation* pending_ = nullptr;  // (lock) singly linked, in order
  comm::Operation** pending_end_ = &pending_;
  std::atomic<uint32_t> pending_count_{0};  // written under the lock, read by `busy`
  comm::OwedAnswers owed_;                  // (lock) not among `pending_`
  bool pays_first_ = false;                 // (lock) in this turn of work
  std::atomic<bool> holding_{false};        // the last poll left a frame in its ring
  std::atomic<uint64_t> last_held_{0};      // whose, and for which endpoint
  std::atomic<uint32_t> row_left_{kLeastRow};
  std::atomic<uint32_t> row_{kLeastRow};
  uint32_t reads_ = 0;  // (lock) under way: while there are any, fetches may wait for their ends
  uint64_t bytes_read_ = 0;             // (lock) by these; a last piece counts as much as others
  comm::Operation* fetches_ = nullptr;  // (lock) these, singly linked, in order
  comm::Operation** fetches_end_ = &fetches_;
  comm::Operation death_note_{};  // in the inbox or pending while `death_noted_`
  std::atomic<bool> death_noted_{false};
  uint32_t polled_ = 0;         ///< (the lock) frames that the last poll took before it attended
  uint32_t probes_polled_ = 0;  ///< (the lock) in the poll under way
  uint32_t put_off_ = 0;        ///< (the lock) how often the note was
  std::size_t swept_ = 0;       ///< (the lock) the dead whose operations here were ended
  struct {
    Completion* completion = nullptr;
    uint32_t count = 0;
    Event last;
  } told_;  // (lock) see tell
  struct {
    Endpoint::Impl* endpoint = nullptr;
    Message* message = nullptr;
  } wish_;                           // (lock) see try_progress_for
  comm::WaitSet* queued_ = nullptr;  // (lock) see note_queued
  /// Copies that are shared with a peer.
  struct Shares {
    // Offers to it.
    uint8_t open = 0;      ///< of transfers under way
    uint8_t unheard = 0;   ///< since it took one up
    uint8_t left_out = 0;  ///< transfers without, since it was left alone
    uint16_t offered = 0;  ///< number of the last one
    uint16_t served = 0;   ///< number of the one that its last fragment was for
    uint64_t heard = 0;    ///< ticks, when that came, or is supposed to
    // What it offered, in order.
    comm::Operation* helping = nullptr;  ///< with this; those that follow are
    comm::Operation* helps = nullptr;
    comm::Operation** helps_end = &helps;
  };
  std::vector<std::unique_ptr<Shares>> shares_;  // (lock) by rank; made with a large message
  comm::Operation* resting_ = nullptr;           // (lock) helps, until a packet comes back
  comm::ReceivedRegions received_;               // (lock)
  uint64_t shared_copied_ = 0;                   // (lock) bytes, by a turn of one of both ends
  uint32_t early_delivered_ = 0;                 // (lock)
  Spares spares_;                                // (lock)
  bool delivers_early_ = false;                  // (lock)
  bool tried_some_ = false;                      // (lock) see Tried

  alignas(base::kCacheLine) std::atomic<comm::Operation*> inbox_{nullptr};
  base::CounterCells<kCounts> counters_;
  std::atomic<uint64_t> sleeps_{0};
  std::atomic<uint64_t> unrung_{0};
  base::MappedThreadCounters<kThreadCounts> thread_counters_;
  comm::WaitList waiters_;
};

}  // namespace weft
