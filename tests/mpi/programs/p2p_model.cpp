// Wildcards posted and withdrawn by many threads while messages come: who got what is what MPI's
// rules give. p2p_model [THREADS [MESSAGES-EACH [SECONDS [SEED]]]]: once, or for so long.
//
// All ranks but the last send to the last one, a single rank to itself; so many threads send in
// each sending rank, as many receive. All of them write down what they did, by a clock that counts.
//
// Some messages are taken back, and if that was in time their like is sent once more, later.
//
// *In turn*: each rank's calls that send, post or ask take turns, while whatever comes, waits,
// tests and withdrawals do not. So the order of receives is known, and that of each source's
// messages, and between messages and receives that are both ordered there is just one matching in
// which no two would rather have met each other: what MPI's rules give, however their times
// interleaved. (Of several sources MPI leaves open which came first: some order must explain what
// was seen.) The model replays it.
//
// *At will*: nothing takes turns. Two calls are ordered if one had returned before the other began;
// no receive and no message may have been passed over by what was ordered after them.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <utility>

#include "../matching_model.hpp"
#include "requests_check.hpp"

namespace {

using weft::mpi::test::MatchingModel;

constexpr int kTags = 6;
constexpr int kStayingTags =
    3;  ///< messages of these are not taken back: what a probe saw is there
constexpr int kWindow = 8;
constexpr int kSizes[] = {8, 8, 8, 8, 700, 8, 8, 8, 8, 12'000, 8, 8, 70'000, 8, 8, 300'000};
constexpr int kMost = 300'000;

std::atomic<int64_t> g_clock{0};
int64_t now() { return g_clock.fetch_add(1); }

struct Span {
  int64_t began = 0;
  int64_t ended = 0;
  [[nodiscard]] bool before(const Span& other) const { return ended < other.began; }
};

struct Message {
  Span sent;
  int64_t tag = -1;  ///< -1: it was taken back, or no message ever had this number
  int64_t bytes = -1;
};

struct Receive {
  Span posted;
  int source = 0;
  int tag = 0;
  int from = -1;        ///< and which of its messages came
  int64_t number = -1;  ///< -1: none, it was withdrawn
  int64_t seen = 0;     ///< when it was known to have ended
  int64_t withdrawn = 0;
};

int receiver() { return g_size - 1; }
int sources() { return std::max(1, g_size - 1); }

/// One call at a time, or none of anybody's business.
class Turns {
 public:
  explicit Turns(bool in_turn) : in_turn_(in_turn) {}
  std::unique_lock<std::mutex> take() {
    return in_turn_ ? std::unique_lock(mutex_) : std::unique_lock<std::mutex>();
  }
  [[nodiscard]] bool in_turn() const { return in_turn_; }

 private:
  std::mutex mutex_;
  bool in_turn_;
};

// --- Sending -------------------------------------------------------------------------------------

class Sender {
 public:
  /// Each message may be sent once more.
  Sender(Turns& turns, MPI_Comm comm, int all)
      : turns_(turns), comm_(comm), sent_(static_cast<std::size_t>(all) * 2) {}

  void send(uint64_t seed, int messages) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<char>> memory(kWindow, std::vector<char>(kMost));
    for (int done = 0; done < messages;) {
      const int window = std::min<int>(messages - done, 1 + static_cast<int>(random() % kWindow));
      MPI_Request requests[kWindow];
      Message* sent[kWindow];
      for (int i = 0; i < window; ++i) {
        const int tag = static_cast<int>(random() % kTags);
        const int bytes = kSizes[random() % std::size(kSizes)];
        sent[i] = &send_one(tag, bytes, random() % 4 == 0, memory[static_cast<std::size_t>(i)],
                            requests[i]);
      }
      for (int i = 0; i < window; ++i) {
        if (sent[i]->tag >= kStayingTags && random() % 3 == 0) {
          take_back(*sent[i], memory[static_cast<std::size_t>(i)], requests[i]);
        }
      }
      MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
      done += window;
    }
  }
  [[nodiscard]] const std::vector<Message>& sent() const { return sent_; }
  [[nodiscard]] int taken_back() const { return taken_back_; }

 private:
  Message& send_one(int64_t tag, int64_t bytes, bool synchronous, std::vector<char>& memory,
                    MPI_Request& request) {
    const auto turn = turns_.take();
    const int64_t number = next_.fetch_add(1);
    Message& message = sent_[static_cast<std::size_t>(number)];
    message.tag = tag;
    message.bytes = bytes;
    std::memcpy(memory.data(), &number, sizeof number);
    message.sent.began = now();
    (synchronous ? MPI_Issend : MPI_Isend)(memory.data(), static_cast<int>(bytes), MPI_BYTE,
                                           receiver(), static_cast<int>(tag), comm_, &request);
    message.sent.ended = now();
    return message;
  }
  void take_back(Message& message, std::vector<char>& memory, MPI_Request& request) {
    MPI_Cancel(&request);
    MPI_Status status;
    MPI_Wait(&request, &status);
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    if (cancelled == 0) return;
    ++taken_back_;
    send_one(message.tag, message.bytes, false, memory, request);
    message.tag = -1;
  }

  Turns& turns_;
  MPI_Comm comm_;
  std::atomic<int64_t> next_{0};
  std::atomic<int> taken_back_{0};
  std::vector<Message> sent_;
};

// --- Receiving -----------------------------------------------------------------------------------

/// A thread of the receiver, with what it has posted.
class Poster {
 public:
  Poster(Turns& turns, MPI_Comm comm, uint64_t seed)
      : turns_(turns), comm_(comm), random_(seed), slots_(kWindow) {}

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      switch (random_() % 10) {
        case 0:
          ask();
          break;
        case 1:
          look();
          break;
        case 2:
          withdraw(slots_[random_() % kWindow]);
          break;
        case 3:
          post_in_vain();
          break;
        default:
          post();
      }
    }
    for (Slot& slot : slots_) withdraw(slot);
  }
  /// All that is still to come, as it comes.
  void take_rest(int64_t messages) {
    for (; messages > 0; --messages) {
      Receive& receive = receives_.emplace_back();
      receive.source = MPI_ANY_SOURCE;
      receive.tag = MPI_ANY_TAG;
      MPI_Message message;
      MPI_Status status;
      receive.posted.began = now();
      MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &message, &status);
      receive.posted.ended = now();
      MPI_Mrecv(other_.data(), kMost, MPI_BYTE, &message, &status);
      note(receive, other_.data(), status);
    }
  }
  [[nodiscard]] const std::deque<Receive>& receives() const { return receives_; }
  [[nodiscard]] int64_t received() const { return received_; }

 private:
  struct Slot {
    MPI_Request request = MPI_REQUEST_NULL;
    Receive* receive = nullptr;
    std::vector<char> memory = std::vector<char>(kMost);
  };

  int any_of(int count, int wildcard) {
    const auto picked = static_cast<int>(random_() % 100);
    return picked < 25 ? wildcard : picked % count;
  }
  Receive& note_key() {
    Receive& receive = receives_.emplace_back();
    receive.source = any_of(sources(), MPI_ANY_SOURCE);
    receive.tag = any_of(kTags, MPI_ANY_TAG);
    return receive;
  }
  void note(Receive& receive, const char* memory, const MPI_Status& status) {
    receive.seen = now();
    receive.from = status.MPI_SOURCE;
    std::memcpy(&receive.number, memory, sizeof receive.number);
    tags_and_sizes_.push_back({&receive, status.MPI_TAG, count_of(status, MPI_BYTE)});
    ++received_;
  }

  void post() {
    Slot& slot = free_slot();
    post(slot, note_key());
  }
  /// From anybody, what nobody sends; and thinks better of it.
  void post_in_vain() {
    Slot& slot = free_slot();
    Receive& receive = receives_.emplace_back();
    receive.source = MPI_ANY_SOURCE;
    receive.tag = kTags;
    post(slot, receive);
    withdraw(slot);
  }
  void post(Slot& slot, Receive& receive) {
    slot.receive = &receive;
    const auto turn = turns_.take();
    receive.posted.began = now();
    MPI_Irecv(slot.memory.data(), kMost, MPI_BYTE, receive.source, receive.tag, comm_,
              &slot.request);
    receive.posted.ended = now();
  }
  /// One that is free, or whose receive has ended; else one is withdrawn.
  Slot& free_slot() {
    for (Slot& slot : slots_) {
      if (slot.receive != nullptr) {
        int ended = 0;
        MPI_Status status;
        MPI_Test(&slot.request, &ended, &status);
        if (ended == 0) continue;
        note(*slot.receive, slot.memory.data(), status);
        slot.receive = nullptr;
      }
      return slot;
    }
    Slot& oldest = slots_[random_() % kWindow];
    withdraw(oldest);
    return oldest;
  }
  void withdraw(Slot& slot) {
    if (slot.receive == nullptr) return;
    const int64_t began = now();
    MPI_Cancel(&slot.request);
    MPI_Status status;
    MPI_Wait(&slot.request, &status);
    int cancelled = 0;
    MPI_Test_cancelled(&status, &cancelled);
    if (cancelled != 0) {
      slot.receive->withdrawn = began;
    } else {
      note(*slot.receive, slot.memory.data(), status);
    }
    slot.receive = nullptr;
  }
  /// A matched probe is a receive that does not wait.
  void ask() {
    Receive& receive = note_key();
    int there = 0;
    MPI_Message message;
    MPI_Status status;
    {
      const auto turn = turns_.take();
      receive.posted.began = now();
      MPI_Improbe(receive.source, receive.tag, comm_, &there, &message, &status);
      receive.posted.ended = now();
    }
    if (there != 0) {
      MPI_Mrecv(other_.data(), kMost, MPI_BYTE, &message, &status);
      note(receive, other_.data(), status);
    } else {
      receives_.pop_back();
    }
  }
  /// A probe, and in turn, where nobody else can take it, a receive of what it saw.
  void look() {
    const auto turn = turns_.take();
    Receive& receive = note_key();
    int there = 0;
    MPI_Status status;
    MPI_Iprobe(receive.source, receive.tag, comm_, &there, &status);
    if (there == 0 || !turns_.in_turn() || status.MPI_TAG >= kStayingTags) {
      receives_.pop_back();
      return;
    }
    const int bytes = count_of(status, MPI_BYTE);
    receive.source = status.MPI_SOURCE;
    receive.tag = status.MPI_TAG;
    receive.posted.began = now();
    MPI_Recv(other_.data(), bytes, MPI_BYTE, receive.source, receive.tag, comm_, &status);
    receive.posted.ended = now();
    expect(count_of(status, MPI_BYTE) == bytes, "a probe saw %d bytes, %d came", bytes,
           count_of(status, MPI_BYTE));
    note(receive, other_.data(), status);
  }

 public:
  struct Told {
    const Receive* receive;
    int tag;
    int bytes;
  };
  [[nodiscard]] const std::vector<Told>& told() const { return tags_and_sizes_; }

 private:
  Turns& turns_;
  MPI_Comm comm_;
  std::mt19937_64 random_;
  std::vector<Slot> slots_;
  std::deque<Receive> receives_;
  std::vector<Told> tags_and_sizes_;
  std::vector<char> other_ = std::vector<char>(kMost);
  int64_t received_ = 0;
};

// --- What must be true of all that was written down ----------------------------------------------

class History {
 public:
  History(std::vector<std::vector<Message>> sent, const std::deque<Poster>& posters)
      : sent_(std::move(sent)), by_(sent_.size()) {
    for (std::size_t s = 0; s < sent_.size(); ++s) by_[s].resize(sent_[s].size(), nullptr);
    for (const Poster& poster : posters) {
      for (const Receive& receive : poster.receives()) receives_.push_back(&receive);
      for (const Poster::Told& told : poster.told()) sound_ = check_status(told) && sound_;
    }
    std::sort(receives_.begin(), receives_.end(),
              [](const Receive* a, const Receive* b) { return a->posted.began < b->posted.began; });
  }

  /// Each message met one receive, and fits it.
  bool check_pairs() {
    if (!sound_) return false;
    for (const Receive* receive : receives_) {
      if (receive->number < 0) continue;
      auto& met = by_[static_cast<std::size_t>(receive->from)][index(receive->number)];
      if (!expect(met == nullptr, "message %lld of %d came twice",
                  static_cast<long long>(receive->number), receive->from)) {
        return false;
      }
      met = receive;
      if (!expect(fits(*receive, receive->from, message_of(*receive)),
                  "a receive of tag %d from %d got %d from %d", receive->tag, receive->source,
                  static_cast<int>(message_of(*receive).tag), receive->from)) {
        return false;
      }
    }
    for (std::size_t s = 0; s < sent_.size(); ++s) {
      for (std::size_t n = 0; n < sent_[s].size(); ++n) {
        const bool taken_back = sent_[s][n].tag < 0;
        if (!expect((by_[s][n] == nullptr) == taken_back, "a message was %s",
                    taken_back ? "received although it was taken back" : "lost")) {
          return false;
        }
      }
    }
    return true;
  }

  /// No receive was passed over by a later one, with what both would rather have had.
  void check_order() {
    for (const Receive* receive : receives_) {
      for (std::size_t s = 0; s < sent_.size(); ++s) {
        for (std::size_t n = 0; n < sent_[s].size(); ++n) {
          const Message& message = sent_[s][n];
          if (!fits(*receive, static_cast<int>(s), message)) continue;
          const Receive& other = *by_[s][n];
          if (&other == receive || !receive->posted.before(other.posted)) continue;
          const bool waited_still = receive->number < 0 && other.seen < receive->withdrawn;
          const bool took_later = receive->number >= 0 && receive->from == static_cast<int>(s) &&
                                  message.sent.before(message_of(*receive).sent);
          if (!expect(!waited_still && !took_later,
                      "message %zu of %zu passed over an earlier receive that %s", n, s,
                      waited_still ? "waited" : "took a later one")) {
            return;
          }
        }
      }
    }
  }

  /// The model gives the same. Of several sources, in some order of arrival.
  void check_model() {
    MatchingModel model;
    const std::vector<std::pair<int, int>> arrivals = order_of_arrival();
    std::size_t all = 0;
    for (const auto& source : sent_) all += source.size();
    if (!expect(arrivals.size() == all, "no order of arrival explains what was received")) return;
    for (const auto& [source, number] : arrivals) {
      const auto tag = static_cast<int>(sent_[index(source)][index(number)].tag);
      if (tag >= 0) model.arrive({id(source, number), source, tag});
    }
    for (const Receive* receive : receives_) {
      if (receive->number < 0) continue;
      const auto met =
          model.post({0, receive->source == MPI_ANY_SOURCE ? -1 : receive->source, receive->tag});
      const int wanted = id(receive->from, static_cast<int>(receive->number));
      if (!expect(met == wanted, "a receive got message %d, by the model it is %d", wanted,
                  met.value_or(-1))) {
        return;
      }
    }
  }
  /// Of all receives, how many used wildcards and met something; how many were withdrawn.
  [[nodiscard]] std::pair<int, int> wild_and_withdrawn() const {
    int wild = 0;
    int withdrawn = 0;
    for (const Receive* receive : receives_) {
      const bool any = receive->source == MPI_ANY_SOURCE || receive->tag == MPI_ANY_TAG;
      wild += any && receive->number >= 0 ? 1 : 0;
      withdrawn += receive->number < 0 ? 1 : 0;
    }
    return {wild, withdrawn};
  }

 private:
  static std::size_t index(int64_t number) { return static_cast<std::size_t>(number); }
  [[nodiscard]] int id(int source, int number) const {
    return source + static_cast<int>(sent_.size()) * number;
  }
  [[nodiscard]] const Message& message_of(const Receive& receive) const {
    return sent_[index(receive.from)][index(receive.number)];
  }
  static bool fits(const Receive& receive, int source, const Message& message) {
    return message.tag >= 0 && (receive.source == MPI_ANY_SOURCE || receive.source == source) &&
           (receive.tag == MPI_ANY_TAG || receive.tag == message.tag);
  }
  bool check_status(const Poster::Told& told) {
    const Receive& receive = *told.receive;
    if (!expect(receive.from >= 0 && index(receive.from) < sent_.size() && receive.number >= 0 &&
                    index(receive.number) < sent_[index(receive.from)].size(),
                "a message that nobody sent")) {
      return false;
    }
    const Message& message = message_of(receive);
    return expect(told.tag == message.tag && told.bytes == message.bytes,
                  "tag %d and %d bytes for %d, %d", told.tag, told.bytes,
                  static_cast<int>(message.tag), static_cast<int>(message.bytes));
  }

  /// One that keeps each source's order, and in which each receive took what came first of all that
  /// later receives took and that it would have taken, too. As far as there is one.
  std::vector<std::pair<int, int>> order_of_arrival() {
    struct Node {
      int waits_for = 0;
      std::vector<std::pair<std::size_t, std::size_t>> then;
    };
    std::vector<std::vector<Node>> nodes(sent_.size());
    for (std::size_t s = 0; s < sent_.size(); ++s) nodes[s].resize(sent_[s].size());
    const auto orders = [&](int source, int64_t number, std::size_t s, std::size_t n) {
      nodes[index(source)][index(number)].then.emplace_back(s, n);
      ++nodes[s][n].waits_for;
    };
    for (std::size_t s = 0; s < sent_.size(); ++s) {
      for (std::size_t n = 1; n < sent_[s].size(); ++n) {
        orders(static_cast<int>(s), static_cast<int64_t>(n) - 1, s, n);
      }
    }
    for (const Receive* receive : receives_) {
      for (std::size_t s = 0; receive->number >= 0 && s < sent_.size(); ++s) {
        if (static_cast<int>(s) == receive->from) continue;
        for (std::size_t n = 0; n < sent_[s].size(); ++n) {
          if (!fits(*receive, static_cast<int>(s), sent_[s][n]) ||
              !receive->posted.before(by_[s][n]->posted)) {
            continue;
          }
          orders(receive->from, receive->number, s, n);
          break;  // those behind it follow
        }
      }
    }
    std::vector<std::pair<int, int>> order;
    for (std::size_t s = 0; s < nodes.size(); ++s) {
      if (!nodes[s].empty() && nodes[s][0].waits_for == 0) order.emplace_back(s, 0);
    }
    for (std::size_t at = 0; at < order.size(); ++at) {
      for (const auto& [s, n] : nodes[index(order[at].first)][index(order[at].second)].then) {
        if (--nodes[s][n].waits_for == 0) {
          order.emplace_back(static_cast<int>(s), static_cast<int>(n));
        }
      }
    }
    return order;
  }

  std::vector<std::vector<Message>> sent_;
  std::vector<std::vector<const Receive*>> by_;  ///< of each message, who received it
  std::vector<const Receive*> receives_;         ///< in the order in which they were posted
  bool sound_ = true;                            ///< what was received had been sent
};

// --- A run ---------------------------------------------------------------------------------------

/// What each source sent, at the receiver.
std::vector<std::vector<Message>> gather(const std::vector<Message>& mine) {
  const int bytes = static_cast<int>(mine.size() * sizeof(Message));
  if (g_size == 1) return {mine};
  if (g_rank != receiver()) {
    MPI_Send(mine.data(), bytes, MPI_BYTE, receiver(), 0, MPI_COMM_WORLD);
    return {};
  }
  std::vector<std::vector<Message>> all;
  for (int s = 0; s < sources(); ++s) {
    all.emplace_back(mine.size());
    MPI_Recv(all.back().data(), bytes, MPI_BYTE, s, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  return all;
}

void run(bool in_turn, int threads, int messages, uint64_t seed) {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  Turns sends(in_turn);
  Turns receives(in_turn);
  Sender sender(sends, comm, threads * messages);
  std::deque<Poster> posters;
  const bool has_senders = g_size == 1 || g_rank != receiver();
  const bool has_posters = g_rank == receiver();
  for (int i = 0; i < threads; ++i) {
    posters.emplace_back(receives, comm, seed + 1'000'000 + static_cast<uint64_t>(i));
  }
  const auto sending = [&](int thread) {
    sender.send(seed + static_cast<uint64_t>(g_rank * threads + thread), messages);
  };
  // About as many receives as messages: some of both wait at any time.
  const auto posting = [&](int thread) {
    posters[static_cast<std::size_t>(thread)].run(messages * sources() * 5 / 4);
  };
  std::atomic<int> posting_threads{has_posters ? threads : 0};
  in_threads(threads * ((has_senders ? 1 : 0) + (has_posters ? 1 : 0)), [&](int thread) {
    if (has_senders && thread < threads) return sending(thread);
    posting(thread % threads);
    if (posting_threads.fetch_sub(1) > 1) return;
    // The last of them receives what nobody else will: senders may wait for that.
    int64_t left = static_cast<int64_t>(threads) * messages * sources();
    for (const Poster& poster : posters) left -= poster.received();
    posters[0].take_rest(left);
  });
  auto sent = gather(sender.sent());
  int taken_back = sender.taken_back();
  MPI_Allreduce(MPI_IN_PLACE, &taken_back, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (has_posters) {
    History history(std::move(sent), posters);
    if (history.check_pairs()) {
      history.check_order();
      if (in_turn) history.check_model();
      const auto [wild, withdrawn] = history.wild_and_withdrawn();
      expect(wild > 0 && withdrawn > 0, "neither wildcards nor withdrawals: %d, %d", wild,
             withdrawn);
      std::printf("%s: %d messages, %d taken back, %d by wildcards, %d receives withdrawn\n",
                  in_turn ? "in turn" : "at will", threads * messages * sources(), taken_back, wild,
                  withdrawn);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int threads = argc > 1 ? std::atoi(argv[1]) : 8;
  const int messages = argc > 2 ? std::atoi(argv[2]) : 100;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0;
  uint64_t seed = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : std::random_device()();
  MPI_Bcast(&seed, 1, MPI_UINT64_T, receiver(), MPI_COMM_WORLD);
  const double begun = MPI_Wtime();
  for (int more = 1; more != 0; seed += more != 0 ? 1 : 0) {
    run(true, threads, messages, seed);
    run(false, threads, messages, seed);
    more = g_failures.load() == 0 && MPI_Wtime() - begun < seconds ? 1 : 0;
    MPI_Bcast(&more, 1, MPI_INT, receiver(), MPI_COMM_WORLD);
  }
  if (g_failures.load() != 0) {
    std::printf("rank %d: seed %llu\n", g_rank, static_cast<unsigned long long>(seed));
  }
  return finish();
}
