// The counters of messages, matching and devices, after traffic that is known.
#include <cstdint>
#include <string>
#include <vector>

#include "check.hpp"
#include "pvar.hpp"

namespace {

/// Those of messages on one communicator, or of all.
struct Counters {
  explicit Counters(MPI_Comm comm = MPI_COMM_NULL)
      : prefix(comm == MPI_COMM_NULL ? "" : "comm_"),
        sent(prefix + "messages_sent", comm),
        received(prefix + "messages_received", comm),
        bytes_sent(prefix + "bytes_sent", comm),
        bytes_received(prefix + "bytes_received", comm),
        unexpected(prefix + "unexpected", comm),
        announced(prefix + "announced", comm),
        attempts(prefix + "match_attempts", comm),
        time(prefix + "match_time", comm),
        posted(prefix + "posted_length", comm),
        waiting(prefix + "unexpected_length", comm),
        most_posted(prefix + "posted_most", comm),
        most_waiting(prefix + "unexpected_most", comm) {}
  std::string prefix;
  Counter sent;
  Counter received;
  Counter bytes_sent;
  Counter bytes_received;
  Counter unexpected;
  Counter announced;
  Counter attempts;
  Counter time;
  Counter posted;
  Counter waiting;
  Counter most_posted;
  Counter most_waiting;
};

constexpr int kMessages = 10;
constexpr int kWords = 6;
constexpr int kBytes = kWords * static_cast<int>(sizeof(int));

/// To oneself on `comm`: each receive waits for its message.
void posted_first(MPI_Comm comm, bool timed) {
  const Counters of(comm);
  int me = 0;
  MPI_Comm_rank(comm, &me);
  int in[kMessages][kWords];
  const int out[kWords] = {1, 2, 3, 4, 5, 6};
  MPI_Request requests[kMessages];
  for (int i = 0; i < kMessages; ++i) {
    MPI_Irecv(in[i], kWords, MPI_INT, me, i, comm, &requests[i]);
  }
  WEFT_CHECK(of.posted.value() == kMessages);
  for (int i = 0; i < kMessages; ++i) MPI_Send(out, kWords, MPI_INT, me, i, comm);
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
  WEFT_CHECK(of.sent.value() == kMessages && of.received.value() == kMessages);
  WEFT_CHECK(of.bytes_sent.value() == kMessages * kBytes);
  WEFT_CHECK(of.bytes_received.value() == kMessages * kBytes);
  WEFT_CHECK(of.unexpected.value() == 0 && of.announced.value() == 0);
  WEFT_CHECK(of.attempts.value() == 2 * kMessages);
  WEFT_CHECK(of.posted.value() == 0 && of.waiting.value() == 0);
  WEFT_CHECK(of.most_posted.value() == (timed ? kMessages : 0));
  WEFT_CHECK((of.time.value() != 0) == timed);
}

/// The same, each message before its receive; a probe tells when all are there.
void sent_first(MPI_Comm comm) {
  const Counters of(comm);
  int me = 0;
  MPI_Comm_rank(comm, &me);
  int word = 0;
  for (int i = 0; i < kMessages; ++i) MPI_Send(&i, 1, MPI_INT, me, i, comm);
  for (int i = 0; i < kMessages; ++i) MPI_Probe(me, i, comm, MPI_STATUS_IGNORE);
  WEFT_CHECK(of.unexpected.value() == kMessages && of.waiting.value() == kMessages);
  WEFT_CHECK(of.most_waiting.value() == kMessages);
  WEFT_CHECK(of.received.value() == 0);
  for (int i = 0; i < kMessages - 1; ++i) {
    MPI_Recv(&word, 1, MPI_INT, me, i, comm, MPI_STATUS_IGNORE);
  }
  MPI_Message message;
  MPI_Mprobe(me, kMessages - 1, comm, &message, MPI_STATUS_IGNORE);
  WEFT_CHECK(of.waiting.value() == 0);
  MPI_Mrecv(&word, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
  WEFT_CHECK(of.received.value() == kMessages && of.attempts.value() == 2 * kMessages);
  WEFT_CHECK(of.most_waiting.value() == kMessages);
  // One that is taken back.
  MPI_Request request;
  MPI_Irecv(&word, 1, MPI_INT, me, 0, comm, &request);
  WEFT_CHECK(of.posted.value() == 1);
  MPI_Cancel(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  WEFT_CHECK(of.posted.value() == 0);
}

/// Around the ring of ranks, by rendezvous; communicators count for themselves.
void large(MPI_Comm comm, MPI_Comm other) {
  const Counters of(comm);
  const Counters elsewhere(other);
  const Counters all;
  int me = 0;
  int size = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &size);
  std::vector<char> out(1 << 20, 'x');
  std::vector<char> in(1 << 20);
  const int bytes = static_cast<int>(out.size());
  MPI_Sendrecv(out.data(), bytes, MPI_CHAR, (me + 1) % size, 0, in.data(), bytes, MPI_CHAR,
               (me + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
  WEFT_CHECK(in == out);
  for (const Counters* each : {&of, &all}) {
    WEFT_CHECK(each->sent.value() == 1 && each->received.value() == 1);
    WEFT_CHECK(each->announced.value() == 1);
    WEFT_CHECK(each->bytes_sent.value() == out.size() &&
               each->bytes_received.value() == out.size());
  }
  WEFT_CHECK(elsewhere.sent.value() == 0 && elsewhere.received.value() == 0);
  // Collectives are messages, too.
  if (size > 1) {
    MPI_Barrier(comm);
    WEFT_CHECK(of.sent.value() > 1 && of.received.value() > 1 && elsewhere.sent.value() == 0);
  }
}

void add_doubles(void* in, void* inout, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) static_cast<double*>(inout)[i] += static_cast<double*>(in)[i];
}

/// Those of reductions that are combined as they come: of MPI's operations, but for slow elements,
/// and what is not too long.
void combined(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  MPI_Op own;
  MPI_Op_create(add_doubles, 1, &own);
  struct Located {
    double value;
    int index;
  };
  const auto messages_of = [&](int count, MPI_Datatype type, MPI_Op op) {
    const Counter here("comm_combined", comm);
    const std::vector<Located> in(static_cast<std::size_t>(count), Located{1, 2});
    std::vector<Located> out(in.size());
    MPI_Allreduce(in.data(), out.data(), count, type, op, comm);
    unsigned long long all = here.value();
    MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_UNSIGNED_LONG_LONG, MPI_MAX, comm);
    return all;
  };
  WEFT_CHECK((messages_of(9'000, MPI_DOUBLE, MPI_SUM) > 0) == (size > 1));
  WEFT_CHECK((messages_of(9'000, MPI_C_DOUBLE_COMPLEX, MPI_PROD) > 0) == (size > 1));
  WEFT_CHECK(messages_of(9'000, MPI_DOUBLE, own) == 0);
  WEFT_CHECK(messages_of(9'000, MPI_DOUBLE_INT, MPI_MINLOC) == 0);
  WEFT_CHECK(messages_of(9'000, MPI_2INT, MPI_MINLOC) == 0);
  WEFT_CHECK(messages_of(1'000'000, MPI_DOUBLE, MPI_SUM) == 0);
  MPI_Op_free(&own);
}

/// The next communicator begins with nothing, although it may get the channels of the last.
void begin_anew() {
  for (int i = 0; i < 3; ++i) {
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    unsigned long long before = 0;
    {
      int index = -1;
      int number = 0;
      MPI_T_pvar_handle handle;
      MPI_T_pvar_get_index("comm_unexpected_most", MPI_T_PVAR_CLASS_HIGHWATERMARK, &index);
      MPI_T_pvar_handle_alloc(session, index, &comm, &handle, &number);
      MPI_T_pvar_read(session, handle, &before);
    }
    WEFT_CHECK(before == 0);
    sent_first(comm);
    MPI_Comm_free(&comm);
  }
  // The longest of all stays.
  WEFT_CHECK(Counter("unexpected_most").value() >= kMessages);
}

/// A list looks at all that came earlier.
void passed_in_lists() {
  const Counter passed("match_passed");
  int in[kMessages];
  MPI_Request requests[kMessages];
  for (int i = 0; i < kMessages; ++i)
    MPI_Irecv(&in[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
  for (int i = kMessages - 1; i >= 0; --i) MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_SELF);
  MPI_Waitall(kMessages, requests, MPI_STATUSES_IGNORE);
  WEFT_CHECK(passed.value() == kMessages * (kMessages - 1) / 2);
}

/// The largest tag.
void upper_bound() {
  int* upper = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &found);
  int word = 0;
  MPI_Status status;
  MPI_Sendrecv(&found, 1, MPI_INT, 0, *upper, &word, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF,
               &status);
  WEFT_CHECK(found == 1 && word == 1 && status.MPI_TAG == *upper);
}

/// All devices together, and each where there are several.
void devices() {
  const Counter polls("device_polls");
  const Counter frames("device_frames");
  std::vector<Counter> each;
  for (int i = 0, index = 0;; ++i) {
    const std::string name = "device_" + std::to_string(i) + "_polls";
    if (MPI_T_pvar_get_index(name.c_str(), MPI_T_PVAR_CLASS_COUNTER, &index) != MPI_SUCCESS) break;
    each.emplace_back(name);
  }
  WEFT_CHECK(each.size() != 1);
  int word = 0;
  MPI_Sendrecv(&word, 1, MPI_INT, 0, 0, &word, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  uint64_t sum = 0;
  for (const Counter& one : each) sum += one.value();
  WEFT_CHECK(polls.value() >= sum && frames.value() > 0 && polls.value() > 0);
  WEFT_CHECK(each.empty() || sum > 0);
  for (const char* name : {"device_empty_polls", "device_refusals", "device_parks", "device_sleeps",
                           "device_held", "waits", "stops", "match_passed"}) {
    (void)Counter(name).value();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool timed = argc > 1 && std::string(argv[1]) == "timed";
  const bool are_lists = argc > 1 && std::string(argv[1]) == "lists";
  MPI_Init(&argc, &argv);
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
  MPI_T_pvar_session_create(&session);
  MPI_Comm one;
  MPI_Comm two;
  MPI_Comm_dup(MPI_COMM_WORLD, &one);
  MPI_Comm_dup(MPI_COMM_WORLD, &two);
  posted_first(one, timed);
  sent_first(two);
  MPI_Barrier(MPI_COMM_WORLD);  // what comes of others next was not there yet
  large(one, two);
  combined(two);
  begin_anew();
  if (are_lists) passed_in_lists();
  upper_bound();
  devices();
  MPI_Comm_free(&one);
  MPI_Comm_free(&two);
  MPI_T_pvar_session_free(&session);
  MPI_T_finalize();
  MPI_Finalize();
  return result();
}
