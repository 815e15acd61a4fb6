// Waiting for transfers, probing, cancelling.
#include <optional>

#include "mpi/messages/engine.hpp"
#include "mpi/process.hpp"
#include "weft/base/backoff.hpp"
#include "weft/base/idle_work.hpp"

namespace weft::mpi {

namespace {

/// Waits for the ends of all transfers of an array. Who polls looks at them one after the other;
/// only who is about to sleep names a waiter: one counter preset to their number (000 §2.2), for
/// the rest of the wait. May go once it is ready.
class AllEnded final : public base::Awaited, public Waiter {
 public:
  explicit AllEnded(std::span<Transfer* const> transfers) noexcept : left_(transfers) {}

  bool ready() noexcept override {
    if (named_) return done_.ready();
    while (!left_.empty() && left_.front()->ended()) left_ = left_.subspan(1);
    return left_.empty();
  }
  bool enroll(base::Parker& parker) noexcept override {
    if (!std::exchange(named_, true)) {
      done_.reset(static_cast<uint32_t>(left_.size()));
      uint32_t ended = 0;
      for (Transfer* each : left_) ended += each->set_waiter(*this) ? 0 : 1;
      if (ended != 0) done_.arrive(ended);
    }
    return done_.set_waiter(parker);
  }
  void withdraw() noexcept override {
    if (named_) done_.withdraw_waiter();
  }
  void on_end(Transfer& /*transfer*/) noexcept override { done_.arrive(); }

 private:
  std::span<Transfer* const> left_;  ///< the first of them has not ended when it was looked at last
  bool named_ = false;
  Synchronizer done_{0};
};

/// Waits for the end of one.
class OneEnded final : public base::Awaited {
 public:
  explicit OneEnded(Transfer& transfer) noexcept : transfer_(transfer) {}

  bool ready() noexcept override { return transfer_.ended(); }
  bool enroll(base::Parker& parker) noexcept override { return transfer_.set_parker(parker); }
  void withdraw() noexcept override { transfer_.withdraw_parker(); }

 private:
  Transfer& transfer_;
};

/// Is ready with the first of several ends; the later ones must be through before it may go.
class FirstOf final : public Waiter {
 public:
  void on_end(Transfer& /*transfer*/) noexcept override {
    // relaxed: `done` orders; only the first one tells it.
    if (!told_.exchange(true, std::memory_order_relaxed)) done.arrive();
    // release: pairs with wait_for. The last access.
    through_.fetch_add(1, std::memory_order_release);
  }
  /// Returns when `n` ends have been through.
  void wait_for(uint32_t n) noexcept {
    for (base::Backoff backoff; through_.load(std::memory_order_acquire) != n;) backoff.pause();
  }
  Synchronizer done;

 private:
  std::atomic<bool> told_{false};
  std::atomic<uint32_t> through_{0};
};

[[nodiscard]] Rank process_of(const Comm& comm, int from) noexcept {
  return from == MPI_ANY_SOURCE ? kAnySource : comm.process(from);
}

[[nodiscard]] Channel& program_channel(const Comm& comm) noexcept {
  return *comm.channels[static_cast<std::size_t>(Plane::program)];
}

Outcome outcome_of(const Channel& channel, const Arrived& message) noexcept {
  return {.source = channel.group->rank_of(message.process),
          .tag = message.tag,
          .bytes = static_cast<int64_t>(message.bytes)};
}

}  // namespace

uint32_t progress() { return runtime().progress(); }

void serve_what_came() {
  constexpr int kMostRounds = 1000;  // somebody may go on sending
  for (int round = 0; round < kMostRounds && progress() != 0; ++round) {
  }
}

uint32_t progress_for_asker() { return runtime().progress_for_asker(); }

base::Parker* parking_task() noexcept {
  Engine& my = engine();
  my.count(Engine::waits);
  base::Parker& caller = base::this_parker();
  return !caller.may_poll() && my.runtime().others_progress() ? &caller : nullptr;
}

void wait_in_thread(Transfer& transfer) {
  OneEnded one(transfer);
  if (!one.ready()) runtime().wait(one);
}

void wait_all(std::span<Transfer* const> transfers) {
  if (transfers.size() == 1) {
    wait(*transfers.front());
    return;
  }
  AllEnded all(transfers);
  if (all.ready()) return;
  engine().count(Engine::waits);
  runtime().wait(all);
}

bool wait_any(std::span<Transfer* const> transfers) {
  for (Transfer* each : transfers) {
    if (each->ended()) return true;
  }
  FirstOf first;
  std::size_t named = 0;
  while (named < transfers.size() && transfers[named]->set_waiter(first)) ++named;
  const bool taken = named < transfers.size() && !transfers[named]->ended();
  if (named == transfers.size()) {
    engine().count(Engine::waits);
    runtime().wait(first.done);
  }
  // Names that cannot be taken back are being told, or were.
  uint32_t told = 0;
  for (std::size_t i = 0; i < named; ++i) {
    if (!transfers[i]->withdraw_waiter(first)) ++told;
  }
  first.wait_for(told);
  return !taken || told != 0;
}

// --- Probes --------------------------------------------------------------------------------------

bool probe(Comm& comm, int from, int tag, Outcome& found) {
  struct Look {
    const Channel& channel;
    Outcome& found;
  } look{program_channel(comm), found};
  engine().expect(look.channel, tag);
  return program_channel(comm).find(
      process_of(comm, from), tag,
      [](void* argument, const Arrived& message) {
        auto& my = *static_cast<Look*>(argument);
        my.found = outcome_of(my.channel, message);
      },
      &look);
}

namespace {

/// How many of those who may send on it have died; and one of them, if any has.
struct Dead {
  int count = 0;
  Rank one{-1};
};
Dead dead_of(const Comm& comm) {
  Dead dead;
  for (int peer = 0; peer < comm.remote_size && engine().deaths(); ++peer) {
    if (!runtime().is_dead(comm.process(peer))) continue;
    dead.one = comm.process(peer);
    ++dead.count;
  }
  return dead;
}

[[noreturn]] void fail_for(Rank dead, Comm& comm) {
  throw Failure(MPI_ERR_PROC_ABORTED, runtime().cause_of_death(dead)).about(&comm);
}

}  // namespace

bool has_dead_member(const Comm& comm) { return dead_of(comm).count != 0; }

Rank whose_death_leaves_nobody(const Comm& comm, int from) {
  if (!engine().deaths()) [[likely]]
    return Rank{-1};
  if (from != MPI_ANY_SOURCE) {
    const Rank process = comm.process(from);
    return runtime().is_dead(process) ? process : Rank{-1};
  }
  const Dead dead = dead_of(comm);
  // This process itself may send to itself, but somebody else was meant.
  const int others = comm.remote_size - (comm.inter ? 0 : 1);
  return dead.count >= others ? dead.one : Rank{-1};
}

/// What it sent may still lie in a ring when its death is known: fails if it is not there either.
void look_once_more(Comm& comm, int from, int tag, Outcome& found, Rank dead) {
  constexpr int kMostPolls = 1024;  // others may send for ever
  for (int polls = 0; !probe(comm, from, tag, found); ++polls) {
    if (polls == kMostPolls || progress() == 0) {
      if (!probe(comm, from, tag, found)) fail_for(dead, comm);
      return;
    }
  }
}

bool is_there_after_death(Comm& comm, int from, int tag, Outcome& found) {
  const Rank dead = whose_death_leaves_nobody(comm, from);
  if (dead.value < 0) [[likely]]
    return false;
  look_once_more(comm, from, tag, found, dead);
  return true;
}

void wait_for_arrival(Comm& comm, int from, int tag, Outcome& found) {
  engine().expect(program_channel(comm), tag);  // before it is settled which device is polled
  // Who waits for anybody may have waited for one that dies now, as receives do.
  const int dead_then = from == MPI_ANY_SOURCE ? dead_of(comm).count : 0;
  // A task may go on in another thread.
  std::optional<Probing> told;
  if (base::this_parker().may_poll()) told.emplace(comm, from, tag);
  Rank dead{-1};
  runtime().wait_until([&] {
    if (probe(comm, from, tag, found)) return true;
    if (!engine().deaths()) [[likely]]
      return false;
    dead = whose_death_leaves_nobody(comm, from);
    if (from == MPI_ANY_SOURCE) {
      const Dead now = dead_of(comm);
      if (now.count > dead_then) dead = now.one;
    }
    return dead.value >= 0;
  });
  if (dead.value >= 0) look_once_more(comm, from, tag, found, dead);
}

/// A message taken out of its channel is its record, under the name that others know.
struct Extracted : Arrived {};

Extracted* extract(Comm& comm, int from, int tag, Outcome& found) {
  Channel& channel = program_channel(comm);
  engine().expect(channel, tag);
  Arrived* const message = engine().extract(channel, process_of(comm, from), tag);
  if (message != nullptr) found = outcome_of(channel, *message);
  return static_cast<Extracted*>(message);
}

void start_recv_extracted(Transfer& transfer, Extracted& message, void* buffer, int64_t count,
                          const Datatype& type) {
  transfer.prepare(*message.channel, kAnySource, MPI_ANY_TAG, buffer, count, type);
  transfer.kind = 0;
  engine().receive(transfer, message);
  runtime().run_deferred();
}

void discard(Extracted& message) noexcept { engine().drop(message); }

bool cancel_recv(Transfer& transfer) {
  if (transfer.ended() || !engine().withdraw(transfer)) return false;
  transfer.outcome.cancelled = true;
  transfer.end();
  return true;
}

void cancel_send(Transfer& transfer) {
  if (!transfer.ended()) engine().recall(transfer);
}

}  // namespace weft::mpi
