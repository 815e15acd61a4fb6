// This process in MPI: made by the first that initializes, ended by the last that finalizes.
#include "mpi/process.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "mpi/comm.hpp"
#include "mpi/messages.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/gate.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/process/main_thread.hpp"
#include "mpi/process/process_life.hpp"
#include "mpi/process/settings.hpp"
#include "mpi/tool/stats.hpp"
#include "mpi/tool/tool.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/base/log.hpp"
#include "weft/fabric/job.hpp"

namespace weft::mpi {
namespace {

RuntimeOptions runtime_options(const Settings& settings) {
  RuntimeOptions options;
  if (settings.operations > 0) options.operations = settings.operations;
  options.assignment =
      settings.devices == "round-robin" ? Assignment::round_robin : Assignment::dedicated;
  const bool all_waits = settings.report_waits_ns != 0;
  if (all_waits) options.report_quiet_ns = settings.report_waits_ns;
  options.what_waits = [all_waits](bool all) { return what_waits(all || all_waits); };
  return options;
}

/// At most one at a time. Calls that serve MPI find it through `process()`.
class TheProcess final : public Process {
 public:
  TheProcess(Settings settings, int level)
      : settings_(std::move(settings)), runtime_(runtime_options(settings_)), level_(level) {}

  Runtime& runtime() noexcept override { return runtime_; }
  [[nodiscard]] const Settings& settings() const noexcept override { return settings_; }
  [[nodiscard]] int thread_level() const noexcept override {
    return level_.load(std::memory_order_relaxed);
  }
  void set_level(int level) noexcept { level_.store(level, std::memory_order_relaxed); }
  [[noreturn]] void abort(int code, const std::string& why) override {
    runtime_.job().abort(code, why);
    std::abort();  // not reached, which GCC does not see of a virtual function
  }

 private:
  const Settings settings_;
  Runtime runtime_;
  std::atomic<int> level_;  ///< several sessions: the highest; relaxed: it only grows
};

/// All that outlasts a process. Not destroyed at exit: MPI may be asked until the very end.
struct Life {
  std::mutex lock;  ///< of users, world and world_done; with meets and ends_here; held while a
                    ///< process is made or ended
  int users = 0;
  bool world_done = false;             ///< MPI_Init succeeds once
  bool meets = false;                  ///< the last user ends the process: MPI_Init did so
  std::atomic<bool> ends_here{false};  ///< or the program does
  std::atomic<bool> world{false};      ///< release when up: world_level
  std::atomic<int> world_level{MPI_THREAD_SINGLE};  ///< relaxed: before `world`
  std::atomic<bool> configured{false};              ///< relaxed: written under the tool's lock
  std::atomic<std::thread::id> main{};              ///< the initializing thread
  std::atomic<TheProcess*> process{nullptr};  ///< release when made; readers come after the gate
  std::atomic<uint64_t> made{0};              ///< processes, so far; relaxed: as the gate
  pid_t pid = 0;                              ///< that made it: a forked child has no part in it
  bool exit_watched = false;
  bool abandoned = false;  ///< the process has ended, and stays: see end_beside_others
};

/// Of the life's lock, as long as this thread has it: what it calls of the program's may call
/// exit().
thread_local constinit bool g_holds_life = false;
class HeldLife {
 public:
  HeldLife() noexcept { g_holds_life = true; }
  ~HeldLife() { g_holds_life = false; }
  HeldLife(const HeldLife&) = delete;
  HeldLife& operator=(const HeldLife&) = delete;
};

Life& life() {
  static Life& one = *new Life;
  return one;
}

void open_all() {
  open_messages();
  open_datatypes();
  open_comms();
  open_requests();
}

void close_all() {
  if (settings().report_leaks) serve_what_came();
  tell_leaks_that_outlast();
  close_requests();
  close_comms();
  close_datatypes();
  close_messages();
}

/// Under the lock. True: from now on tools, which may call at any time, set no configuration.
void set_configured(bool configured) {
  const std::scoped_lock guard(tool::lock());
  life().configured.store(configured, std::memory_order_relaxed);
}

void make_configured(int level) {
  Settings settings = read_settings();
  base::warn_unknown_config();
  set_checking(settings.check_arguments);
  auto made = std::make_unique<TheProcess>(std::move(settings), level);
  base::set_log_rank(made->runtime().rank().value);
  note_makers(made->settings().report_leaks);
  life().made.fetch_add(1, std::memory_order_relaxed);
  life().process.store(made.get(), std::memory_order_release);
  try {
    open_all();
  } catch (...) {
    life().process.store(nullptr, std::memory_order_relaxed);
    throw;
  }
  life().pid = ::getpid();
  (void)made.release();
}

/// Under the lock. What fails on the way leaves no process behind.
void make(int level) {
  set_configured(true);
  try {
    make_configured(level);
  } catch (...) {
    set_configured(false);
    throw;
  }
}

/// Under the lock. Tools may look at any time, from any thread: while one does, MPI neither becomes
/// active nor ends.
void set_gate(Gate gate) {
  const std::scoped_lock guard(tool::lock());
  g_gate.store(gate, std::memory_order_release);
}

/// Under the lock: calls are served from now on.
void open_gate(const TheProcess& process) {
  set_gate(process.settings().check_threads ? Gate::checked : Gate::open);
}

/// Everybody has come to the end: nobody waits for messages of this process any more.
void meet_at_the_end(TheProcess& process) {
  try {
    process.runtime().barrier();
  } catch (const Error& error) {
    base::log(base::LogLevel::warn,
              fmt::format("MPI_Finalize without the others: {}", error.what()));
  }
}

/// Whether another thread is in a blocking call, now and for the next moments: one whose call has
/// been served may have told others so before it returns.
bool somebody_stays() {
  constexpr int kMostMilliseconds = 500;
  for (int waited = 0; any_blocking_call(); ++waited) {
    if (waited == kMostMilliseconds) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// Another thread waits in MPI, and will for ever: nothing is taken from it.
void end_beside_others(TheProcess& process) {
  base::log(
      base::LogLevel::error,
      "MPI_Finalize was called while another thread is in a blocking call, which will not end");
  life().abandoned = true;
  try {
    process.runtime().job().fence();  // as the others' runtimes do when they end
  } catch (const Error& error) {
    base::log(base::LogLevel::warn, fmt::format("at the end: {}", error.what()));
  }
}

/// Under the lock.
void end() {
  life().meets = false;
  TheProcess* const process = life().process.load(std::memory_order_relaxed);
  meet_at_the_end(*process);
  if (process->settings().stats) print_stats();
  set_gate(Gate::after);
  if (somebody_stays()) return end_beside_others(*process);
  note_makers(false);
  close_all();
  life().process.store(nullptr, std::memory_order_relaxed);
  delete process;
  set_configured(false);
}

/// Under the lock. The last session has ended: that is no matter of the others, who may never come
/// to such a point. The process stands by until MPI begins anew, or the program ends.
void stand_by() {
  set_gate(Gate::after);
  end_sends();  // freed receives may be met yet
}

/// A program of sessions alone meets the others here.
void at_exit() {
  Life& life = mpi::life();
  life.ends_here.store(true, std::memory_order_relaxed);  // a static object may end a session yet
  if (g_holds_life || life.pid != ::getpid()) return;
  // Not waited for: another thread may wait in MPI_Finalize for ranks that wait for this one.
  const std::unique_lock guard(life.lock, std::try_to_lock);
  if (!guard || life.users != 0 || life.abandoned) return;
  if (life.process.load(std::memory_order_relaxed) == nullptr) return;
  const HeldLife held;
  end();
}

/// After all of the program's own exit handlers and static objects, which may finalize: one that
/// ends without that. The others learn of it from the launcher. Nothing is taken from threads that
/// may be in MPI still, unless what is left is to be told and nobody has to be met for that.
[[gnu::destructor]] void at_the_very_end() {
  Life& life = mpi::life();
  if (life.pid != ::getpid()) return;
  if (is_world_up())
    base::log(base::LogLevel::warn,
              "the program ended without MPI_Finalize; messages under way may be lost");
  const std::unique_lock guard(life.lock, std::try_to_lock);
  TheProcess* const process = life.process.load(std::memory_order_relaxed);
  if (guard && process != nullptr && life.users != 0 && process->settings().report_leaks &&
      process->runtime().size() == 1) {
    const HeldLife held;
    end();
  }
}

}  // namespace

Process& process() noexcept { return *life().process.load(std::memory_order_acquire); }

bool is_active() noexcept {
  const Gate gate = g_gate.load(std::memory_order_relaxed);
  return gate == Gate::open || gate == Gate::checked;
}

bool is_configured() noexcept { return life().configured.load(std::memory_order_relaxed); }

uint64_t process_number() noexcept { return life().made.load(std::memory_order_relaxed); }

bool is_world_up() noexcept { return life().world.load(std::memory_order_acquire); }

int world_level() noexcept { return life().world_level.load(std::memory_order_relaxed); }

bool is_main_thread() noexcept {
  return life().main.load(std::memory_order_relaxed) == std::this_thread::get_id();
}

int acquire_process(int required, bool world) {
  Life& life = mpi::life();
  const std::scoped_lock guard(life.lock);
  const HeldLife held;
  if (world && life.world_done)
    fail(MPI_ERR_OTHER, "MPI was initialized before: a program may do that once");
  if (life.process.load(std::memory_order_relaxed) == nullptr) make(required);
  TheProcess& process = *life.process.load(std::memory_order_relaxed);
  if (life.users++ == 0) {
    life.main.store(std::this_thread::get_id(), std::memory_order_relaxed);
    process.set_level(required);
    open_gate(process);
  } else {
    process.set_level(std::max(required, process.thread_level()));
  }
  if (world) {
    life.main.store(std::this_thread::get_id(), std::memory_order_relaxed);
    life.world_done = life.meets = true;
    life.world_level.store(process.thread_level(), std::memory_order_relaxed);
    // release: pairs with is_world_up.
    life.world.store(true, std::memory_order_release);
  }
  if (!life.exit_watched) {
    life.exit_watched = true;
    std::atexit(at_exit);
  }
  return process.thread_level();
}

void release_process(bool world) {
  Life& life = mpi::life();
  // MPI 11.2.4: first of all, as if MPI_COMM_SELF were freed; the callbacks may still call MPI.
  if (world) {
    if (Comm* self = comms().find(MPI_COMM_SELF); self != nullptr)
      self->attributes.end_all(AttributeOf::comm, MPI_COMM_SELF);
  }
  const std::scoped_lock guard(life.lock);
  const HeldLife held;
  if (world) life.world.store(false, std::memory_order_relaxed);
  if (--life.users != 0) return;
  if (life.meets || life.ends_here.load(std::memory_order_relaxed)) {
    end();
  } else {
    stand_by();
  }
}

}  // namespace weft::mpi
