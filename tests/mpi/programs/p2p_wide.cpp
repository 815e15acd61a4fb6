// Messages of 16 KiB to 1 MiB, which go in one packet, in several or announced: posted first or
// later, whole or cut off, with holes, between small ones, in order.
#include <mpi.h>

#include <algorithm>
#include <vector>

#include "check.hpp"

namespace {

const std::vector<int> kSizes{16'384,  24'575,  24'576,  65'536,  65'537,    131'072,
                              200'001, 262'143, 262'144, 262'145, 1'048'576, 8};

unsigned char value_of(int size, int message, int at) {
  return static_cast<unsigned char>(size * 31 + message * 7 + at * 13 + (at >> 8));
}

std::vector<unsigned char> bytes_of(int size, int message) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(size));
  for (int i = 0; i < size; ++i) bytes[static_cast<std::size_t>(i)] = value_of(size, message, i);
  return bytes;
}

/// One message each way after another, of which the receiver knows before or not.
void to_and_fro(int rank, bool posted_first) {
  for (int time = 0; time < 6; ++time) {
    for (const int size : kSizes) {
      const int sender = time % 2;
      const auto sent = bytes_of(size, time);
      std::vector<unsigned char> got(sent.size());
      if (rank == sender) {
        if (posted_first)
          MPI_Recv(nullptr, 0, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(sent.data(), size, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
        if (!posted_first) MPI_Send(nullptr, 0, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD);
      } else if (posted_first) {
        MPI_Request request;
        MPI_Irecv(got.data(), size, MPI_BYTE, sender, 0, MPI_COMM_WORLD, &request);
        MPI_Send(nullptr, 0, MPI_BYTE, sender, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        WEFT_CHECK(got == sent);
      } else {
        // It may be here, or is announced: a send of more than that would wait for its receive.
        int flag = 0;
        MPI_Status status;
        while (flag == 0) MPI_Iprobe(sender, 0, MPI_COMM_WORLD, &flag, &status);
        int count = 0;
        MPI_Get_count(&status, MPI_BYTE, &count);
        WEFT_CHECK(count == size);
        MPI_Recv(got.data(), size, MPI_BYTE, sender, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        WEFT_CHECK(got == sent);
        MPI_Recv(nullptr, 0, MPI_BYTE, sender, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      }
    }
  }
}

/// All sizes at once, with one tag: they are received in the order in which they were sent.
void in_order(int rank) {
  for (int time = 0; time < 10; ++time) {
    std::vector<std::vector<unsigned char>> buffers;
    for (const int size : kSizes) {
      buffers.push_back(rank == 0 ? bytes_of(size, time)
                                  : std::vector<unsigned char>(static_cast<std::size_t>(1) << 20));
    }
    std::vector<MPI_Request> requests(kSizes.size());
    if (time % 2 == 0) MPI_Barrier(MPI_COMM_WORLD);
    for (std::size_t i = 0; i < kSizes.size(); ++i) {
      if (rank == 0) {
        MPI_Isend(buffers[i].data(), kSizes[i], MPI_BYTE, 1, 5, MPI_COMM_WORLD, &requests[i]);
      } else {
        MPI_Irecv(buffers[i].data(), 1 << 20, MPI_BYTE, i % 2 == 0 ? MPI_ANY_SOURCE : 0, 5,
                  MPI_COMM_WORLD, &requests[i]);
      }
    }
    std::vector<MPI_Status> statuses(kSizes.size());
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
    for (std::size_t i = 0; rank == 1 && i < kSizes.size(); ++i) {
      int count = 0;
      MPI_Get_count(&statuses[i], MPI_BYTE, &count);
      WEFT_CHECK(count == kSizes[i]);
      const auto sent = bytes_of(kSizes[i], time);
      WEFT_CHECK(std::equal(sent.begin(), sent.end(), buffers[i].begin()));
    }
  }
}

/// Receives with holes, and such that are too short.
void otherwise(int rank) {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  for (int time = 0; time < 20; ++time) {
    for (const int size : kSizes) {
      const int count = size / 8;
      const auto sent = bytes_of(8 * count, time);
      MPI_Datatype pairs;  // of each 16 bytes the first 8
      MPI_Type_vector(count, 8, 16, MPI_BYTE, &pairs);
      MPI_Type_commit(&pairs);
      std::vector<unsigned char> wide(static_cast<std::size_t>(16 * count), 0xee);
      if (rank == 0) {
        if (time % 2 == 0) MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; time % 4 > 1 && i < count; ++i)
          std::copy_n(sent.begin() + 8 * i, 8, wide.begin() + 16 * i);
        if (time % 4 > 1) {
          MPI_Send(wide.data(), 1, pairs, 1, 0, MPI_COMM_WORLD);
        } else {
          MPI_Send(sent.data(), 8 * count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        }
        MPI_Send(sent.data(), 8 * count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
      } else {
        MPI_Request request;
        MPI_Irecv(wide.data(), 1, pairs, 0, 0, MPI_COMM_WORLD, &request);
        if (time % 2 == 0) MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
        WEFT_CHECK(MPI_Wait(&request, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        bool right = true;
        for (int i = 0; i < 16 * count; ++i) {
          const unsigned char expected =
              i % 16 < 8 ? sent[static_cast<std::size_t>(i / 16 * 8 + i % 16)] : 0xee;
          right = right && wide[static_cast<std::size_t>(i)] == expected;
        }
        WEFT_CHECK(right);
        const int error =
            MPI_Recv(wide.data(), 7, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        WEFT_CHECK(class_of(error) == MPI_ERR_TRUNCATE);
      }
      MPI_Type_free(&pairs);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  to_and_fro(rank, true);
  to_and_fro(rank, false);
  in_order(rank);
  otherwise(rank);
  MPI_Finalize();
  return result();
}
