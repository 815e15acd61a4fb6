// Sends that find no room: many threads' join one backlog, and keep MPI's order in it. Started with
// lanes and packets so few that nearly all do (tests/mpi/messages.cmake).
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "requests_check.hpp"

namespace {

constexpr int kThreads = 8;
constexpr int kWindow = 200;
constexpr int kRounds = 6;
/// One cell, several, packets, and what is announced.
constexpr std::size_t kSizes[] = {16, 200, 3000, 16, 16, 70'000};

struct Stamp {
  int thread, number;
};

std::size_t size_of(int number) {
  return kSizes[static_cast<std::size_t>(number) % std::size(kSizes)];
}

void fill(std::vector<char>& message, Stamp stamp) {
  std::memset(message.data(), stamp.thread * 31 + stamp.number % 97, message.size());
  std::memcpy(message.data(), &stamp, sizeof stamp);
}

/// The receiver sleeps while windows of all threads are sent; each thread's come in order.
void test_windows_of_threads() {
  in_threads(kThreads, [](int thread) {
    std::vector<std::vector<char>> messages(kWindow);
    std::vector<MPI_Request> requests(kWindow);
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kWindow; ++i) {
        auto& message = messages[static_cast<std::size_t>(i)];
        MPI_Request& request = requests[static_cast<std::size_t>(i)];
        const Stamp stamp{thread, round * kWindow + i};
        message.resize(size_of(stamp.number));
        if (g_rank == 0) {
          fill(message, stamp);
          MPI_Isend(message.data(), static_cast<int>(message.size()), MPI_BYTE, 1, thread,
                    MPI_COMM_WORLD, &request);
          continue;
        }
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        MPI_Irecv(message.data(), static_cast<int>(message.size()), MPI_BYTE, 0, thread,
                  MPI_COMM_WORLD, &request);
      }
      MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
      if (g_rank == 0) continue;
      std::vector<char> wanted;
      for (int i = 0; i < kWindow; ++i) {
        const auto& message = messages[static_cast<std::size_t>(i)];
        wanted.resize(message.size());
        fill(wanted, {thread, round * kWindow + i});
        if (!expect(message == wanted, "thread %d: message %d is another one", thread,
                    round * kWindow + i))
          MPI_Abort(MPI_COMM_WORLD, 1);
      }
    }
  });
}

/// Threads send in turn, each when it has seen that the one before has: the order of all is theirs,
/// for receives of one tag (`tags` 1), or of any where each has its own.
void test_threads_in_turn(int tags, int messages) {
  if (g_rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (int i = 0; i < messages; ++i) {
      int value = -1;
      MPI_Status status;
      MPI_Recv(&value, 1, MPI_INT, 0, tags == 1 ? 100 : MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      if (!expect(value == i && status.MPI_TAG == 100 + i % tags,
                  "message %d came, with tag %d, where %d was due", value, status.MPI_TAG, i))
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return;
  }
  std::atomic<int> turn{0};
  in_threads(kThreads, [&](int thread) {
    std::vector<int> values(static_cast<std::size_t>(messages));
    std::vector<MPI_Request> requests;
    for (int i = thread; i < messages; i += kThreads) {
      while (turn.load(std::memory_order_acquire) != i) std::this_thread::yield();
      int& value = values[static_cast<std::size_t>(i)];
      value = i;
      MPI_Isend(&value, 1, MPI_INT, 1, 100 + i % tags, MPI_COMM_WORLD, &requests.emplace_back());
      turn.store(i + 1, std::memory_order_release);
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
  });
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  test_windows_of_threads();
  MPI_Barrier(MPI_COMM_WORLD);
  test_threads_in_turn(1, 3000);
  MPI_Barrier(MPI_COMM_WORLD);
  test_threads_in_turn(kThreads, 3000);
  MPI_Barrier(MPI_COMM_WORLD);
  return finish();
}
