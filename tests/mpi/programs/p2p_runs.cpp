// Short messages that come together, which are matched together: to receives that were posted
// before, or come later, of unlike kinds; in order, each with its own status.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "check.hpp"

namespace {

constexpr int kMessages = 20;
constexpr int kRounds = 600;
constexpr int kTag = 7;
constexpr int kReady = 8;
constexpr int kWords = 6;  ///< of the longer ones, which take two cells of a ring

MPI_Comm comm = MPI_COMM_NULL;
MPI_Datatype with_holes = MPI_DATATYPE_NULL;  ///< every other int, as many bytes as one word

int64_t value_of(int round, int message) { return int64_t{round} * 1000 + message; }

enum class Kind { plain, holes, too_short, any_tag, any_source };

/// Of what kind the receive is that will meet this message: wildcards in some rounds only.
Kind kind_of(int round, int message) {
  switch ((round + message) % 11) {
    case 2:
      return Kind::holes;
    case 5:
      return Kind::too_short;
    case 7:
      return round % 50 > 40 ? Kind::any_tag : Kind::plain;
    case 9:
      return round % 50 > 40 ? Kind::any_source : Kind::plain;
    default:
      return Kind::plain;
  }
}

struct Receive {
  Kind kind = Kind::plain;
  std::array<int64_t, kWords> words{};
  MPI_Request request = MPI_REQUEST_NULL;
};

void post(Receive& receive, Kind kind, int words) {
  receive.kind = kind;
  receive.words.fill(-1);
  const int source = kind == Kind::any_source ? MPI_ANY_SOURCE : 0;
  const int tag = kind == Kind::any_tag ? MPI_ANY_TAG : kTag;
  if (kind == Kind::holes) {
    MPI_Irecv(receive.words.data(), words, with_holes, source, tag, comm, &receive.request);
  } else {
    const int bytes = kind == Kind::too_short ? 4 : words * 8;
    MPI_Irecv(receive.words.data(), bytes, MPI_BYTE, source, tag, comm, &receive.request);
  }
}

void check(const Receive& receive, const MPI_Status& status, int64_t value, int words) {
  WEFT_CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == kTag);
  if (receive.kind == Kind::too_short) {
    WEFT_CHECK(class_of(status.MPI_ERROR) == MPI_ERR_TRUNCATE);
    return;
  }
  WEFT_CHECK(class_of(status.MPI_ERROR) == MPI_SUCCESS);
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  WEFT_CHECK(bytes == words * 8);
  std::array<int64_t, kWords> got = receive.words;
  if (receive.kind == Kind::holes) {
    // Its ints lie one apart: only the first word is looked at, as the others reach beyond.
    std::array<int32_t, 3> ints;
    std::memcpy(ints.data(), receive.words.data(), sizeof ints);
    const std::array<int32_t, 2> halves{ints[0], ints[2]};
    std::memcpy(got.data(), halves.data(), sizeof halves);
    WEFT_CHECK(ints[1] == -1);
  }
  WEFT_CHECK(got[0] == value);
  if (receive.kind == Kind::plain && words > 1) {
    WEFT_CHECK(got[static_cast<std::size_t>(words) - 1] == value);
  }
}

/// Ends all, by one of the calls that end several.
void end_all(int round, std::vector<MPI_Request>& requests, std::vector<MPI_Status>& statuses) {
  for (MPI_Status& status : statuses) status.MPI_ERROR = MPI_SUCCESS;
  const auto count = static_cast<int>(requests.size());
  if (round % 3 == 0) {
    (void)MPI_Waitall(count, requests.data(), statuses.data());
  } else if (round % 3 == 1) {
    for (int flag = 0; flag == 0;)
      (void)MPI_Testall(count, requests.data(), &flag, statuses.data());
  } else {
    std::vector<int> which(requests.size());
    std::vector<MPI_Status> some(requests.size());
    for (int ended = 0; ended < count;) {
      for (MPI_Status& status : some) status.MPI_ERROR = MPI_SUCCESS;
      int now = 0;
      (void)MPI_Waitsome(count, requests.data(), &now, which.data(), some.data());
      WEFT_CHECK(now > 0);
      for (int i = 0; i < now; ++i)
        statuses[static_cast<std::size_t>(which[static_cast<std::size_t>(i)])] =
            some[static_cast<std::size_t>(i)];
      ended += now;
    }
  }
  for (const MPI_Request request : requests) WEFT_CHECK(request == MPI_REQUEST_NULL);
}

void receive_rounds() {
  constexpr std::array<int, 7> kBefore{20, 0, 3, 8, 1, 12, 20};  // posted before they come
  for (int round = 0; round < kRounds && failures == 0; ++round) {
    const int words = round % 20 < 14 ? 1 : kWords;
    const int before = kBefore[static_cast<std::size_t>(round) % kBefore.size()];
    std::vector<Receive> receives(kMessages);
    const auto post_one = [&](int i) {
      // What has holes has them in one word only.
      const Kind kind = kind_of(round, i);
      post(receives[static_cast<std::size_t>(i)],
           kind == Kind::holes && words > 1 ? Kind::plain : kind, words);
    };
    for (int i = 0; i < before; ++i) post_one(i);
    MPI_Send(nullptr, 0, MPI_BYTE, 0, kReady, comm);
    if (round % 4 != 0) ::usleep(100);  // so that they lie there together
    for (int i = before; i < kMessages; ++i) post_one(i);
    std::vector<MPI_Request> requests;
    for (const Receive& each : receives) requests.push_back(each.request);
    std::vector<MPI_Status> statuses(kMessages);
    end_all(round, requests, statuses);
    for (int i = 0; i < kMessages; ++i) {
      const auto at = static_cast<std::size_t>(i);
      check(receives[at], statuses[at], value_of(round, i), words);
    }
  }
}

void send_rounds() {
  for (int round = 0; round < kRounds; ++round) {
    const int words = round % 20 < 14 ? 1 : kWords;
    MPI_Recv(nullptr, 0, MPI_BYTE, 1, kReady, comm, MPI_STATUS_IGNORE);
    for (int i = 0; i < kMessages; ++i) {
      std::array<int64_t, kWords> data;
      data.fill(value_of(round, i));
      MPI_Send(data.data(), words * 8, MPI_BYTE, 1, kTag, comm);
    }
  }
}

// --- Requests that end together ------------------------------------------------------------------

constexpr int kWanted = 50;  ///< more than may exist beside as many others (WEFT_MPI_REQUESTS=64)
std::array<MPI_Request, kWanted> made_meanwhile;

int query(void* /*state*/, MPI_Status* status) {
  MPI_Status_set_elements(status, MPI_BYTE, 0);
  MPI_Status_set_cancelled(status, 0);
  return MPI_SUCCESS;
}
int make_others(void* /*state*/) {
  for (MPI_Request& request : made_meanwhile) {
    WEFT_CHECK_CLASS(MPI_SUCCESS, MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request));
  }
  return MPI_SUCCESS;
}
int ignore_cancel(void* /*state*/, int /*complete*/) { return MPI_SUCCESS; }

/// What ended before it in the same call is there for what a callback begins.
void make_requests_in_a_callback() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  std::vector<MPI_Request> requests(kWanted + 1);
  for (int i = 0; i < kWanted; ++i) {
    MPI_Irecv(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF, &requests[static_cast<std::size_t>(i)]);
  }
  for (int i = 0; i < kWanted; ++i) MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_SELF);
  MPI_Grequest_start(query, make_others, ignore_cancel, nullptr, &requests.back());
  MPI_Grequest_complete(requests.back());
  MPI_Waitall(kWanted + 1, requests.data(), MPI_STATUSES_IGNORE);
  for (MPI_Request& request : made_meanwhile) {
    MPI_Cancel(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Type_vector(2, 1, 2, MPI_INT, &with_holes);
  MPI_Type_commit(&with_holes);
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  if (rank == 0) {
    send_rounds();
  } else {
    receive_rounds();
  }
  make_requests_in_a_callback();
  MPI_Type_free(&with_holes);
  MPI_Comm_free(&comm);
  MPI_Finalize();
  return result();
}
