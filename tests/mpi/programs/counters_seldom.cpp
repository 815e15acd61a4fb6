// Counters of what seldom happens, each made to happen: a message that overtakes another one
// between devices, a sender that is told to announce, a thread that parks. The job's settings are
// those of its test: two devices, chosen by tag, and 4 KiB of a sender's messages that may wait.
#include <string>
#include <thread>
#include <vector>

#include "check.hpp"
#include "pvar.hpp"

namespace {

constexpr int kMessages = 20;
constexpr int kBytes = 1000;

/// Tags of the two devices by turns, none of which is looked at before the last message is awaited:
/// by its device, which has every other one.
void overtaken(MPI_Comm own) {
  const Counter all("out_of_sequence");
  const Counter here("comm_out_of_sequence", own);
  for (int tag = 0; tag < 4; ++tag) MPI_Send(&tag, 1, MPI_INT, 0, tag, own);
  for (int tag = 3; tag >= 0; --tag) {
    int word = -1;
    MPI_Recv(&word, 1, MPI_INT, 0, tag, own, MPI_STATUS_IGNORE);
    WEFT_CHECK(word == tag);
  }
  WEFT_CHECK(here.value() > 0 && all.value() >= here.value());
}

/// More than may wait, all by one device: in order.
void stopped(MPI_Comm own) {
  const Counter stops("stops");
  std::vector<char> out(kBytes, 'x');
  MPI_Request requests[kMessages];
  for (int i = 0; i < kMessages; ++i)
    MPI_Isend(out.data(), kBytes, MPI_CHAR, 0, 2 * i, own, &requests[i]);
  MPI_Probe(0, 2 * (kMessages - 1), own, MPI_STATUS_IGNORE);
  WEFT_CHECK(stops.value() == 1);
  for (int i = 0; i < kMessages; ++i) {
    std::vector<char> in(kBytes);
    MPI_Recv(in.data(), kBytes, MPI_CHAR, 0, 2 * i, own, MPI_STATUS_IGNORE);
    WEFT_CHECK(in == out);
  }
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
}

/// Two threads wait for messages of one device, which come when one of them was seen to park behind
/// the other.
void parked(MPI_Comm own) {
  const Counter parks("device_parks");
  const auto receive = [own](int tag) {
    MPI_Recv(nullptr, 0, MPI_INT, 0, tag, own, MPI_STATUS_IGNORE);
  };
  std::thread one(receive, 0);
  std::thread other(receive, 2);
  while (parks.value() == 0) std::this_thread::yield();
  for (const int tag : {0, 2}) MPI_Send(nullptr, 0, MPI_INT, 0, tag, own);
  one.join();
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
  MPI_T_pvar_session_create(&session);
  MPI_Comm own;
  MPI_Comm_dup(MPI_COMM_SELF, &own);
  overtaken(own);
  stopped(own);
  parked(own);
  MPI_Comm_free(&own);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Finalize();
  return result();
}
