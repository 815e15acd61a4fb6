// What MPI forbids and programs do: the same blocking collective of one communicator in several
// threads of a process at once. They go one after the other, whichever meet.
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "check.hpp"

namespace {

int size = 0;

void in_threads(const std::function<void()>& call) {
  constexpr int kThreads = 3;
  constexpr int kCalls = 60;
  std::vector<std::jthread> all;
  for (int thread = 0; thread < kThreads; ++thread) {
    all.emplace_back([&call] {
      for (int i = 0; i < kCalls; ++i) call();
    });
  }
}

/// By a board where there is one, and by messages.
void collectives(MPI_Comm comm) {
  in_threads([comm] { MPI_Barrier(comm); });
  for (const int count : {3, 1000}) {
    const auto length = static_cast<std::size_t>(count);
    in_threads([&] {
      const std::vector<int64_t> ones(length, 1);
      std::vector<int64_t> sums(length, 0);
      MPI_Allreduce(ones.data(), sums.data(), count, MPI_INT64_T, MPI_SUM, comm);
      WEFT_CHECK(sums.front() == size && sums.back() == size);
    });
    in_threads([&] {
      const std::vector<int64_t> ones(length * static_cast<std::size_t>(size), 1);
      std::vector<int64_t> all(length * static_cast<std::size_t>(size), 0);
      MPI_Alltoall(ones.data(), count, MPI_INT64_T, all.data(), count, MPI_INT64_T, comm);
      WEFT_CHECK(all == ones);
    });
    in_threads([&] {
      std::vector<int64_t> data(length, 7);
      MPI_Bcast(data.data(), count, MPI_INT64_T, size - 1, comm);
      WEFT_CHECK(data.front() == 7 && data.back() == 7);
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  collectives(MPI_COMM_WORLD);
  MPI_Finalize();
  return result();
}
