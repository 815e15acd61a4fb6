// A million tasks that wait at once: what each costs to make, and in memory.
//
// Measured, by one task on one worker, in ns a task; each round in a process of its own, since
// the next scheduler of a process uses what one leaves. The tasks are made in chunks of 4096, each
// from before its first spawn until all of it have started and wait:
//   cold   the scheduler new: each task gets a record, a stack with its guard, and touches the
//          stack's first page;
//   warm   the same again with the same scheduler, all of them having ended;
//   end    (of the warm ones) from the first signal until the last is joined; `cold_end` beside it.
// And by how much the process's resident memory grows while the cold ones are made, in bytes a
// task (`memory`; each line of the benchmark has it as `bytes_per_task`), and its page tables,
// which the kernel counts apart. The handles are not counted.
//
// Beside them, in the same process and round, what a waiting fiber of Boost.Fiber costs (20,000 of
// them, each with a stack of its own of the same size, waiting for a condition) and a waiting POSIX
// thread (1000; the kernel's own memory for it is not seen): to make, in `cold`, and in resident
// memory, in `memory`. Fewer, because a million of either is more than a machine gives.
//
// Limit of `cold`: the first touch of a page of a map, by the same thread, a quarter as many pages
// after each chunk: so both get their memory from a machine in the same mood. Limit of `memory`:
// 4.5 KiB.
//
// It lies when the host of a virtual machine must find the memory first: a first touch then takes
// ten times as long, and the ratio is the host's. And where tasks touch more than a page, as most
// do.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "fibers.hpp"
#include "harness/process.hpp"
#include "rounds.hpp"
#include "task.hpp"
#include "weft/base/clock.hpp"
#include "weft/task/scheduler.hpp"

namespace weft::bench::tasks::blocked {
namespace {

constexpr uint64_t kTasks = 1'000'000;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kStackBytes = std::size_t{64} << 10;
constexpr std::size_t kChunk = 4096;      ///< tasks made at once
constexpr std::size_t kTasksOfAPage = 4;  ///< a page is touched for so many tasks
constexpr uint64_t kMostFibers = 20'000;
constexpr uint64_t kMostThreads = 1000;
constexpr double kLimitBytes = 4.5 * 1024;

std::size_t page_table_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("VmPTE:", 0) == 0) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  }
  return 0;
}

struct Memory {
  std::size_t resident = resident_bytes();
  std::size_t page_tables = page_table_bytes();
};

/// Pages that nobody has touched.
class FreshPages {
 public:
  explicit FreshPages(std::size_t pages) : bytes_(pages * kPage) {
    void* const map = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw std::runtime_error("blocked: no address space for its limit");
    ::madvise(map, bytes_, MADV_NOHUGEPAGE);
    map_ = static_cast<volatile char*>(map);
  }
  ~FreshPages() { ::munmap(const_cast<char*>(map_), bytes_); }
  FreshPages(const FreshPages&) = delete;
  FreshPages& operator=(const FreshPages&) = delete;

  void touch(std::size_t pages) {
    for (; pages != 0 && touched_ < bytes_; --pages, touched_ += kPage) map_[touched_] = 1;
  }
  [[nodiscard]] std::size_t touched() const { return touched_ / kPage; }

 private:
  volatile char* map_ = nullptr;
  std::size_t bytes_;
  std::size_t touched_ = 0;
};

/// Sums over all tasks.
struct Times {
  double make_ns = 0;
  double touch_ns = 0;
  double end_ns = 0;
  double resident = 0;
  double page_tables = 0;
};

template <class Call>
void add_time_of(double& sum, Call call) {
  const uint64_t start = base::now_ns();
  call();
  sum += static_cast<double>(base::now_ns() - start);
}

// Of a task: makes the tasks, lets them wait, ends them; between the chunks, touches `pages`.
Times make_and_end(std::vector<task::Handle<void>>& handles, FreshPages* pages) {
  std::atomic<uint64_t> arrived{0};
  std::atomic<bool> go{false};
  Times times;
  const auto body = [&] {
    arrived.fetch_add(1, std::memory_order_relaxed);           // counted, not passed on
    while (!go.load(std::memory_order_relaxed)) task::wait();  // comes with the signal
  };
  for (std::size_t made = 0; made < handles.size();) {
    const std::size_t end = std::min(handles.size(), made + kChunk);
    const Memory before;
    add_time_of(times.make_ns, [&] {
      for (; made < end; ++made) handles[made] = task::spawn(body);
      while (arrived.load(std::memory_order_relaxed) != made) task::yield();
    });
    const Memory after;
    times.resident += static_cast<double>(after.resident) - static_cast<double>(before.resident);
    times.page_tables +=
        static_cast<double>(after.page_tables) - static_cast<double>(before.page_tables);
    if (pages != nullptr)
      add_time_of(times.touch_ns, [&] { pages->touch(kChunk / kTasksOfAPage); });
  }
  add_time_of(times.end_ns, [&] {
    go.store(true, std::memory_order_relaxed);
    for (auto& handle : handles) task::signal(handle.ref());
    for (auto& handle : handles) handle.join();
  });
  return times;
}

/// What one of `count` costs that `make_all` makes and lets wait, and that `end_all` ends.
struct Rival {
  double make_ns = 0;
  double resident = 0;
};
template <class MakeAll, class EndAll>
Rival rival(uint64_t count, MakeAll make_all, EndAll end_all) {
  Rival each;
  const std::size_t before = resident_bytes();
  add_time_of(each.make_ns, make_all);
  each.resident = static_cast<double>(resident_bytes()) - static_cast<double>(before);
  end_all();
  each.make_ns /= static_cast<double>(count);
  each.resident /= static_cast<double>(count);
  return each;
}

Rival fibers_that_wait(uint64_t count) {
  if (!kSwitchesCanBeMeasured) return {};
  Rival each;
  turns::run_together(1, [&](unsigned) {
    boost::fibers::mutex mutex;
    boost::fibers::condition_variable changed;
    bool go = false;
    uint64_t arrived = 0;
    std::vector<boost::fibers::fiber> all(count);
    const auto body = [&] {
      std::unique_lock lock(mutex);
      ++arrived;
      changed.wait(lock, [&] { return go; });
    };
    each = rival(
        count,
        [&] {
          for (auto& one : all) {
            one = boost::fibers::fiber(boost::fibers::launch::dispatch, std::allocator_arg,
                                       boost::fibers::fixedsize_stack(kStackBytes), body);
          }
          while (arrived != count) boost::this_fiber::yield();
        },
        [&] {
          go = true;
          changed.notify_all();
          for (auto& one : all) one.join();
        });
  });
  return each;
}

Rival threads_that_wait(uint64_t count) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  uint64_t arrived = 0;
  std::vector<std::thread> all(count);
  return rival(
      count,
      [&] {
        for (auto& one : all) {
          one = std::thread([&] {
            std::unique_lock lock(mutex);
            if (++arrived == count) changed.notify_all();
            changed.wait(lock, [&] { return go; });
          });
        }
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return arrived == count; });
      },
      [&] {
        {
          const std::lock_guard lock(mutex);
          go = true;
        }
        changed.notify_all();
        for (auto& one : all) one.join();
      });
}

/// What a round gives, in the order in which it is entered below.
using Figures = std::array<double, 11>;

Figures measure_once(uint64_t tasks) {
  Times cold;
  Times warm;
  FreshPages pages(std::max<uint64_t>(tasks / kTasksOfAPage, 1));
  {
    task::Scheduler scheduler({.workers = 1, .stack_bytes = kStackBytes});
    scheduler.run([&] {
      std::vector<task::Handle<void>> handles(tasks);
      cold = make_and_end(handles, &pages);
      warm = make_and_end(handles, nullptr);
    });
  }
  const Rival fibers = fibers_that_wait(std::min(tasks, kMostFibers));
  const Rival threads = threads_that_wait(std::min(tasks, kMostThreads));
  const auto count = static_cast<double>(tasks);
  return {cold.make_ns / count,     cold.touch_ns / static_cast<double>(pages.touched()),
          warm.make_ns / count,     warm.end_ns / count,
          cold.end_ns / count,      cold.resident / count,
          cold.page_tables / count, fibers.make_ns,
          threads.make_ns,          fibers.resident,
          threads.resident};
}

// A round, in a child process. There are no threads but the caller's now.
std::vector<double> turn(uint64_t tasks) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("blocked: no pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const Figures figures = measure_once(tasks);
      if (::write(ends[1], &figures, sizeof(figures)) == sizeof(figures)) ::_exit(0);
    } catch (const std::exception& error) {
      fmt::print(stderr, "weft-bench task blocked: {}\n", error.what());
    }
    ::_exit(1);
  }
  ::close(ends[1]);
  Figures figures{};
  const bool whole = ::read(ends[0], &figures, sizeof(figures)) == sizeof(figures);
  ::close(ends[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  if (!whole) throw std::runtime_error("blocked: a round came to nothing");
  return {figures.begin(), figures.end()};
}

// The memory's limit is a number of bytes.
void set_limit(Result& result) {
  const auto of_limit = [](double value) { return value / kLimitBytes; };
  const Summary& value = result.value;
  result.limit_name = "target";
  result.limit = Summary{kLimitBytes, kLimitBytes, kLimitBytes, value.samples};
  result.ratio =
      Summary{of_limit(value.median), of_limit(value.low), of_limit(value.high), value.samples};
}

}  // namespace

void measure(const Wanted& wanted) {
  const uint64_t tasks = wanted.tasks != 0 ? wanted.tasks : kTasks;
  Contest contest(false);
  const auto cold =
      contest.enter_all({"cold", "first_touch", "warm", "end", "cold_end", "memory", "page_tables",
                         "boost_fiber", "std_thread", "boost_fiber", "std_thread"},
                        [tasks] { return turn(tasks); });
  const auto touch = cold + 1, warm = cold + 2, end = cold + 3, cold_end = cold + 4,
             memory = cold + 5, page_tables = cold + 6, fiber = cold + 7, thread = cold + 8,
             fiber_memory = cold + 9, thread_memory = cold + 10;
  const auto with_rivals = [](std::vector<std::size_t> who, std::size_t of_fiber,
                              std::size_t of_thread) {
    if (kSwitchesCanBeMeasured) who.push_back(of_fiber);
    who.push_back(of_thread);
    return who;
  };
  contest.run(wanted.options.seconds, 3, 0);
  const auto results_of = [&](const char* what, const std::vector<std::size_t>& who,
                              const char* unit = "ns") {
    Result named = form(fmt::format("blocked_{}_{}", tasks, what), 1);
    named.unit = unit;
    return contest.results(named, who);
  };
  auto bytes = results_of(
      "memory", with_rivals({memory, Contest::kNoLimit, page_tables}, fiber_memory, thread_memory),
      "B");
  for (Result& result : bytes) set_limit(result);
  const auto print_with_memory = [&](std::vector<Result> results) {
    for (Result& result : results) result.extra["bytes_per_task"] = bytes.at(0).value.median;
    print_all(results, wanted.options);
  };
  print_with_memory(results_of("cold", with_rivals({cold, touch}, fiber, thread)));
  print_with_memory(results_of("warm", {warm}));
  print_with_memory(results_of("end", {end, Contest::kNoLimit, cold_end}));
  print_with_memory(bytes);
}

}  // namespace weft::bench::tasks::blocked
