// A sender runs far ahead of its receiver: memory of both stays bounded, nothing is lost, and what
// the receiver wants first gets through what it does not want yet. Arguments: messages (of 1 KiB),
// and the most MiB that either process may have grown by.
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int kBytes = 1024;
constexpr int kWindow = 500;

int failures = 0;
void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "failed: %s\n", what.c_str());
  ++failures;
}

/// The peak of this process' resident memory so far.
long peak_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) / 1024;
  }
  return 0;
}

void fill(std::vector<char>& message, long number) {
  std::memset(message.data(), static_cast<int>(number % 101), message.size());
  std::memcpy(message.data(), &number, sizeof number);
}

bool holds(const std::vector<char>& message, long number) {
  std::vector<char> wanted(kBytes);
  fill(wanted, number);
  return std::memcmp(message.data(), wanted.data(), kBytes) == 0;
}

/// Blocking sends, received late.
void blocking(int rank, long messages) {
  std::vector<char> message(kBytes);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    for (long i = 0; i < messages; ++i) {
      fill(message, i);
      MPI_Send(message.data(), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    }
  } else if (rank == 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (long i = 0; i < messages; ++i) {
      MPI_Recv(message.data(), kBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (!holds(message, i)) expect(false, "message " + std::to_string(i) + " is another one");
    }
  }
}

/// Nonblocking sends in windows, while the receiver waits for a message behind each of them.
void overtaken(int rank, long messages) {
  std::vector<std::vector<char>> all(kWindow, std::vector<char>(kBytes));
  std::vector<MPI_Request> requests(kWindow);
  for (long done = 0; done < messages; done += kWindow) {
    int urgent = static_cast<int>(done);
    if (rank == 0) {
      for (int i = 0; i < kWindow; ++i) {
        fill(all[i], done + i);
        MPI_Isend(all[i].data(), kBytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[i]);
      }
      MPI_Send(&urgent, 1, MPI_INT, 1, 2, MPI_COMM_WORLD);
      MPI_Waitall(kWindow, requests.data(), MPI_STATUSES_IGNORE);
    } else if (rank == 1) {
      MPI_Recv(&urgent, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(urgent == done, "the urgent message came through");
      for (int i = 0; i < kWindow; ++i) {
        MPI_Recv(all[0].data(), kBytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect(holds(all[0], done + i), "a message behind an urgent one is another one");
      }
    }
  }
}

/// Very many nonblocking sends at once, the one that is wanted first behind all of them.
void deep(int rank, int messages) {
  std::vector<int> values(static_cast<std::size_t>(messages));
  std::vector<MPI_Request> requests(static_cast<std::size_t>(messages) + 1);
  int last = 7;
  if (rank == 0) {
    for (int i = 0; i < messages; ++i) {
      values[i] = i;
      MPI_Isend(&values[i], 1, MPI_INT, 1, 3, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Isend(&last, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, &requests[messages]);
    MPI_Waitall(messages + 1, requests.data(), MPI_STATUSES_IGNORE);
  } else if (rank == 1) {
    MPI_Recv(&last, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < messages; ++i) {
      int value = -1;
      MPI_Recv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      if (value != i) expect(false, "out of order behind a deep queue");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long messages = argc > 1 ? std::atol(argv[1]) : 200'000;
  const long most_mib = argc > 2 ? std::atol(argv[2]) : 64;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const long before = peak_mib();
  blocking(rank, messages);
  overtaken(rank, messages / 4);
  const long grown = peak_mib() - before;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  expect(grown <= most_mib, "grew by " + std::to_string(grown) + " MiB");
#endif
  deep(rank, 100'000);
  std::printf("rank %d grew by %ld of %ld MiB, in all %ld MiB\n", rank, grown, most_mib,
              peak_mib());
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
