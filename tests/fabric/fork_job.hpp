// A job of forked processes, for tests that kill, stop or disguise ranks: its store is memory that
// was shared before the fork.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "weft/base/error.hpp"
#include "weft/fabric/job.hpp"

namespace weft::fabric::test {

/// What the ranks share. Made before the fork.
class SharedJob {
 public:
  static constexpr int kMostRanks = 80;
  static constexpr std::size_t kText = 400;
  struct Board {
    struct Value {
      char key[40];
      char text[kText];
    };
    std::atomic<int> arrived{0};
    std::atomic<int> round{0};
    std::atomic<uint64_t> words[64];  ///< for the test's own use
    Value values[kMostRanks][4];
  };

  /// `nodes`: those that are pretended, to which the ranks are dealt in equal blocks.
  explicit SharedJob(int ranks, int nodes = 1) : ranks_(ranks), nodes_(nodes) {
    static std::atomic<int> number{0};
    void* const at =
        ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    board_ = new (at) Board;
    id_ = "fork-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
    for (int r = 0; r < ranks; ++r) node_.push_back(Rank{r});
  }
  SharedJob(const SharedJob&) = delete;
  SharedJob& operator=(const SharedJob&) = delete;
  ~SharedJob() { ::munmap(board_, sizeof(Board)); }

  [[nodiscard]] Board& board() const { return *board_; }
  [[nodiscard]] std::atomic<uint64_t>& word(std::size_t n) const { return board_->words[n]; }
  [[nodiscard]] int ranks() const { return ranks_; }

  [[nodiscard]] std::unique_ptr<Job> rank(int r) { return std::make_unique<View>(*this, r); }

  /// Forks `rank`, which runs `body` and exits with its answer; it does not outlive a test that
  /// fails or is ended.
  pid_t start(int rank, const std::function<int(Job&)>& body) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // of the thread that forked: the test's own
    int code = 99;
    try {
      const auto job = this->rank(rank);
      code = body(*job);
    } catch (const std::exception& failure) {
      std::fprintf(stderr, "rank %d: %s\n", rank, failure.what());
    }
    std::fflush(nullptr);
    ::_exit(code);
  }

 private:
  class View final : public Job {
   public:
    View(SharedJob& job, int rank) : job_(job), rank_{rank} {}
    [[nodiscard]] Rank rank() const noexcept override { return rank_; }
    [[nodiscard]] int size() const noexcept override { return job_.ranks_; }
    [[nodiscard]] const std::vector<Rank>& node_ranks() const noexcept override {
      return job_.node_;
    }
    [[nodiscard]] int node_of(Rank rank) const noexcept override {
      return rank.value * job_.nodes_ / job_.ranks_;
    }
    [[nodiscard]] int node_count() const noexcept override { return job_.nodes_; }
    [[nodiscard]] const std::string& id() const noexcept override { return job_.id_; }
    [[nodiscard]] const std::string& key() const noexcept override { return key_; }
    [[nodiscard]] std::string_view provider() const noexcept override { return "fork"; }
    void put(std::string_view key, std::string_view value) override {
      if (key.size() >= 40 || value.size() >= kText) throw Error(Errc::launcher, "too long");
      for (auto& slot : job_.board_->values[rank_.value]) {
        if (slot.key[0] != 0 && key != slot.key) continue;
        std::memcpy(slot.text, value.data(), value.size());
        std::memcpy(slot.key, key.data(), key.size());
        return;
      }
      throw Error(Errc::launcher, "too many values");
    }
    std::string get(Rank from, std::string_view key) override {
      for (const auto& slot : job_.board_->values[from.value])
        if (key == slot.key) return slot.text;
      throw Error(Errc::no_such_peer, "never published");
    }
    void fence() override {
      Board& board = *job_.board_;
      const int round = board.round.load();
      if (board.arrived.fetch_add(1) + 1 == job_.ranks_) {
        board.arrived = 0;
        board.round = round + 1;
        return;
      }
      for (int waits = 0; board.round.load() == round; ++waits) {
        if (waits > 600'000) throw Error(Errc::launcher, "a fence that does not end");
        ::usleep(100);
      }
    }
    [[noreturn]] void abort(int code, std::string_view why) override {
      std::fprintf(stderr, "abort: %.*s\n", static_cast<int>(why.size()), why.data());
      ::_exit(code);
    }
    void on_peer_death(std::function<void(Rank, std::string)>) override {}

   private:
    SharedJob& job_;
    Rank rank_;
    std::string key_ = "secret";
  };

  int ranks_;
  int nodes_;
  Board* board_;
  std::string id_;
  std::vector<Rank> node_;
};

/// The exit status of a child, as waitpid gives it.
inline int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}
inline bool ended_well(pid_t child) {
  const int status = wait_for(child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Until a rank's child has set `word` to `value`, or has ended.
inline void wait_for_word(const std::atomic<uint64_t>& word, uint64_t value, pid_t child) {
  siginfo_t none{};
  while (word.load() != value &&
         ::waitid(P_PID, static_cast<id_t>(child), &none, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         none.si_pid == 0)
    ::usleep(1000);
}

}  // namespace weft::fabric::test

/// In a forked rank: says what failed and makes the rank's body answer 1.
#define WEFT_EXPECT_IN_RANK(condition)                                     \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                            \
    }                                                                      \
  } while (false)
