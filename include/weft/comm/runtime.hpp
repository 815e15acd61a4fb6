// The runtime: this process as a rank of its job, its devices, progress and waiting.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weft/base/idle_work.hpp"
#include "weft/base/types.hpp"
#include "weft/comm/completion.hpp"
#include "weft/comm/endpoint.hpp"
#include "weft/comm/message.hpp"

namespace weft {

namespace fabric {
class Job;
struct MemoryKey;
class Transport;
}  // namespace fabric

/// Who progresses (docs/design/waiting.md). `automatic` is workers: without a task scheduler in the
/// process, the same as waiters. A task that waits never polls itself, except in modes explicit and
/// waiters, where it yields to other tasks in between.
enum class Progress : uint8_t { automatic, explicit_, waiters, server, workers };

/// How threads get devices: own one each (until there are none left), or in turn for every call.
/// Or explicitly: Runtime::use_device, or EndpointSpec::device.
enum class Assignment : uint8_t { dedicated, round_robin };

/// Work that is done outside of progress' locks, by whoever next leaves progress. One object is in
/// the list once at a time.
class Deferred {
 public:
  /// Must not block or wait; may post. Where that answers retry it may defer itself again: it runs
  /// again after more progress. The object may end itself.
  virtual void run() noexcept = 0;
  Deferred* next_deferred = nullptr;  ///< the runtime's

 protected:
  ~Deferred() = default;
};

struct RuntimeOptions {
  std::optional<uint32_t> devices{};       ///< ≤ 1024; 0 or default: configuration `comm.devices`
  std::optional<Progress> progress{};      ///< default: configuration `comm.progress`
  std::optional<uint32_t> operations{};    ///< default: configuration `comm.operations`
  std::optional<Assignment> assignment{};  ///< default: configuration `comm.assignment`
  std::optional<bool> serial_progress{};   ///< default: configuration `comm.serial_progress`
  std::optional<uint64_t> report_quiet_ns{};  ///< default: configuration `comm.report_quiet`
  /// What waits in a room above, in its words, for what comm.report_quiet logs: parts that each
  /// begin with "; ". `all`: the core has found something; else only what looks wrong. Called by a
  /// thread that holds no lock, whether it is in a call or serves devices.
  std::function<std::string(bool all)> what_waits{};
  fabric::Job* job = nullptr;  ///< tests: a rank of a local job; default: join_job()
  /// Tests: wraps the transport (interceptors) before the runtime uses it.
  std::function<std::unique_ptr<fabric::Transport>(std::unique_ptr<fabric::Transport>)> wrap{};
};

/// A communication resource instance: own rings, own progress lock (try-lock only), own doorbell.
class Device;

/// What a device has counted so far.
struct DeviceCounts {
  uint64_t frames = 0;       ///< that arrived
  uint64_t far_frames = 0;   ///< from other nodes, with transport by_node; returns, too
  uint64_t polls = 0;        ///< looks at what arrived
  uint64_t empty_polls = 0;  ///< of them, those that found nothing
  uint64_t held = 0;         ///< frames left where they were until there was room for them
  uint64_t refusals = 0;     ///< tries to serve it that found another thread serving
  uint64_t parks = 0;        ///< times that a thread parked while another served
  uint64_t sleeps = 0;       ///< of whoever served it, until a doorbell rang
  uint64_t unrung = 0;       ///< of them, those ended by a second look at what had not rung
};

/// This process in its job. One per process (tests: one per rank of a local job). Made and ended
/// collectively: its end waits for that of all living ranks, but not where it is ended by an
/// exception that passes through it: then the launcher hears of a death. So who catches an
/// exception and returns from main leaves the others waiting as they do; `job().abort` ends all.
/// Thread-safe. Ended with work pending: the work is dropped, its completions are not told, and a
/// warning names how much there was. Endpoints, regions and teams end before it; if they do not, an
/// error is logged, and what touches them after that touches freed memory.
class Runtime {
 public:
  explicit Runtime(RuntimeOptions options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  [[nodiscard]] Rank rank() const noexcept;
  [[nodiscard]] int size() const noexcept;
  [[nodiscard]] fabric::Job& job() const noexcept;

  [[nodiscard]] uint32_t device_count() const noexcept;
  /// Throws Error(bad_argument) for a number that is none.
  [[nodiscard]] Device& device(uint32_t number) const;
  /// The device that this thread's next call uses: the one it asked for, or by the policy.
  [[nodiscard]] Device& this_device() const noexcept;
  /// As use_device, for who may be a task, too, in which it does nothing; nullptr: the
  /// policy's again.
  void prefer_device(const Device* device) noexcept;
  /// The calling thread uses this device from now on, whatever the policy; nothing: the policy's
  /// again. An endpoint that names one uses its own all the same. Throws Error(bad_argument) for a
  /// number that is none, and in a task: tasks use the device of the worker they belong to.
  void use_device(std::optional<uint32_t> number);

  /// Any time, any thread; each number is one that was current during the call. Throws as `device`.
  [[nodiscard]] DeviceCounts device_counts(uint32_t number) const;

  /// Serves this thread's device; only if that yielded nothing, the others in turn by try-lock
  /// until one yields or a few did not (002 Alg. 2; the next call goes on behind those), but where
  /// each thread has a core none that another thread polls just now. Returns what was served; 0:
  /// nothing was waiting, or it came less than a microsecond ago. Never blocks.
  uint32_t progress();
  /// The same for a program that asks again and again whether something has come. Where such looks
  /// follow close upon each other and bring nothing for a microsecond, or another process wants the
  /// core, it gives the core away; in a task, after fifty microseconds, its worker to other tasks.
  uint32_t progress_for_asker();

  /// Returns when `done` is ready. Progresses meanwhile (mode waiters: one waiting thread per
  /// device polls, the others park and are woken by their completion; all asleep when nothing
  /// comes). Blocks the thread, or suspends the task, that calls.
  void wait(Synchronizer& done);
  /// The same until `now_ns()` passes `deadline_ns` (base/deadline.hpp; a time that has passed: one
  /// look, which progresses, whoever calls, and gives no core away). True: ready. False: the time
  /// came first; what was posted goes on, and `done` belongs to it until it is ready. It returns
  /// later than that if others have the core.
  [[nodiscard]] bool wait_until(Synchronizer& done, uint64_t deadline_ns);
  template <class Rep, class Period>
  [[nodiscard]] bool wait_for(Synchronizer& done, const std::chrono::duration<Rep, Period>& time) {
    return wait_until(done, base::deadline_after(time));
  }
  /// Returns which of `any` is ready, the first of them if several are; the others go on. For each
  /// the caller is the one waiter that it may have. Waits as `wait` does; each look at them takes
  /// as long as there are. Throws Error(bad_argument) for none.
  std::size_t wait_any(std::span<Synchronizer* const> any);
  /// The same with a deadline, as wait_until; nothing: the time came first.
  [[nodiscard]] std::optional<std::size_t> wait_any_until(std::span<Synchronizer* const> any,
                                                          uint64_t deadline_ns);
  template <class Rep, class Period>
  [[nodiscard]] std::optional<std::size_t> wait_any_for(
      std::span<Synchronizer* const> any, const std::chrono::duration<Rep, Period>& time) {
    return wait_any_until(any, base::deadline_after(time));
  }
  /// Takes the next event of a queue that operations or signals of this runtime complete, waiting
  /// for it as `wait` does. Any number of threads and tasks, each of which gets another event; all
  /// of them look whenever something came.
  Event pop_wait(CompletionQueue& queue);
  /// The same with a deadline, as wait_until. False: the time came first, and no event was taken.
  [[nodiscard]] bool pop_until(CompletionQueue& queue, Event& event, uint64_t deadline_ns);
  template <class Rep, class Period>
  [[nodiscard]] bool pop_for(CompletionQueue& queue, Event& event,
                             const std::chrono::duration<Rep, Period>& time) {
    return pop_until(queue, event, base::deadline_after(time));
  }
  /// The same as wait for whatever else tells by a parker, or becomes ready with time.
  void wait(base::Awaited& awaited);
  /// Returns when the message's bytes are here.
  void wait(Message& message);
  /// Returns when `ready(argument)` is true. For conditions that progress in this process brings
  /// about: it is asked after each progress.
  template <class Ready>
  void wait_until(Ready ready) {
    wait_for_condition([](void* p) { return static_cast<bool>((*static_cast<Ready*>(p))()); },
                       &ready);
  }
  /// Whether a task that waits may just park: idle workers, or a thread of their own, progress
  /// (Progress::workers, Progress::server).
  [[nodiscard]] bool others_progress() const noexcept;
  /// One try of a posting call that answered retry came to nothing: progress, and if that brings
  /// nothing either, give the core away.
  void relax();
  /// The same for who does nothing else meanwhile (until_posted): if it lasts, comm.report_quiet
  /// tells.
  void relax_refused();

  /// Has `work` done soon, by whoever next leaves progress or calls `run_deferred`: who is not in
  /// progress calls that, for nobody is woken. Any thread, also from within progress.
  void defer(Deferred& work) noexcept;
  /// Does what was deferred; one load if there is nothing. For posting calls that may have ended
  /// what others wait for.
  void run_deferred() noexcept {
    // relaxed: a hint; the list is taken by an acquire.
    if (deferred_.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
      run_deferred_now();
  }
  /// Something is deferred and has not begun to run. A hint.
  [[nodiscard]] bool has_deferred() const noexcept {
    return deferred_.load(std::memory_order_relaxed) != nullptr;
  }
  /// Shared memory that node peers write without a copy; zeroed, page-aligned. Throws
  /// Error(no_memory).
  std::span<std::byte> allocate_shared(std::size_t bytes);
  /// Gives such memory back, whole; its names and Regions hold no more. Throws Error(bad_argument)
  /// if none begins there (any more). Null: nothing happens.
  void release_shared(std::span<std::byte> memory);
  /// The name of such memory, or of a part, for peers on this node; plain data, to be sent to them.
  /// Holds until the memory is released. Throws Error(bad_argument) for any other memory, which a
  /// Region can name; Error(no_memory) when there are `fabric.exposures` names.
  [[nodiscard]] fabric::MemoryKey expose_shared(std::span<std::byte> memory);
  /// A peer's memory by its name, mapped here for as long as the runtime lives; nothing if that
  /// peer is on another node, or the name is of no such memory.
  [[nodiscard]] std::optional<std::span<std::byte>> map_shared(
      const fabric::MemoryKey& name) noexcept;

  /// Messages up to this many bytes are sent eagerly: to any rank, and to this one of the job, to
  /// which it may be more (over a network).
  [[nodiscard]] std::size_t eager_bytes() const noexcept;
  [[nodiscard]] std::size_t eager_bytes(Rank to) const noexcept;
  /// The most that goes to several ranks of this node at once (Endpoint::send_shared).
  [[nodiscard]] std::size_t shared_bytes() const noexcept;
  /// Messages up to this many bytes travel inside the ring: `fabric.inline_cells`, less the header,
  /// but no more than go eagerly, unless that is less than 232. To any rank, and to this one of the
  /// job, to which it may be more (within a node).
  [[nodiscard]] std::size_t inline_bytes() const noexcept;
  [[nodiscard]] std::size_t inline_bytes(Rank to) const noexcept;

  /// Once all that came of it is delivered; an operation with it may have failed with `peer_died` a
  /// moment before. Throws Error(no_such_peer) for a rank outside the job.
  [[nodiscard]] bool is_dead(Rank rank) const;
  /// Why `rank` is dead, naming rank, host and cause; empty while it lives, and for no rank.
  [[nodiscard]] std::string cause_of_death(Rank rank) const;

  /// All ranks have called it.
  void barrier();

  struct Impl;  // src/comm/runtime_impl.hpp
  [[nodiscard]] Impl& impl() const noexcept { return *impl_; }

 private:
  void wait_for_condition(bool (*ready)(void*), void* argument);
  void run_deferred_now() noexcept;

  std::atomic<Deferred*> deferred_{nullptr};
  std::unique_ptr<Impl> impl_;
};

/// Calls `post` (a posting call in a lambda) until it answers something else than retry.
template <class Call>
Post until_posted(Runtime& runtime, Call post) {
  for (;;) {
    const Post answer = post();
    if (answer != Post::retry) return answer;
    runtime.relax_refused();
  }
}

}  // namespace weft
