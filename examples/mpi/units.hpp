// Units: the activities of a rank, each of which computes and makes blocking MPI calls of its own.
//
// The same code runs as one unit a rank (a program of MPI alone), as threads, or as tasks of weft,
// where a blocking call suspends the task that made it, and its thread goes on with another.
// weft_mpi.h's functions are looked up, so that the programs run on any MPI library: where there
// are none, --tasks is refused.
//
// Units of a rank reach each other as ranks do, by messages, so that whoever waits, waits in MPI.
#pragma once

#include <dlfcn.h>
#include <mpi.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#if __has_include(<weft_mpi.h>)
#include <weft_mpi.h>
#endif

namespace units {

constexpr int kMostUnits = 10'000;  // tags are 2 a unit, and the smallest MPI has 32,768 of them

enum class Kind { alone, threads, tasks };

/// How the units of a rank run.
struct How {
  Kind kind = Kind::alone;
  int units = 1;
  int workers = 0;  ///< threads that run tasks; 0: one for each core that the rank may use

  [[nodiscard]] std::string words() const {
    if (kind == Kind::alone) return "one unit each";
    if (kind == Kind::threads) return std::to_string(units) + " thread(s) each";
    const std::string on =
        workers == 0 ? "a worker a core" : std::to_string(workers) + " worker(s)";
    return std::to_string(units) + " task(s) each on " + on;
  }
};

/// What weft_mpi.h declares, where the library has it.
struct Tasks {
  using Run = int(int workers, int64_t count, void (*body)(int64_t, void*), void* argument);
  using Yield = void();
#if __has_include(<weft_mpi.h>)
  static_assert(std::is_same_v<Run, decltype(weft_mpi_run)>);
  static_assert(std::is_same_v<Yield, decltype(weft_mpi_yield)>);
#endif
  Run* run = reinterpret_cast<Run*>(dlsym(RTLD_DEFAULT, "weft_mpi_run"));
  Yield* yield = reinterpret_cast<Yield*>(dlsym(RTLD_DEFAULT, "weft_mpi_yield"));

  static const Tasks& found() {
    static const Tasks tasks;
    return tasks;
  }
};

/// A program's flags, each a name and a value. Asking for one takes it away; what is left in the
/// end is nobody's.
class Flags {
 public:
  Flags(int argc, char** argv) : words_(argv + 1, argv + argc) {}

  int number(std::string_view name, int otherwise, int least, int most) {
    const auto word = take(name);
    if (!word) return otherwise;
    int value = 0;
    const auto [end, wrong] = std::from_chars(word->data(), word->data() + word->size(), value);
    if (wrong == std::errc() && end == word->data() + word->size() && value >= least &&
        value <= most) {
      return value;
    }
    complain(std::string(name) + " takes a number from " + std::to_string(least) + " to " +
             std::to_string(most) + ", not '" + *word + "'");
    return otherwise;
  }

  std::string word(std::string_view name, const std::string& otherwise) {
    return take(name).value_or(otherwise);
  }

  How how() {
    const int alone = number("--units", 0, 1, 1);
    const int threads = number("--threads", 0, 1, kMostUnits);
    const int tasks = number("--tasks", 0, 1, kMostUnits);
    const int workers = number("--workers", 0, 1, 1024);
    if ((alone > 0) + (threads > 0) + (tasks > 0) > 1) {
      complain("--units, --threads and --tasks exclude each other");
    }
    if (workers > 0 && tasks == 0) complain("--workers is for --tasks");
    if (tasks > 0) {
      if (Tasks::found().run == nullptr) complain("this MPI library has no --tasks; weft's has");
      return {Kind::tasks, tasks, workers};
    }
    if (threads > 0) return {Kind::threads, threads, 0};
    return {};
  }

  void complain(const std::string& what) {
    if (complaint_.empty()) complaint_ = what;
  }

  /// Asked last. If something is wrong, it says what, and what would be right.
  bool fine(const char* program, const char* own_flags) {
    if (!words_.empty()) complain("what is '" + words_.front() + "'?");
    if (complaint_.empty()) return true;
    std::fprintf(stderr,
                 "%s: %s\n%s [--units 1 | --threads T | --tasks T [--workers W]] %s\n"
                 "The head of its source says what they do.\n",
                 program, complaint_.c_str(), program, own_flags);
    return false;
  }

 private:
  std::optional<std::string> take(std::string_view name) {
    const auto found = std::find(words_.begin(), words_.end(), name);
    if (found == words_.end()) return std::nullopt;
    if (found + 1 == words_.end()) {
      complain(std::string(name) + " lacks its value");
      words_.erase(found);
      return std::nullopt;
    }
    std::string value = *(found + 1);
    words_.erase(found, found + 2);
    return value;
  }

  std::vector<std::string> words_;
  std::string complaint_;
};

/// This process as a rank: MPI from start to end, on as little thread support as will do.
class Job {
 public:
  Job(int argc, char** argv, const How& given) : how(given) {
    const int wanted = how.kind == Kind::alone ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
    int provided = 0;
    MPI_Init_thread(&argc, &argv, wanted, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (provided < wanted) {
      std::fprintf(stderr, "this MPI library was built without MPI_THREAD_MULTIPLE\n");
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_dup(MPI_COMM_SELF, &inside);
  }
  ~Job() {
    MPI_Comm_free(&inside);
    MPI_Finalize();
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  How how;
  int rank = 0;
  int size = 1;
  MPI_Comm inside = MPI_COMM_NULL;  ///< of this rank alone: for Unit::sum, between its units
};

/// One of a rank's units.
class Unit {
 public:
  Unit(const Job& of, int its_number, int of_so_many)
      : job(of), number(its_number), count(of_so_many) {}

  /// The sum over all units of all ranks, which they all wait for: up a tree of this rank's units,
  /// once between the ranks, and down the tree again. Numbers are added in the same order each
  /// time, so all ranks and all runs of a shape get the same bits.
  [[nodiscard]] double sum(double value) const {
    int step = 1;
    for (; step < count && number % (2 * step) == 0; step *= 2) {
      if (number + step >= count) continue;
      double below = 0;
      MPI_Recv(&below, 1, MPI_DOUBLE, 0, up(number + step), job.inside, MPI_STATUS_IGNORE);
      value += below;
    }
    if (number == 0) {
      MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    } else {
      MPI_Send(&value, 1, MPI_DOUBLE, 0, up(number), job.inside);
      MPI_Recv(&value, 1, MPI_DOUBLE, 0, down(number), job.inside, MPI_STATUS_IGNORE);
    }
    for (step /= 2; step > 0; step /= 2) {
      if (number + step >= count) continue;
      MPI_Send(&value, 1, MPI_DOUBLE, 0, down(number + step), job.inside);
    }
    return value;
  }

  /// Until all units of all ranks have come here.
  void meet() const { std::ignore = sum(0); }

  /// Lets others run. A task that computes for long must, now and then; threads are interrupted.
  void yield() const {
    if (job.how.kind == Kind::tasks) Tasks::found().yield();
  }

  const Job& job;
  const int number;  ///< within the rank, from 0
  const int count;   ///< of the rank's units

 private:
  static int up(int unit) { return 2 * unit; }
  static int down(int unit) { return 2 * unit + 1; }
};

/// Runs body(unit) for `count` units of this rank, and returns when all have ended.
template <class Body>
void run(const Job& job, int count, Body body) {
  auto one = [&](int64_t number) { body(Unit(job, static_cast<int>(number), count)); };
  if (job.how.kind == Kind::tasks) {
    const int code = Tasks::found().run(
        job.how.workers, count,
        [](int64_t number, void* argument) { (*static_cast<decltype(one)*>(argument))(number); },
        &one);
    if (code != MPI_SUCCESS) {
      std::fprintf(stderr, "rank %d: %d tasks could not run: error class %d\n", job.rank, count,
                   code);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return;
  }
  std::vector<std::jthread> others;
  for (int i = 1; i < count; ++i) others.emplace_back(one, i);
  one(0);
}

}  // namespace units
