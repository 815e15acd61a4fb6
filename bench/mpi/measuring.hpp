// What every measure of compare.cpp is made of: its options, its threads, the clock that says when
// they end, and who talks to whom.
#pragma once

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

inline constexpr int kRateWindow = 64;
inline constexpr std::size_t kLine = 128;  // two cache lines: neighbours are fetched in pairs
inline constexpr char kOn = 0;
inline constexpr char kEnd = 1;

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Options {
  std::string measure;
  int bytes = 8;
  int threads = 1;
  int length = 0;
  int unexpected = 0;
  int window = kRateWindow;
  int ranks = 2;
  int calls = 0;
  double seconds = 1;
  bool any_tag = false;  // a window may be of other threads' messages, too: as many as are sent
  bool own_comms = false;
  bool overtaking = false;
  bool exact = false;
  bool cold = false;
  bool tasks = false;
};

struct Reading {
  double seconds = 0;
  double done = 0;
  double fairness = 1;

  [[nodiscard]] double per_second() const { return seconds > 0 ? done / seconds : 0; }
  [[nodiscard]] double us_each() const { return done > 0 ? seconds * 1e6 / done : 0; }
};

/// What the threads of the leading rank have done, and whether they go on.
class Meter {
 public:
  Meter(int threads, const Options& given, Clock::time_point begin)
      : counts_(static_cast<std::size_t>(threads)), given_(given), begin_(begin) {}

  /// One more is done by this thread. Shall it go on? Each count has one writer; the clock's thread
  /// only reads, and needs no order between counts.
  bool count(int thread) {
    auto& done = counts_[static_cast<std::size_t>(thread)].done;
    done.store(done.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return !over_.load(std::memory_order_relaxed);
  }

  /// The clock's thread: warms up, measures, ends. Each lasts longer than asked for until there was
  /// one for each thread on average, but not for ever. Several pairs of ranks that share the cores
  /// measure at the same time instead, and each goes on until the others have measured, too.
  Reading watch() {
    const bool alone = given_.ranks == 2;
    const double warm = given_.seconds / 4;
    pass(begin_, warm, alone ? 4 * given_.seconds : 0);
    const std::vector<uint64_t> before = now();
    const auto begin = Clock::now();
    if (alone) {
      pass(begin, given_.seconds, 10 * given_.seconds);
    } else {
      pass(begin_, warm + given_.seconds, 0);
    }
    const std::vector<uint64_t> after = now();
    Reading reading;
    reading.seconds = Seconds(Clock::now() - begin).count();
    if (!alone) std::this_thread::sleep_for(Seconds(given_.seconds / 2));
    over_.store(true, std::memory_order_relaxed);
    double least = 1e300;
    double most = 0;
    for (std::size_t i = 0; i < after.size(); ++i) {
      const auto done = static_cast<double>(after[i] - before[i]);
      reading.done += done;
      least = std::min(least, done);
      most = std::max(most, done);
    }
    reading.fairness = most > 0 ? least / most : 0;
    return reading;
  }

 private:
  struct alignas(kLine) Count {
    std::atomic<uint64_t> done{0};
  };

  [[nodiscard]] std::vector<uint64_t> now() const {
    std::vector<uint64_t> counts;
    counts.reserve(counts_.size());
    for (const Count& count : counts_) counts.push_back(count.done.load(std::memory_order_relaxed));
    return counts;
  }

  [[nodiscard]] uint64_t sum() const {
    uint64_t all = 0;
    for (const uint64_t count : now()) all += count;
    return all;
  }

  void pass(Clock::time_point begin, double at_least, double at_most) {
    const uint64_t wanted = sum() + counts_.size();
    std::this_thread::sleep_until(begin +
                                  std::chrono::duration_cast<Clock::duration>(Seconds(at_least)));
    while (sum() < wanted && Clock::now() - begin < Seconds(at_most)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::vector<Count> counts_;
  const Options& given_;
  Clock::time_point begin_;
  std::atomic<bool> over_{false};
};

/// Where threads wait until all of them were started: those that spin would starve the starting.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    opened_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

using RunTasks = int (*)(int, int64_t, void (*)(int64_t, void*), void*);
/// weft's tasks (weft_mpi.h), where the library has them.
inline RunTasks find_tasks() {
  return reinterpret_cast<RunTasks>(dlsym(RTLD_DEFAULT, "weft_mpi_run"));
}

/// The same as `run`, in tasks on one thread instead of threads.
template <typename Work>
Reading run_tasks(Meter& meter, int tasks, bool leads, Work work) {
  struct All {
    Meter& meter;
    Work& work;
  } all{meter, work};
  Reading reading;
  std::thread watcher;
  MPI_Barrier(MPI_COMM_WORLD);
  if (leads) watcher = std::thread([&] { reading = meter.watch(); });
  const int code = find_tasks()(
      1, tasks,
      [](int64_t number, void* argument) {
        auto& of = *static_cast<All*>(argument);
        of.work(static_cast<int>(number), of.meter);
      },
      &all);
  if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, code);
  if (watcher.joinable()) watcher.join();
  return reading;
}

/// Runs work(thread, meter) in so many threads, the first of them the program's own: a library may
/// serve a thread that is alone better, and programs without threads call from that one.
template <typename Work>
Reading run(const Options& given, int threads, bool leads, Work work) {
  // Rank 0 says when: the steady clock is the same in all processes of a machine.
  int64_t begin = Clock::now().time_since_epoch().count();
  MPI_Bcast(&begin, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  Meter meter(threads, given, Clock::time_point(Clock::duration(begin)));
  if (given.tasks && threads > 1) return run_tasks(meter, threads, leads, work);
  Gate gate;
  Reading reading;
  std::vector<std::thread> crew;
  for (int i = 1; i < threads; ++i) {
    crew.emplace_back([&, i] {
      gate.pass();
      work(i, meter);
    });
  }
  if (leads) {
    crew.emplace_back([&] {
      gate.pass();
      reading = meter.watch();
    });
  }
  MPI_Barrier(MPI_COMM_WORLD);
  gate.open();
  work(0, meter);
  for (std::thread& thread : crew) thread.join();
  return reading;
}

/// A communicator for each thread, or one for all.
class Comms {
 public:
  explicit Comms(const Options& given) {
    MPI_Info info = MPI_INFO_NULL;
    const auto promise = [&](const char* key) {
      if (info == MPI_INFO_NULL) MPI_Info_create(&info);
      MPI_Info_set(info, key, "true");
    };
    if (given.overtaking) promise("mpi_assert_allow_overtaking");
    if (given.exact) {
      promise("mpi_assert_no_any_source");
      promise("mpi_assert_no_any_tag");
    }
    comms_.resize(given.own_comms ? static_cast<std::size_t>(given.threads) : 1);
    for (MPI_Comm& comm : comms_) MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
  }
  ~Comms() {
    for (MPI_Comm& comm : comms_) MPI_Comm_free(&comm);
  }
  Comms(const Comms&) = delete;
  Comms& operator=(const Comms&) = delete;

  [[nodiscard]] MPI_Comm of(int thread) const {
    return comms_[static_cast<std::size_t>(thread) % comms_.size()];
  }

 private:
  std::vector<MPI_Comm> comms_;
};

inline int world_rank() {
  static const int rank = [] {
    int asked = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &asked);
    return asked;
  }();
  return rank;
}

/// Even ranks send to the next one. Bound rank by rank to two cores, all senders are on one of
/// them.
inline int partner() { return world_rank() ^ 1; }
inline bool receives() { return world_rank() % 2 == 1; }
