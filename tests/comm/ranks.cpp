// What all tests of ranks need, compiled once.
#include "comm/ranks.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/base/config.hpp"
#include "weft/fabric/interceptors.hpp"
#include "weft/fabric/job.hpp"

namespace weft::test {
namespace {

/// The trouble that CTest runs a whole test binary under (COMM_TEST_UNDER;
/// tests/comm/CMakeLists.txt): delay, reorder, refuse, stop, everything, or nothing.
class Trouble {
 public:
  explicit Trouble(int ranks) {
    const base::Environment given = base::environment("COMM_TEST_UNDER");
    if (!given.found) return;
    how_ = given.value;
    if (how_ != "stop" && how_ != "everything") return;
    // Now one rank stands still, now another; what is started meanwhile waits and loses nothing.
    stopper_ = std::jthread([stops = stops_, ranks](const std::stop_token& enough) {
      std::minstd_rand random(std::random_device{}());
      while (!enough.stop_requested()) {
        const Rank victim{static_cast<int>(random() % static_cast<unsigned>(ranks))};
        stops->stop(victim);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
        stops->resume(victim);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
      }
    });
  }

  using Wrapped = std::unique_ptr<fabric::Transport>;
  /// The wrapper of rank `rank`; empty without trouble.
  [[nodiscard]] std::function<Wrapped(Wrapped)> wrapper(int rank) const {
    if (how_.empty()) return {};
    return [how = how_, stops = stops_, rank](Wrapped t) -> Wrapped {
      const auto seed = static_cast<uint64_t>(rank) + 1;
      if (how == "delay") return fabric::delay(std::move(t), 5, seed);
      if (how == "reorder") return fabric::reorder_ports(std::move(t), 5, seed);
      if (how == "refuse") return fabric::refuse(std::move(t), 0.3, seed);
      if (how == "stop") return fabric::stoppable(std::move(t), Rank{rank}, stops);
      if (how != "everything") throw std::invalid_argument("COMM_TEST_UNDER=" + how);
      t = fabric::reorder_ports(fabric::delay(std::move(t), 3, seed), 3, seed);
      return fabric::refuse(fabric::stoppable(std::move(t), Rank{rank}, stops), 0.2, seed);
    };
  }

 private:
  std::string how_;
  std::shared_ptr<fabric::StopSwitch> stops_ = std::make_shared<fabric::StopSwitch>();
  std::jthread stopper_;
};

/// On how many nodes a job of `ranks` is: `wanted`, or as many more as CTest asks for
/// (COMM_TEST_NODES) where the test asks for none.
int nodes_of_job(int ranks, int wanted) {
  const base::Environment given = base::environment("COMM_TEST_NODES");
  return wanted == 1 && given.found ? std::min(ranks, std::stoi(given.value)) : wanted;
}

}  // namespace

void on_ranks(int ranks, const std::function<void(Runtime&)>& body, const RuntimeOptions& options,
              int nodes) {
  auto jobs = fabric::make_local_job(ranks, nodes_of_job(ranks, nodes));
  std::vector<std::string> failures(static_cast<std::size_t>(ranks));
  const Trouble trouble(ranks);
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        const auto index = static_cast<std::size_t>(r);
        RuntimeOptions mine = options;
        mine.job = jobs[index].get();
        if (!mine.wrap) mine.wrap = trouble.wrapper(r);
        try {
          Runtime runtime(mine);
          body(runtime);
          runtime.barrier();
        } catch (const std::exception& error) {
          // Said at once: the other ranks may wait for this one until the watchdog comes.
          std::cerr << "rank " << r << ": " << error.what() << std::endl;
          failures[index] = error.what();
        }
      });
    }
  }
  for (int r = 0; r < ranks; ++r) {
    EXPECT_EQ(failures[static_cast<std::size_t>(r)], "") << "rank " << r;
  }
}

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < count; ++t) threads.emplace_back([&body, t] { body(t); });
}

std::vector<std::byte> pattern(std::size_t bytes, uint32_t seed) {
  std::vector<std::byte> data(bytes);
  uint32_t x = seed * 2654435761U + 1;
  for (auto& byte : data) {
    x = x * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(x >> 24);
  }
  return data;
}

std::vector<fabric::MemoryKey> keys_of_all(Runtime& rt, const Region& mine) {
  Team team(rt);
  std::vector<fabric::MemoryKey> keys(static_cast<std::size_t>(rt.size()));
  team.allgather(std::as_bytes(std::span(&mine.key(), 1)), std::as_writable_bytes(std::span(keys)));
  return keys;
}

}  // namespace weft::test
