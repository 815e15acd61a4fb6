// Probes: messages of unknown size, probed messages taken by several threads, probes of nobody.
#include <algorithm>
#include <cstdlib>

#include "requests_check.hpp"

namespace {

std::size_t size_of(int message) {
  static const std::size_t sizes[] = {0, 1, 40, 1000, 9000, 70000};
  return sizes[message % 6];
}

void send_all(int messages, int tag) {
  std::vector<unsigned char> out;
  for (int i = 0; i < messages; ++i) {
    out.resize(size_of(i));
    fill_pattern(out, static_cast<uint32_t>(i));
    MPI_Send(out.data(), static_cast<int>(out.size()), MPI_BYTE, 0, tag, MPI_COMM_WORLD);
  }
}

/// Probe, make room, receive: from one source, then from any.
void test_probe_then_receive(bool blocking) {
  constexpr int kMessages = 60;
  if (g_rank != 0) {
    send_all(kMessages, 4);
    return;
  }
  std::vector<int> next(static_cast<std::size_t>(g_size), 0);
  std::vector<unsigned char> in;
  for (int i = 0; i < kMessages * (g_size - 1); ++i) {
    MPI_Status probed;
    if (blocking) {
      MPI_Probe(MPI_ANY_SOURCE, i % 2 == 0 ? 4 : MPI_ANY_TAG, MPI_COMM_WORLD, &probed);
    } else {
      for (int flag = 0; flag == 0;) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &probed);
      }
    }
    const int bytes = count_of(probed, MPI_BYTE);
    in.resize(static_cast<std::size_t>(bytes));
    MPI_Status status;
    MPI_Recv(in.data(), bytes, MPI_BYTE, probed.MPI_SOURCE, probed.MPI_TAG, MPI_COMM_WORLD,
             &status);
    const int number = next[static_cast<std::size_t>(probed.MPI_SOURCE)]++;
    expect(status.MPI_SOURCE == probed.MPI_SOURCE && count_of(status, MPI_BYTE) == bytes,
           "the received message is the probed one");
    expect(in.size() == size_of(number) &&
               has_pattern(in.data(), in.size(), static_cast<uint32_t>(number)),
           "message %d of rank %d: %zu bytes", number, probed.MPI_SOURCE, in.size());
  }
}

void test_iprobe_finds_nothing() {
  int flag = 1;
  MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  expect(flag == 0, "nobody sent tag 77");
  MPI_Message message = MPI_MESSAGE_NULL;
  flag = 1;
  MPI_Improbe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE);
  expect(flag == 0, "nor for Improbe");
}

void test_nobody() {
  MPI_Status status;
  int flag = 0;
  MPI_Probe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
  expect(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG &&
             count_of(status, MPI_INT) == 0,
         "Probe of nobody");
  MPI_Iprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &status);
  expect(flag == 1 && status.MPI_SOURCE == MPI_PROC_NULL, "Iprobe of nobody");
  MPI_Message message;
  MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
  expect(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL, "Mprobe of nobody");
  MPI_Mrecv(nullptr, 0, MPI_INT, &message, &status);
  expect(message == MPI_MESSAGE_NULL && status.MPI_SOURCE == MPI_PROC_NULL, "Mrecv of nobody");
  flag = 0;
  MPI_Improbe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &flag, &message, &status);
  expect(flag == 1 && message == MPI_MESSAGE_NO_PROC, "Improbe of nobody");
  MPI_Request request;
  MPI_Imrecv(nullptr, 0, MPI_INT, &message, &request);
  MPI_Wait(&request, &status);
  expect(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG, "Imrecv of nobody");
}

/// Several threads take whatever comes out of matching: nobody gets a message that another probed.
void test_matched_by_threads(int threads, int messages) {
  if (g_rank > 1 || g_size < 2) return;
  std::atomic<int> taken{0};
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(threads * messages));
  in_threads(threads, [&](int number) {
    if (g_rank == 1) {
      std::vector<unsigned char> out;
      for (int i = 0; i < messages; ++i) {
        const int id = number * messages + i;
        out.resize(sizeof id + size_of(i));
        fill_pattern(out, static_cast<uint32_t>(id));
        std::copy_n(reinterpret_cast<const unsigned char*>(&id), sizeof id, out.begin());
        MPI_Send(out.data(), static_cast<int>(out.size()), MPI_BYTE, 0, 50 + number,
                 MPI_COMM_WORLD);
      }
      return;
    }
    std::vector<unsigned char> in;
    while (taken.fetch_add(1) < threads * messages) {
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status;
      if (number % 2 == 0) {
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
      } else {
        for (int flag = 0; flag == 0;) {
          MPI_Improbe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
          if (flag == 0) std::this_thread::yield();
        }
      }
      const int bytes = count_of(status, MPI_BYTE);
      in.assign(static_cast<std::size_t>(bytes), 0);
      MPI_Status received;
      if (bytes % 2 == 0) {
        MPI_Mrecv(in.data(), bytes, MPI_BYTE, &message, &received);
      } else {
        MPI_Request request;
        MPI_Imrecv(in.data(), bytes, MPI_BYTE, &message, &request);
        MPI_Wait(&request, &received);
      }
      expect(message == MPI_MESSAGE_NULL, "a received message is null");
      int id = -1;
      if (in.size() >= sizeof id) {
        std::copy_n(in.begin(), sizeof id, reinterpret_cast<unsigned char*>(&id));
      }
      if (!expect(id >= 0 && id < threads * messages, "message %d", id)) return;
      seen[static_cast<std::size_t>(id)].fetch_add(1);
      bool good = in.size() == sizeof id + size_of(id % messages);
      for (std::size_t i = sizeof id; i < in.size(); ++i) {
        good = good && in[i] == pattern(static_cast<uint32_t>(id), i);
      }
      expect(good && received.MPI_SOURCE == 1 && count_of(received, MPI_BYTE) == bytes,
             "message %d, %d bytes, is whole", id, bytes);
    }
  });
  if (g_rank != 0) return;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    expect(seen[i].load() == 1, "message %zu came %d times", i, seen[i].load());
  }
}

/// A message that was taken out is not found again; the next with its envelope is.
void test_matched_is_out() {
  if (g_rank > 1 || g_size < 2) return;
  if (g_rank == 1) {
    for (int i = 0; i < 2; ++i) MPI_Send(&i, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    return;
  }
  MPI_Message first;
  MPI_Mprobe(1, 6, MPI_COMM_WORLD, &first, MPI_STATUS_IGNORE);
  int value = -1;
  MPI_Recv(&value, 1, MPI_INT, 1, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(value == 1, "the receive gets the second message, not %d", value);
  MPI_Mrecv(&value, 1, MPI_INT, &first, MPI_STATUS_IGNORE);
  expect(value == 0, "the matched receive gets the first, not %d", value);
}

/// Cancelling the receive of a message that was taken out does nothing, however far it is.
void test_matched_is_not_cancelled() {
  if (g_rank > 1 || g_size < 2) return;
  std::vector<unsigned char> bytes(1U << 22);
  const int size = static_cast<int>(bytes.size());
  if (g_rank == 1) {
    fill_pattern(bytes, 9);
    MPI_Send(bytes.data(), size, MPI_BYTE, 0, 9, MPI_COMM_WORLD);
    return;
  }
  MPI_Message message;
  MPI_Mprobe(1, 9, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Request request;
  MPI_Imrecv(bytes.data(), size, MPI_BYTE, &message, &request);
  MPI_Cancel(&request);
  MPI_Status status;
  MPI_Wait(&request, &status);
  int cancelled = -1;
  MPI_Test_cancelled(&status, &cancelled);
  expect(cancelled == 0 && status.MPI_SOURCE == 1 && count_of(status, MPI_BYTE) == size,
         "it is not cancelled: %d, from %d", cancelled, status.MPI_SOURCE);
  expect(has_pattern(bytes.data(), bytes.size(), 9), "it came whole");
}

/// A message to oneself can be probed.
void test_own() {
  const int out = 42;
  MPI_Request request;
  MPI_Isend(&out, 1, MPI_INT, g_rank, 8, MPI_COMM_WORLD, &request);
  MPI_Status status;
  MPI_Probe(g_rank, 8, MPI_COMM_WORLD, &status);
  expect(status.MPI_SOURCE == g_rank && count_of(status, MPI_INT) == 1, "probe of an own message");
  int in = 0;
  MPI_Recv(&in, 1, MPI_INT, g_rank, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(in == 42, "own message");
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 4;
  test_nobody();
  test_own();
  test_iprobe_finds_nothing();
  MPI_Barrier(MPI_COMM_WORLD);
  test_probe_then_receive(true);
  MPI_Barrier(MPI_COMM_WORLD);
  test_probe_then_receive(false);
  MPI_Barrier(MPI_COMM_WORLD);
  test_matched_is_out();
  MPI_Barrier(MPI_COMM_WORLD);
  test_matched_is_not_cancelled();
  MPI_Barrier(MPI_COMM_WORLD);
  test_matched_by_threads(threads, 60);
  MPI_Barrier(MPI_COMM_WORLD);
  return finish();
}
