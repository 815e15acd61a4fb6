// MPI's order: messages do not overtake each other, an earlier receive that matches wins, with one
// thread and with many.
#include <cstdlib>
#include <cstring>

#include "requests_check.hpp"

namespace {

/// Wildcards among exact receives, in one thread: each message goes to the first that matches.
void test_wildcards_in_order() {
  if (g_rank > 1 || g_size < 2) return;
  constexpr int kReceives = 6;
  const int tags[kReceives] = {5, MPI_ANY_TAG, 5, 6, MPI_ANY_TAG, 5};
  const int sources[kReceives] = {0, 0, MPI_ANY_SOURCE, 0, MPI_ANY_SOURCE, 0};
  // Sent in this order; the receive that each one must reach.
  const int sent[kReceives] = {5, 5, 6, 6, 5, 5};
  const int reaches[kReceives] = {0, 1, 3, 4, 2, 5};
  for (int round = 0; round < 50; ++round) {
    if (g_rank == 1) {
      int values[kReceives];
      MPI_Request requests[kReceives];
      MPI_Status statuses[kReceives];
      for (int i = 0; i < kReceives; ++i) {
        values[i] = -1;
        MPI_Irecv(&values[i], 1, MPI_INT, sources[i], tags[i], MPI_COMM_WORLD, &requests[i]);
      }
      MPI_Send(nullptr, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
      MPI_Waitall(kReceives, requests, statuses);
      for (int i = 0; i < kReceives; ++i) {
        const int at = reaches[i];
        expect(values[at] == i && statuses[at].MPI_TAG == sent[i],
               "round %d: receive %d got message %d with tag %d, not %d", round, at, values[at],
               statuses[at].MPI_TAG, i);
      }
    } else {
      MPI_Recv(nullptr, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      for (int i = 0; i < kReceives; ++i) MPI_Send(&i, 1, MPI_INT, 1, sent[i], MPI_COMM_WORLD);
    }
  }
}

/// The same with messages that are there before the receives: each receive takes the oldest that
/// matches.
void test_unexpected_in_order() {
  if (g_rank > 1 || g_size < 2) return;
  const int sent[6] = {3, 4, 3, 4, 5, 3};
  for (int round = 0; round < 50; ++round) {
    if (g_rank == 0) {
      for (int i = 0; i < 6; ++i) MPI_Send(&i, 1, MPI_INT, 1, sent[i], MPI_COMM_WORLD);
      MPI_Send(nullptr, 0, MPI_INT, 1, 9, MPI_COMM_WORLD);
      MPI_Recv(nullptr, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      continue;
    }
    MPI_Recv(nullptr, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const int asked[6] = {4, MPI_ANY_TAG, MPI_ANY_TAG, 5, 3, MPI_ANY_TAG};
    const int wanted[6] = {1, 0, 2, 4, 5, 3};
    for (int i = 0; i < 6; ++i) {
      int value = -1;
      MPI_Recv(&value, 1, MPI_INT, i % 2 == 0 ? 0 : MPI_ANY_SOURCE, asked[i], MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
      expect(value == wanted[i], "round %d: receive %d took message %d, not %d", round, i, value,
             wanted[i]);
    }
    MPI_Send(nullptr, 0, MPI_INT, 0, 1, MPI_COMM_WORLD);
  }
}

/// Small messages behind large ones with the same envelope.
void test_sizes_in_order() {
  if (g_rank > 1 || g_size < 2) return;
  const std::size_t sizes[] = {8, 1 << 18, 1, 70000, 0, 8192, 1 << 20, 4};
  constexpr uint32_t kRounds = 10;
  if (g_rank == 0) {
    std::vector<std::vector<unsigned char>> data;
    std::vector<MPI_Request> requests;
    for (uint32_t i = 0; i < 8 * kRounds; ++i) {
      data.emplace_back(sizes[i % 8]);
      fill_pattern(data.back(), i);
    }
    for (auto& bytes : data) {
      requests.emplace_back();
      MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 1, 2, MPI_COMM_WORLD,
                &requests.back());
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return;
  }
  std::vector<unsigned char> in(1 << 20);
  for (uint32_t i = 0; i < 8 * kRounds; ++i) {
    MPI_Status status;
    MPI_Recv(in.data(), static_cast<int>(in.size()), MPI_BYTE, 0, i % 3 == 0 ? MPI_ANY_TAG : 2,
             MPI_COMM_WORLD, &status);
    const auto size = static_cast<std::size_t>(count_of(status, MPI_BYTE));
    expect(size == sizes[i % 8] && has_pattern(in.data(), size, i), "message %u: %zu bytes", i,
           size);
  }
}

/// Each pair of threads has its tag, all share the communicator; numbers must come in order. Some
/// receivers ask from anybody.
void test_threads_in_order(int threads, int messages) {
  if (g_rank > 1 || g_size < 2) return;
  in_threads(threads, [&](int number) {
    const int tag = 100 + number;
    const int peer = 1 - g_rank;
    constexpr int kWindow = 16;
    int values[kWindow];
    MPI_Request requests[kWindow];
    const bool sends = (number + g_rank) % 2 == 0;
    for (int at = 0; at < messages; at += kWindow) {
      for (int i = 0; i < kWindow; ++i) {
        values[i] = sends ? at + i : -1;
        if (sends) {
          MPI_Isend(&values[i], 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &requests[i]);
        } else {
          const int from = number % 3 == 2 ? MPI_ANY_SOURCE : peer;
          MPI_Irecv(&values[i], 1, MPI_INT, from, tag, MPI_COMM_WORLD, &requests[i]);
        }
      }
      MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
      if (sends) continue;
      for (int i = 0; i < kWindow; ++i) {
        if (!expect(values[i] == at + i, "thread %d: message %d came where %d was due", number,
                    values[i], at + i)) {
          return;
        }
      }
    }
  });
}

/// Threads receive with nothing but wildcards: every message comes once, and to each thread the
/// numbers of one sending thread rise.
void test_threads_with_wildcards(int threads, int messages) {
  if (g_rank > 1 || g_size < 2) return;
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(threads * messages));
  in_threads(threads, [&](int number) {
    if (g_rank == 0) {
      for (int i = 0; i < messages; ++i) {
        const int value[2] = {number, i};
        MPI_Send(value, 2, MPI_INT, 1, 1000 + number, MPI_COMM_WORLD);
      }
      return;
    }
    std::vector<int> last(static_cast<std::size_t>(threads), -1);
    for (int i = 0; i < messages; ++i) {
      int value[2] = {-1, -1};
      MPI_Status status;
      MPI_Recv(value, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      const bool good = status.MPI_SOURCE == 0 && value[0] >= 0 && value[0] < threads &&
                        value[1] >= 0 && value[1] < messages && status.MPI_TAG == 1000 + value[0];
      if (!expect(good, "a strange message: %d %d", value[0], value[1])) return;
      seen[static_cast<std::size_t>(value[0] * messages + value[1])].fetch_add(1);
      int& before = last[static_cast<std::size_t>(value[0])];
      expect(before < value[1], "thread %d: sender %d's %d came after %d", number, value[0],
             value[1], before);
      before = value[1];
    }
  });
  if (g_rank != 1) return;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    expect(seen[i].load() == 1, "message %zu came %d times", i, seen[i].load());
  }
}

/// Exact receives and wildcards posted and withdrawn by many threads at once; every message comes
/// once.
void test_threads_mixed(int threads, int messages) {
  if (g_rank > 1 || g_size < 2) return;
  in_threads(threads, [&](int number) {
    const int peer = 1 - g_rank;
    const int tag = 5000 + number;
    for (int i = 0; i < messages; ++i) {
      MPI_Request hopeless;
      int never = 0;
      // Nobody sends this tag: a wildcard of the source only.
      MPI_Irecv(&never, 1, MPI_INT, MPI_ANY_SOURCE, 30000 + number, MPI_COMM_WORLD, &hopeless);
      int out = i * 3 + g_rank;
      int in = -1;
      MPI_Sendrecv(&out, 1, MPI_INT, peer, tag, &in, 1, MPI_INT, i % 2 == 0 ? peer : MPI_ANY_SOURCE,
                   tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      expect(in == i * 3 + peer, "thread %d, round %d: %d", number, i, in);
      MPI_Cancel(&hopeless);
      MPI_Status status;
      MPI_Wait(&hopeless, &status);
      int cancelled = 0;
      MPI_Test_cancelled(&status, &cancelled);
      if (!expect(cancelled == 1, "thread %d: the receive was cancelled", number)) return;
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
  const int messages = 16 * (threads >= 32 ? 20 : 60);
  test_wildcards_in_order();
  test_unexpected_in_order();
  test_sizes_in_order();
  MPI_Barrier(MPI_COMM_WORLD);
  test_threads_in_order(threads, messages);
  MPI_Barrier(MPI_COMM_WORLD);
  test_threads_with_wildcards(threads, messages / 4);
  MPI_Barrier(MPI_COMM_WORLD);
  test_threads_mixed(threads, messages / 8);
  MPI_Barrier(MPI_COMM_WORLD);
  return finish();
}
