// Sends that are cancelled before they were received: synchronous and long ones, in the middle of
// others of their key, persistent, more of them than there is room for; and too late. Each even
// rank sends to the next one, a last one without a partner to itself.
#include <chrono>
#include <cstring>

#include "requests_check.hpp"

namespace {

constexpr int kTag = 4;
constexpr int kTold = 5;        ///< of what tells the other one to go on
constexpr int kLong = 300'000;  ///< ints: announced

int g_partner = 0;
bool g_sends = false;
bool g_receives = false;

/// Both go on when both are here. Serves messages meanwhile.
void meet() {
  MPI_Sendrecv(nullptr, 0, MPI_INT, g_partner, kTold, nullptr, 0, MPI_INT, g_partner, kTold,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

bool was_cancelled(MPI_Request& request) {
  MPI_Status status;
  int cancelled = -1;
  expect(MPI_Wait(&request, &status) == MPI_SUCCESS, "a wait for a cancelled send");
  MPI_Test_cancelled(&status, &cancelled);
  return cancelled == 1;
}

bool cancel(MPI_Request& request) {
  expect(MPI_Cancel(&request) == MPI_SUCCESS, "a cancel");
  return was_cancelled(request);
}

/// What comes next of this tag is `wanted`.
void expect_next(int wanted, const char* what) {
  int value = -1;
  MPI_Recv(&value, 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  expect(value == wanted, "%s: %d came in place of %d", what, value, wanted);
}

void expect_nothing(const char* what) {
  int there = 1;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &there, &status);
  expect(there == 0, "%s: a message is there", what);
}

void send_value(int value) {
  MPI_Request request;
  MPI_Isend(&value, 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/// Taken back, and never seen; what follows comes.
void test_taken_back(bool is_long, const char* what) {
  static std::vector<int> data(kLong, 1);
  const int value = 7;
  if (g_sends) {
    MPI_Request request;
    if (is_long) {
      MPI_Isend(data.data(), kLong, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &request);
    } else {
      MPI_Issend(data.data(), 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &request);
    }
    expect(cancel(request), "%s: not cancelled", what);
  }
  meet();
  if (g_receives) expect_nothing(what);
  meet();
  if (g_sends) send_value(value);
  if (g_receives) expect_next(value, what);
  meet();
}

/// Of several of one key the middle one; also while the receiver has a wildcard posted, of which
/// nobody sends.
void test_in_the_middle(bool beside_wildcard) {
  MPI_Request wildcard;
  int nothing = 0;
  if (g_receives && beside_wildcard) {
    MPI_Irecv(&nothing, 1, MPI_INT, MPI_ANY_SOURCE, kTag + 10, MPI_COMM_WORLD, &wildcard);
  }
  meet();
  constexpr int kMessages = 9;
  int values[kMessages];
  MPI_Request requests[kMessages];
  if (g_sends) {
    for (int i = 0; i < kMessages; ++i) {
      values[i] = i;
      MPI_Issend(&values[i], 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &requests[i]);
    }
    for (const int i : {4, 8, 0}) expect(cancel(requests[i]), "%d of 9: not cancelled", i);
  }
  meet();
  if (g_receives) {
    for (const int i : {1, 2, 3, 5, 6, 7}) expect_next(i, "without the middle one");
    expect_nothing("all but three");
    if (beside_wildcard) expect(cancel(wildcard), "a wildcard that nobody met");
  }
  if (g_sends) {
    for (int i = 0; i < kMessages; ++i) {
      MPI_Status status;
      MPI_Wait(&requests[i], &status);
      int cancelled = 1;
      MPI_Test_cancelled(&status, &cancelled);
      expect(cancelled == 0, "%d of 9 was not to be cancelled", i);
    }
  }
  meet();
}

/// Its receive was there first; or it has been taken by a matched probe.
void test_too_late() {
  std::vector<int> data(kLong, 3);
  std::vector<int> room(kLong);
  MPI_Request receive;
  MPI_Request send;
  if (g_receives) {
    MPI_Irecv(room.data(), kLong, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &receive);
  }
  meet();
  if (g_sends) {
    MPI_Issend(data.data(), kLong, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &send);
    expect(!cancel(send), "cancelled although its receive was there");
  }
  if (g_receives) {
    MPI_Wait(&receive, MPI_STATUS_IGNORE);
    expect(room == data, "a message whose cancel came too late");
  }
  meet();
  if (g_sends) MPI_Issend(data.data(), 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &send);
  MPI_Message message;
  if (g_receives) MPI_Mprobe(g_partner, kTag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  meet();
  if (g_sends) MPI_Cancel(&send);
  meet();
  if (g_receives) {
    room[0] = 0;
    MPI_Mrecv(room.data(), 1, MPI_INT, &message, MPI_STATUS_IGNORE);
    expect(room[0] == 3, "taken by a matched probe before the cancel");
  }
  if (g_sends) expect(!was_cancelled(send), "cancelled although a matched probe had taken it");
  // Eager, and gone: cancel does nothing.
  if (g_sends) {
    MPI_Isend(data.data(), 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &send);
    expect(!cancel(send), "an eager send that had gone");
  }
  if (g_receives) expect_next(3, "an eager send that had gone");
  meet();
}

void test_persistent() {
  MPI_Request send;
  int value = 11;
  MPI_Ssend_init(&value, 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD, &send);
  if (g_sends) {
    MPI_Start(&send);
    expect(cancel(send) && send != MPI_REQUEST_NULL, "a persistent send");
    value = 12;
    MPI_Start(&send);
  }
  meet();
  if (g_receives) expect_next(12, "a persistent send, started again");
  if (g_sends) expect(!was_cancelled(send), "a persistent send, started again");
  MPI_Request_free(&send);
  meet();
}

/// Its receiver frees the communicator without having received.
void test_freed() {
  MPI_Comm pair;
  MPI_Comm_split(MPI_COMM_WORLD, g_rank / 2, g_rank, &pair);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(pair, &rank);
  MPI_Comm_size(pair, &size);
  MPI_Request send;
  const int value = 5;
  if (g_sends) MPI_Issend(&value, 1, MPI_INT, size - 1, kTag, pair, &send);
  meet();
  MPI_Comm_free(&pair);
  if (g_sends) expect(cancel(send), "sent on a communicator that is freed");
  meet();
}

/// More than the lanes and records of some configurations take, while the receiver is away.
void test_many() {
  constexpr int kMessages = 2000;
  std::vector<int> values(kMessages);
  std::vector<MPI_Request> requests(kMessages);
  if (g_receives && !g_sends) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  if (g_sends) {
    for (int i = 0; i < kMessages; ++i) {
      values[static_cast<std::size_t>(i)] = i;
      MPI_Issend(&values[static_cast<std::size_t>(i)], 1, MPI_INT, g_partner, kTag, MPI_COMM_WORLD,
                 &requests[static_cast<std::size_t>(i)]);
    }
    // The odd ones, the last first.
    for (int i = kMessages - 1; i > 0; i -= 2) MPI_Cancel(&requests[static_cast<std::size_t>(i)]);
    for (int i = 1; i < kMessages; i += 2) {
      expect(was_cancelled(requests[static_cast<std::size_t>(i)]), "%d of many: not cancelled", i);
    }
  }
  meet();
  if (g_receives) {
    for (int i = 0; i < kMessages; i += 2) expect_next(i, "of many every second one");
    expect_nothing("of many all");
  }
  if (g_sends) MPI_Waitall(kMessages, requests.data(), MPI_STATUSES_IGNORE);
  meet();
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const bool alone = g_rank == g_size - 1 && g_rank % 2 == 0;
  g_partner = alone ? g_rank : g_rank ^ 1;
  g_sends = g_rank % 2 == 0;
  g_receives = alone || g_rank % 2 == 1;
  test_taken_back(false, "a synchronous send");
  test_taken_back(true, "a long send");
  test_in_the_middle(false);
  test_in_the_middle(true);
  test_too_late();
  test_persistent();
  test_freed();
  for (int i = 0; i < 3; ++i) test_many();
  return finish();
}
