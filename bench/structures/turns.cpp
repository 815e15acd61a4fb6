#include "turns.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "weft/base/cache_line.hpp"

namespace weft::bench {

namespace {
double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}
}  // namespace

double StructureContest::median(std::size_t at) const {
  std::vector<double> values;
  for (const auto& round : rounds) values.push_back(round.values.at(at));
  return middle(std::move(values));
}

double StructureContest::ratio(std::size_t at) const {
  std::vector<double> values;
  for (const auto& round : rounds) values.push_back(round.values.at(0) / round.values.at(at));
  return middle(std::move(values));
}

namespace turns {

const std::vector<int>& cores() {
  static const std::vector<int> found = [] {
    std::vector<int> list;
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) list.push_back(cpu);
    return list;
  }();
  return found;
}

void bind_to(unsigned number) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cores()[number % cores().size()], &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double run_together(unsigned count, const std::function<void(unsigned)>& body, unsigned cores) {
  std::atomic<unsigned> ready{0};
  std::atomic<int64_t> start{0};
  std::atomic<int64_t> end{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < count; ++number) {
    threads.emplace_back([&, number] {
      bind_to(cores != 0 ? number % cores : number);
      if (ready.fetch_add(1) + 1 == count) start.store(now());
      for (int spin = 0; start.load() == 0; ++spin)
        if (spin > 100) sched_yield();
      body(number);
      const int64_t mine = now();
      int64_t last = end.load();
      while (last < mine && !end.compare_exchange_weak(last, mine)) {
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return static_cast<double>(end.load() - start.load());
}

double one_way_ns() {
  if (cores().size() < 2) return 0;
  constexpr uint64_t kTrips = 2000;
  base::OwnLine<std::atomic<uint64_t>> lines[2];
  double ns = 0;
  run_together(2, [&](unsigned me) {
    auto& mine = *lines[me];
    auto& theirs = *lines[1 - me];
    int64_t start = 0;
    for (uint64_t trip = 1; trip <= kTrips + 100; ++trip) {
      if (trip == 101) start = now();
      if (me == 0) mine.store(trip, std::memory_order_release);
      for (int spin = 0; theirs.load(std::memory_order_acquire) < trip; ++spin)
        if (spin > 10000) sched_yield();
      if (me == 1) mine.store(trip, std::memory_order_release);
    }
    if (me == 0) ns = static_cast<double>(now() - start) / (2.0 * kTrips);
  });
  return ns;
}

double core_ns_per_op(double wall_ns, unsigned threads, uint64_t operations) {
  const double used = std::min<double>(threads, static_cast<double>(cores().size()));
  return operations == 0 ? 0 : wall_ns * used / static_cast<double>(operations);
}

void contest(std::vector<StructureContest>& contests, const std::vector<Contestant>& contestants,
             double seconds) {
  for (auto& one : contests) {
    one.contestants.clear();
    for (const auto& contestant : contestants) one.contestants.push_back(contestant.name);
  }
  const std::size_t count = contestants.size();
  for (const auto& contestant : contestants) contestant.turn();
  const int64_t end = now() + static_cast<int64_t>(seconds * 1e9);
  for (std::size_t round = 0; round < 3 || now() < end; ++round) {
    StructureRound form;
    form.one_way_before_ns = one_way_ns();
    form.values.resize(count);
    std::vector<StructureRound> rounds(contests.size(), form);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t at = (i + round) % count;  // nobody is always first
      const auto values = contestants[at].turn();
      for (std::size_t c = 0; c < contests.size(); ++c) rounds[c].values[at] = values.at(c);
    }
    const double after = one_way_ns();
    for (std::size_t c = 0; c < contests.size(); ++c) {
      rounds[c].one_way_after_ns = after;
      contests[c].rounds.push_back(std::move(rounds[c]));
    }
  }
}

}  // namespace turns
}  // namespace weft::bench
