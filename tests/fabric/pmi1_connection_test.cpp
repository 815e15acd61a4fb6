// The connection to a PMI-1 server, whose other end the test holds: many threads ask at once,
// beside a barrier.
#include "fabric/pmi1_connection.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/error.hpp"

namespace weft::fabric {
namespace {

/// What the server says together with the end of the barrier.
constexpr const char* kLate = "late";

/// The server's end: it answers a question by its key, and a barrier once it has answered `before`
/// questions or, if that is 0, has one for kLate.
class Pmi1Server {
 public:
  explicit Pmi1Server(int before) : before_(before) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~Pmi1Server() {
    shutdown(ends_[0], SHUT_RDWR);
    thread_.join();
    close(ends_[0]);
  }
  Pmi1Server(const Pmi1Server&) = delete;
  Pmi1Server& operator=(const Pmi1Server&) = delete;
  [[nodiscard]] int descriptor() const { return ends_[0]; }
  /// It dies of the next question.
  void die() { dying_ = true; }

 private:
  void serve() {
    std::string unread;
    char block[512];
    int answered = 0;
    bool in_barrier = false;
    bool late = false;
    for (;;) {
      const ssize_t got = read(ends_[1], block, sizeof block);
      if (got <= 0 || dying_) break;
      unread.append(block, static_cast<std::size_t>(got));
      for (std::size_t end; (end = unread.find('\n')) != std::string::npos;
           unread.erase(0, end + 1)) {
        const Pmi1Message question = parse_pmi1(unread.substr(0, end));
        if (question.command == "barrier_in") {
          in_barrier = true;
        } else if (question.fields.at("key") == kLate) {
          late = true;
        } else {
          say("cmd=get_result rc=0 value=" + question.fields.at("key") + '\n');
          ++answered;
        }
      }
      if (!in_barrier || (before_ == 0 ? !late : answered < before_)) continue;
      const std::string over = "cmd=barrier_out rc=0\n";
      say(late ? over + "cmd=get_result rc=0 value=" + kLate + '\n' : over);
      in_barrier = late = false;
    }
    close(ends_[1]);
  }
  void say(const std::string& line) {
    EXPECT_EQ(write(ends_[1], line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }

  const int before_;
  int ends_[2] = {};
  std::atomic<bool> dying_{false};
  std::thread thread_;
};

void ask(Pmi1Connection& connection, const std::string& key) {
  const Pmi1Message answer = connection.ask(pmi1_line("get", {{"key", key}}), "get_result");
  EXPECT_EQ(pmi1_word(answer, "value"), key);
}

void ask_often(Pmi1Connection& connection, int thread, int count) {
  for (int i = 0; i < count; ++i) ask(connection, std::to_string(thread) + '.' + std::to_string(i));
}

constexpr int kThreads = 4;
constexpr int kQuestions = 300;

// Whoever left the barrier finds another's question open, whose answer has come: he must not read
// it and then, his turn having come, wait for a line that nobody sends.
TEST(Pmi1Connection, AnswersAQuestionBehindABarrierInWhichAnotherWasAsked) {
  Pmi1Server server(0);
  Pmi1Connection connection(server.descriptor());
  for (int round = 0; round < 50; ++round) {
    std::thread other([&] { ask(connection, kLate); });
    connection.barrier();
    ask(connection, "mine");
    other.join();
  }
}

// A peer may come to its barrier only after a question of ours was answered.
TEST(Pmi1Connection, AnswersManyThreadsWhileOneIsInABarrier) {
  Pmi1Server server(kThreads * kQuestions);
  Pmi1Connection connection(server.descriptor());
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    connection.barrier();
    over = true;
  });
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&connection, t] { ask_often(connection, t, kQuestions); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(over);
}

TEST(Pmi1Connection, TellsAllThatItIsLost) {
  Pmi1Server server(1'000'000'000);
  Pmi1Connection connection(server.descriptor());
  std::atomic<int> asked{0};
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  const auto until_told = [&told](auto call) {
    EXPECT_THROW(call(), Error);
    ++told;
  };
  threads.emplace_back(until_told, [&] { connection.barrier(); });
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back(until_told, [&] {
      for (;; ++asked) ask(connection, "mine");
    });
  while (asked < 100) std::this_thread::yield();
  server.die();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told, kThreads + 1);
}

}  // namespace
}  // namespace weft::fabric
