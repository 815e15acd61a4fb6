// Buffered sends: the attached memory is filled to the last byte, refuses what does not fit, comes
// back when all has gone; buffers of communicators, automatic ones.
#include <sys/resource.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "requests_check.hpp"

namespace {

constexpr int kBytes = 1000;

/// Sends to itself, all of it before anything is received: the copies must be somewhere.
void test_exact(int messages, std::size_t misalignment) {
  const int room = messages * (kBytes + MPI_BSEND_OVERHEAD);
  std::vector<unsigned char> memory(static_cast<std::size_t>(room) + misalignment + 1, 0xaa);
  unsigned char* buffer = memory.data() + misalignment;
  MPI_Buffer_attach(buffer, room);
  std::vector<unsigned char> data(kBytes);
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < messages; ++i) {
      fill_pattern(data, static_cast<uint32_t>(i));
      expect(MPI_Bsend(data.data(), kBytes, MPI_BYTE, g_rank, i, MPI_COMM_WORLD) == MPI_SUCCESS,
             "message %d of %d fits", i, messages);
    }
    for (int i = messages - 1; i >= 0; --i) {
      MPI_Status status;
      MPI_Recv(data.data(), kBytes, MPI_BYTE, g_rank, i, MPI_COMM_WORLD, &status);
      expect(has_pattern(data.data(), kBytes, static_cast<uint32_t>(i)) &&
                 count_of(status, MPI_BYTE) == kBytes,
             "message %d", i);
    }
  }
  void* back = nullptr;
  int size = 0;
  MPI_Buffer_detach(&back, &size);
  expect(back == buffer && size == room, "the buffer comes back");
  expect(memory.back() == 0xaa, "nothing is written behind it");
}

void test_overflow() {
  std::vector<unsigned char> data(1 << 20);
  expect_class(MPI_Bsend(data.data(), 1, MPI_BYTE, g_rank, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER,
               "no buffer");
  std::vector<unsigned char> memory(10000);
  MPI_Buffer_attach(memory.data(), 10000);
  expect(MPI_Buffer_attach(memory.data(), 10000) != MPI_SUCCESS, "a second buffer is refused");
  expect_class(MPI_Bsend(data.data(), 1 << 20, MPI_BYTE, g_rank, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER,
               "a message that is too large");
  MPI_Request request = MPI_REQUEST_NULL;
  expect_class(MPI_Ibsend(data.data(), 1 << 20, MPI_BYTE, g_rank, 0, MPI_COMM_WORLD, &request),
               MPI_ERR_BUFFER, "the same, nonblocking");
  int in = 0;
  int out = 7;
  MPI_Bsend(&out, 1, MPI_INT, g_rank, 0, MPI_COMM_WORLD);
  MPI_Recv(&in, 1, MPI_INT, g_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(in == 7, "and then one that fits");
  void* back = nullptr;
  int size = 0;
  MPI_Buffer_detach(&back, &size);
}

/// Detaching waits for the receiver.
void test_detach_waits() {
  if (g_rank > 1 || g_size < 2) return;
  constexpr int kMessages = 20;
  constexpr int kLarge = 200000;
  if (g_rank == 0) {
    const int room = kMessages * (kLarge + MPI_BSEND_OVERHEAD);
    std::vector<unsigned char> memory(static_cast<std::size_t>(room));
    std::vector<unsigned char> data(kLarge);
    MPI_Buffer_attach(memory.data(), room);
    for (int i = 0; i < kMessages; ++i) {
      fill_pattern(data, static_cast<uint32_t>(i));
      MPI_Bsend(data.data(), kLarge, MPI_BYTE, 1, 3, MPI_COMM_WORLD);
    }
    MPI_Send(nullptr, 0, MPI_BYTE, 1, 4, MPI_COMM_WORLD);
    void* back = nullptr;
    int size = 0;
    MPI_Buffer_detach(&back, &size);
    std::fill(memory.begin(), memory.end(), static_cast<unsigned char>(0));
    expect(size == room, "the size");
    return;
  }
  MPI_Recv(nullptr, 0, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<unsigned char> in(kLarge);
  for (int i = 0; i < kMessages; ++i) {
    MPI_Recv(in.data(), kLarge, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(has_pattern(in.data(), in.size(), static_cast<uint32_t>(i)), "message %d", i);
  }
}

/// Several threads share the buffer, while a type with gaps is packed into it.
void test_threads(int threads) {
  const int room = threads * 4 * (100 * static_cast<int>(sizeof(int)) + MPI_BSEND_OVERHEAD);
  std::vector<unsigned char> memory(static_cast<std::size_t>(room));
  MPI_Buffer_attach(memory.data(), room);
  MPI_Datatype type;
  MPI_Type_vector(100, 1, 2, MPI_INT, &type);
  MPI_Type_commit(&type);
  in_threads(threads, [&](int number) {
    int out[200];
    int in[100];
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 200; ++k) out[k] = k % 2 == 0 ? round * 1000 + i * 100 + k / 2 : -1;
        if (i == 1) {
          MPI_Request request;
          MPI_Ibsend(out, 1, type, g_rank, number, MPI_COMM_WORLD, &request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
          MPI_Bsend(out, 1, type, g_rank, number, MPI_COMM_WORLD);
        }
      }
      for (int i = 0; i < 3; ++i) {
        MPI_Recv(in, 100, MPI_INT, g_rank, number, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int k = 0; k < 100; ++k) {
          if (!expect(in[k] == round * 1000 + i * 100 + k, "thread %d, round %d: element %d is %d",
                      number, round, k, in[k])) {
            break;
          }
        }
      }
    }
  });
  MPI_Type_free(&type);
  void* back = nullptr;
  int size = 0;
  MPI_Buffer_detach(&back, &size);
}

/// A buffer that a communicator has for itself (MPI 4.1).
void test_comm_buffer() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  std::vector<unsigned char> memory(kBytes + MPI_BSEND_OVERHEAD);
  std::vector<unsigned char> data(kBytes, 3);
  std::vector<unsigned char> in(kBytes, 0);
  MPI_Comm_attach_buffer(comm, memory.data(), static_cast<int>(memory.size()));
  expect(MPI_Bsend(data.data(), kBytes, MPI_BYTE, 0, 0, comm) == MPI_SUCCESS,
         "a communicator's buffer");
  expect_class(MPI_Bsend(data.data(), 1, MPI_BYTE, g_rank, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER,
               "others have none");
  MPI_Request flush;
  MPI_Comm_iflush_buffer(comm, &flush);
  MPI_Recv(in.data(), kBytes, MPI_BYTE, 0, 0, comm, MPI_STATUS_IGNORE);
  MPI_Wait(&flush, MPI_STATUS_IGNORE);
  MPI_Comm_flush_buffer(comm);
  expect(in == data, "its message");
  void* back = nullptr;
  int size = 0;
  MPI_Comm_detach_buffer(comm, &back, &size);
  expect(back == memory.data() && size == static_cast<int>(memory.size()), "and it comes back");
  MPI_Comm_free(&comm);
}

/// Of automatic buffering the size says nothing.
void test_automatic_sizes() {
  void* back = nullptr;
  int size = -1;
  for (const int said : {-1, 0, 1000}) {
    expect_class(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, said), MPI_SUCCESS, "of the process");
    MPI_Buffer_detach(&back, &size);
    expect(back == MPI_BUFFER_AUTOMATIC, "that of the process is detached");
    expect_class(MPI_Comm_attach_buffer(MPI_COMM_SELF, MPI_BUFFER_AUTOMATIC, said), MPI_SUCCESS,
                 "of a communicator");
    MPI_Comm_detach_buffer(MPI_COMM_SELF, &back, &size);
    expect(back == MPI_BUFFER_AUTOMATIC, "that of a communicator is detached");
  }
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  expect_class(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, -1), MPI_SUCCESS,
               "of a session");
  MPI_Session_detach_buffer(session, &back, &size);
  MPI_Session_finalize(&session);
  std::vector<unsigned char> memory(100);
  expect_class(MPI_Buffer_attach(memory.data(), -1), MPI_ERR_ARG, "another buffer");
}

void test_automatic() {
  MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
  std::vector<unsigned char> data(100000);
  for (uint32_t i = 0; i < 20; ++i) {
    fill_pattern(data, i);
    MPI_Bsend(data.data(), 100000, MPI_BYTE, g_rank, 1, MPI_COMM_WORLD);
  }
  MPI_Request flush;
  MPI_Buffer_iflush(&flush);
  for (uint32_t i = 0; i < 20; ++i) {
    MPI_Recv(data.data(), 100000, MPI_BYTE, g_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(has_pattern(data.data(), data.size(), i), "automatic message %u", i);
  }
  MPI_Wait(&flush, MPI_STATUS_IGNORE);
  MPI_Buffer_flush();
  void* back = nullptr;
  int size = 0;
  MPI_Buffer_detach(&back, &size);
  expect(back == MPI_BUFFER_AUTOMATIC, "automatic buffering is detached");
}

// Sanitizers end who asks for so much.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
/// A start that fails for want of memory leaves its request inactive.
void test_huge_start() {
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, rlim_t{1} << 45);
  ::setrlimit(RLIMIT_AS, &limit);
  MPI_Datatype wide;
  MPI_Type_contiguous(1 << 15, MPI_BYTE, &wide);
  MPI_Type_commit(&wide);
  MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
  MPI_Request request;
  char byte = 0;
  expect_class(MPI_Bsend_init(&byte, INT_MAX, wide, g_rank, 1, MPI_COMM_WORLD, &request),
               MPI_SUCCESS, "a huge message is none before it is started");
  for (int i = 0; i < 2; ++i) {
    expect_class(MPI_Start(&request), MPI_ERR_NO_MEM, "more than any memory");
  }
  MPI_Request_free(&request);
  void* back = nullptr;
  int size = 0;
  MPI_Buffer_detach(&back, &size);
  MPI_Type_free(&wide);
}
#else
void test_huge_start() {}
#endif

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
  test_overflow();
  for (std::size_t misalignment : {0U, 1U, 7U}) test_exact(10, misalignment);
  test_exact(1000, 3);
  MPI_Barrier(MPI_COMM_WORLD);
  test_detach_waits();
  test_threads(threads);
  test_comm_buffer();
  test_automatic_sizes();
  test_automatic();
  test_huge_start();
  return finish();
}
