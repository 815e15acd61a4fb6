// Threads that set, delete and copy the attributes of one communicator at the same time: each value
// is deleted once, and none is copied after that.
#include <mpi.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "comms_check.hpp"

namespace {

constexpr int kRounds = 4000;

struct Value {
  std::atomic<int> deleted{0};
};

int keyval = MPI_KEYVAL_INVALID;
MPI_Comm comm;
std::atomic<int> deletions{0};

/// A callback that takes its time.
int erase(MPI_Comm /*comm*/, int /*keyval*/, void* value, void* /*extra*/) {
  WEFT_EXPECT(static_cast<Value*>(value)->deleted.fetch_add(1) == 0);
  ++deletions;
  std::this_thread::yield();
  return MPI_SUCCESS;
}

int copy(MPI_Comm /*comm*/, int /*keyval*/, void* /*extra*/, void* value, void* /*copied*/,
         int* flag) {
  std::this_thread::yield();
  WEFT_EXPECT(static_cast<Value*>(value)->deleted == 0);
  *flag = 0;
  return MPI_SUCCESS;
}

/// Calls `of_a` and `of_b` in two threads, over and over.
template <class A, class B>
void at_once(A of_a, B of_b) {
  std::thread other([&] {
    for (int round = 0; round < kRounds; ++round) of_b(round);
  });
  for (int round = 0; round < kRounds; ++round) of_a(round);
  other.join();
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_dup(MPI_COMM_SELF, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_create_keyval(copy, erase, &keyval, nullptr);
  const auto values = std::make_unique<Value[]>(2 * kRounds);

  // Each value replaces another, but for the last.
  at_once([&](int round) { MPI_Comm_set_attr(comm, keyval, &values[2 * round]); },
          [&](int round) { MPI_Comm_set_attr(comm, keyval, &values[2 * round + 1]); });
  WEFT_EXPECT(deletions == 2 * kRounds - 1);
  WEFT_EXPECT(MPI_Comm_delete_attr(comm, keyval) == MPI_SUCCESS);

  // One of two deletes it.
  std::atomic<int> deleted{0};
  for (int i = 0; i < 2 * kRounds; ++i) values[i].deleted = 0;
  const auto erase_one = [&] {
    if (MPI_Comm_delete_attr(comm, keyval) == MPI_SUCCESS) ++deleted;
  };
  deletions = 0;
  at_once(
      [&](int round) {
        MPI_Comm_set_attr(comm, keyval, &values[round]);
        erase_one();
      },
      [&](int /*round*/) { erase_one(); });
  WEFT_EXPECT(deleted == kRounds && deletions == kRounds);

  // A communicator is duplicated meanwhile.
  for (int i = 0; i < 2 * kRounds; ++i) values[i].deleted = 0;
  at_once(
      [&](int round) {
        MPI_Comm_set_attr(comm, keyval, &values[round]);
        erase_one();
      },
      [&](int /*round*/) {
        MPI_Comm copied;
        MPI_Comm_dup(comm, &copied);
        MPI_Comm_free(&copied);
      });

  MPI_Comm_free_keyval(&keyval);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return check::failures == 0 ? 0 : 1;
}
