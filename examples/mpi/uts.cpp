// Unbalanced tree search: counts the nodes of a tree that nobody knows before it is searched, with
// ranks that give each other work by messages.
//
//   mpiexec -n 2 uts [--tree T3|T1] [--slice S] [--chunk C] [how it runs]
//
//   --tree T3       which of the two published samples (T3)
//   --slice S       nodes that a unit searches before it looks around (256)
//   --chunk C       nodes that are given away at a time (32)
//   --units 1       how it runs: one unit a rank, MPI alone (so it is if nothing is said);
//   --threads T     T threads a rank and one more, its clerk, with MPI_THREAD_MULTIPLE;
//   --tasks T       T tasks of weft and one more a rank, on --workers W threads (one for each core)
//
// What it shows: with units to spare, one can wait for every sort of message. A rank's clerk
// receives all that other ranks send, blocking, and acts on it. Explorers know no other ranks'
// needs but from him; one that has nothing left blocks, too, until somebody of its rank sends it
// nodes. With one unit a rank, explorer and clerk are the same thread, which has to ask after each
// slice whether there is mail, and what a message says is done when the slice ends.
//
// Who has nothing, asks all others once and waits: nobody is asked twice, nobody refuses. Whoever
// has more than he needs and was asked, gives. All ranks wait for the same end, which Safra's
// token finds: it goes from rank to rank and sums gifts sent less gifts received; a rank with work
// holds it. If it comes back with zero, and nobody received a gift since it passed, then no
// work is left anywhere (E. W. Dijkstra, EWD 998).
//
// The trees: a node is a SHA-1 digest, the root's of sixteen zero bytes and a seed, a child's of
// its parent's digest and its number; the last 31 bits draw how many children there are. T3 is
// binomial: 2000 under the root, and eight with probability 0.124875 under each other node, else
// none. T1 is geometric: four on average down to depth ten. Their counts are published, and
// compared.
//
// Expect: "as published", exit code 0, and a balance near 1: the share of the busiest rank, in
// parts of an even one. More chunks travel where --slice and --chunk are small.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../bench/task/sha1.hpp"
#include "units.hpp"

namespace {

using weft::bench::tasks::Sha1;
using weft::bench::tasks::sha1_of;

/// As it travels, too.
struct Node {
  Sha1 state;
  uint32_t depth;
  uint32_t children;
};
using Nodes = std::vector<Node>;
constexpr std::size_t kWords = 7;
static_assert(std::is_trivially_copyable_v<Node> && sizeof(Node) == kWords * sizeof(uint32_t));

/// What was found.
struct Count {
  int64_t nodes = 0;
  int64_t leaves = 0;
  int64_t depth = 0;
  friend bool operator==(const Count&, const Count&) = default;
};

struct Tree {
  const char* name;
  uint32_t seed;
  bool binomial;
  Count published;

  [[nodiscard]] Node root() const {
    const uint32_t message[] = {0, 0, 0, 0, seed};
    const Sha1 state = sha1_of(message);
    return {state, 0, binomial ? 2000 : drawn(state, 0)};
  }
  [[nodiscard]] Node child(const Node& of, uint32_t number) const {
    std::array<uint32_t, 6> message{};
    std::copy(of.state.begin(), of.state.end(), message.begin());
    message.back() = number;
    const Sha1 state = sha1_of(message);
    return {state, of.depth + 1, drawn(state, of.depth + 1)};
  }

 private:
  [[nodiscard]] uint32_t drawn(const Sha1& state, uint32_t depth) const {
    constexpr uint32_t kMostDepth = 10;
    const double draw = static_cast<double>(state[4] & 0x7fffffff) / 2147483648.0;
    if (binomial) return draw < 0.124875 ? 8 : 0;
    if (depth >= kMostDepth) return 0;
    // Each has one more child with probability 4/5: four on average.
    return static_cast<uint32_t>(std::floor(std::log(1 - draw) / std::log(0.8)));
  }
};
constexpr std::array<Tree, 2> kTrees{Tree{"T3", 42, true, {4112897, 3599034, 1572}},
                                     Tree{"T1", 19, false, {4130071, 3305118, 10}}};

/// What messages between ranks are about: their tags.
enum About { kAsk, kGift, kIdle, kToken, kEnd };

/// What goes round to find the end.
struct Token {
  uint32_t balance = 0;  ///< gifts sent less gifts received, by ranks that it passed (modulo 2^32)
  uint32_t black = 1;    ///< has one of those received a gift since it last passed?
};

/// A rank's dealings with others: which of its explorers waits for nodes, which ranks do, and
/// whether the search has ended. Explorers call `next` and `share`, the clerk `work_as_clerk`;
/// where a rank has one unit, its explorer does the clerk's part from within those two.
///
/// What a clerk sends, MPI buffers, so that no clerk waits for another to receive. What an explorer
/// gives is not buffered: the clerk of the other rank is there to receive it. The lock is held for
/// a few instructions, never over a call that waits.
class Office {
 public:
  Office(const units::Job& job, int explorers, bool has_clerk, int chunk)
      : job_(job),
        explorers_(static_cast<std::size_t>(explorers)),
        has_clerk_(has_clerk),
        chunk_(static_cast<std::size_t>(chunk)),
        letter_(chunk_ * kWords),
        asked_(static_cast<std::size_t>(job.size)),
        has_token_(job.rank == 0) {
    asked_[static_cast<std::size_t>(job.rank)] = true;  // nobody asks itself
    MPI_Comm_dup(MPI_COMM_WORLD, &mail_);
    MPI_Comm_dup(MPI_COMM_SELF, &inside_);
    // One of each kind to each rank, and as many that have not left the buffer yet.
    const std::size_t longest = letter_.size() * sizeof(uint32_t) + MPI_BSEND_OVERHEAD;
    buffer_.resize(longest * 10 * asked_.size());
    MPI_Buffer_attach(buffer_.data(), static_cast<int>(buffer_.size()));
  }
  ~Office() {
    void* buffer = nullptr;
    int bytes = 0;
    MPI_Buffer_detach(&buffer, &bytes);
    MPI_Comm_free(&inside_);
    MPI_Comm_free(&mail_);
  }
  Office(const Office&) = delete;
  Office& operator=(const Office&) = delete;

  /// Waits for nodes; false: there will be none any more.
  bool next(int explorer, Nodes& nodes) {
    bool tell = false;
    {
      const std::lock_guard lock(mutex_);
      if (take(nodes)) return true;
      idle_.push_back(explorer);
      count_wants();
      tell = has_clerk_ && passive() && !std::exchange(idle_told_, true);
    }
    if (!has_clerk_) return next_alone(nodes);
    if (tell) post(nullptr, 0, job_.rank, kIdle);
    nodes.resize(chunk_);
    MPI_Status status;
    MPI_Recv(nodes.data(), words_of(nodes), MPI_UINT32_T, 0, explorer, inside_, &status);
    nodes.resize(count_of(status) / kWords);
    return !nodes.empty();
  }

  /// Gives away from the bottom of `nodes`, where the largest subtrees are, if anybody waits.
  void share(Nodes& nodes) {
    while (!has_clerk_ && has_mail()) serve();
    while (nodes.size() > 2 * chunk_ && wants_.load(std::memory_order_relaxed) > 0) {
      const auto end = nodes.begin() + static_cast<std::ptrdiff_t>(chunk_);
      if (!give(Nodes(nodes.begin(), end))) return;
      nodes.erase(nodes.begin(), end);
    }
  }

  void work_as_clerk() {
    while (!finished()) serve();
    // All explorers wait; what comes without nodes is the end.
    for (const int explorer : idle_) MPI_Send(nullptr, 0, MPI_UINT32_T, 0, explorer, inside_);
  }

  [[nodiscard]] int64_t gifts() const { return gifts_; }

 private:
  static int words_of(const Nodes& nodes) { return static_cast<int>(nodes.size() * kWords); }
  static std::size_t count_of(const MPI_Status& status) {
    int words = 0;
    MPI_Get_count(&status, MPI_UINT32_T, &words);
    return static_cast<std::size_t>(words);
  }

  // Under the lock:

  /// Nothing to do in this rank, until a gift comes.
  [[nodiscard]] bool passive() const { return idle_.size() == explorers_ && stock_.empty(); }
  void count_wants() { wants_.store(idle_.size() + hungry_.size(), std::memory_order_relaxed); }
  bool take(Nodes& nodes) {
    if (stock_.empty()) return false;
    nodes = std::move(stock_.back());
    stock_.pop_back();
    return true;
  }
  int idle_explorer() {
    const int explorer = idle_.back();
    idle_.pop_back();
    count_wants();
    return explorer;
  }

  // What explorers do:

  bool next_alone(Nodes& nodes) {
    settle();
    while (stock_.empty() && !finished()) serve();
    idle_.clear();
    count_wants();
    return take(nodes);
  }

  /// To an explorer of this rank that waits, or else to a rank; false if nobody does any more.
  bool give(const Nodes& nodes) {
    std::unique_lock lock(mutex_);
    if (!idle_.empty()) {
      const int explorer = idle_explorer();
      lock.unlock();
      MPI_Send(nodes.data(), words_of(nodes), MPI_UINT32_T, 0, explorer, inside_);
      return true;
    }
    if (hungry_.empty()) return false;
    const int rank = hungry_.front();
    hungry_.pop_front();
    count_wants();
    ++balance_;  // before anybody can have received it
    ++gifts_;
    lock.unlock();
    if (has_clerk_) {
      MPI_Send(nodes.data(), words_of(nodes), MPI_UINT32_T, rank, kGift, mail_);
    } else {
      post(nodes.data(), words_of(nodes), rank, kGift);
    }
    return true;
  }

  // What the clerk does:

  void post(const void* words, int count, int rank, About about) {
    MPI_Bsend(words, count, MPI_UINT32_T, rank, about, mail_);
  }

  bool has_mail() {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mail_, &there, MPI_STATUS_IGNORE);
    return there != 0;
  }

  /// Receives a message, whichever comes, and does what it says.
  void serve() {
    MPI_Status status;
    MPI_Recv(letter_.data(), static_cast<int>(letter_.size()), MPI_UINT32_T, MPI_ANY_SOURCE,
             MPI_ANY_TAG, mail_, &status);
    std::unique_lock lock(mutex_);
    switch (status.MPI_TAG) {
      case kAsk:
        hungry_.push_back(status.MPI_SOURCE);
        count_wants();
        return;
      case kGift: {
        Nodes nodes(count_of(status) / kWords);
        std::memcpy(nodes.data(), letter_.data(), nodes.size() * sizeof(Node));
        asked_[static_cast<std::size_t>(status.MPI_SOURCE)] = false;
        black_ = true;
        --balance_;
        if (!has_clerk_ || idle_.empty()) {
          stock_.push_back(std::move(nodes));
          return;
        }
        const int explorer = idle_explorer();
        lock.unlock();
        MPI_Send(nodes.data(), words_of(nodes), MPI_UINT32_T, 0, explorer, inside_);
        return;
      }
      case kIdle:
        idle_told_ = false;
        break;
      case kToken:
        token_ = {letter_[0], letter_[1]};
        has_token_ = true;
        break;
      default:
        ended_ = true;
        return;
    }
    lock.unlock();
    settle();
  }

  /// If this rank has nothing to do: asks for work, and lets the token go.
  void settle() {
    uint32_t balance = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!passive()) return;
      balance = balance_;
    }
    // It remains passive meanwhile: only this thread could receive a gift.
    for (int rank = 0; rank < job_.size; ++rank) {
      if (asked_[static_cast<std::size_t>(rank)]) continue;
      asked_[static_cast<std::size_t>(rank)] = true;
      post(nullptr, 0, rank, kAsk);
    }
    if (!std::exchange(has_token_, false)) return;
    Token passed{token_.balance + balance, token_.black | static_cast<uint32_t>(black_)};
    if (job_.rank == 0) {
      if (passed.black == 0 && passed.balance == 0) {
        for (int rank = 1; rank < job_.size; ++rank) post(nullptr, 0, rank, kEnd);
        ended_ = true;
        return;
      }
      passed = {0, 0};
    }
    black_ = false;
    const uint32_t words[] = {passed.balance, passed.black};
    post(words, 2, (job_.rank + 1) % job_.size, kToken);
  }

  /// The end has come, and so has all that was sent here before: in the end, everybody has asked
  /// everybody.
  [[nodiscard]] bool finished() const {
    return ended_ && hungry_.size() + 1 == asked_.size() && !idle_told_;
  }

  const units::Job& job_;
  const std::size_t explorers_;
  const bool has_clerk_;
  const std::size_t chunk_;
  MPI_Comm mail_ = MPI_COMM_NULL;    // between ranks, to clerks
  MPI_Comm inside_ = MPI_COMM_NULL;  // of this rank, to explorers: an explorer's number is a tag
  std::vector<char> buffer_;         // MPI's, for what is posted

  std::mutex mutex_;  // for these:
  std::vector<int> idle_;
  std::deque<int> hungry_;    // ranks that asked, and were not given anything since
  std::vector<Nodes> stock_;  // gifts that came when nobody waited any more
  uint32_t balance_ = 0;
  int64_t gifts_ = 0;
  bool idle_told_ = false;  // a message of kIdle is under way
  /// How many explorers and ranks wait: a hint, read without the lock, which decides.
  std::atomic<std::size_t> wants_{0};

  // The clerk's alone:
  std::vector<uint32_t> letter_;
  std::vector<bool> asked_;  // ranks that have our question and have given nothing since
  Token token_;
  bool has_token_;
  bool black_ = false;
  bool ended_ = false;
};

Count explore(const units::Unit& unit, Office& office, const Tree& tree, int slice) {
  Count count;
  Nodes nodes;
  if (unit.job.rank == 0 && unit.number == 0) nodes.push_back(tree.root());
  while (!nodes.empty() || office.next(unit.number, nodes)) {
    for (int i = 0; i < slice && !nodes.empty(); ++i) {
      const Node node = nodes.back();
      nodes.pop_back();
      ++count.nodes;
      if (node.children == 0) ++count.leaves;
      count.depth = std::max<int64_t>(count.depth, node.depth);
      for (uint32_t child = 0; child < node.children; ++child) {
        nodes.push_back(tree.child(node, child));
      }
    }
    office.share(nodes);
    unit.yield();
  }
  return count;
}

/// What all units of all ranks have found, for rank 0, and the most that a rank has.
Count add_up(const std::vector<Count>& counts, int64_t& most) {
  Count mine;
  for (const Count& each : counts) {
    mine.nodes += each.nodes;
    mine.leaves += each.leaves;
    mine.depth = std::max(mine.depth, each.depth);
  }
  Count all;
  MPI_Reduce(&mine.nodes, &all.nodes, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine.leaves, &all.leaves, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine.depth, &all.depth, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  MPI_Reduce(&mine.nodes, &most, 1, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  units::Flags flags(argc, argv);
  const std::string name = flags.word("--tree", kTrees[0].name);
  const int slice = flags.number("--slice", 256, 1, 1'000'000);
  const int chunk = flags.number("--chunk", 32, 1, 10'000);
  const units::How how = flags.how();
  const auto* const tree = std::find_if(kTrees.begin(), kTrees.end(),
                                        [&](const Tree& each) { return name == each.name; });
  if (tree == kTrees.end()) flags.complain("--tree is T3 or T1, not '" + name + "'");
  if (!flags.fine("uts", "[--tree T3|T1] [--slice S] [--chunk C]")) return 2;

  const units::Job job(argc, argv, how);
  const bool has_clerk = how.kind != units::Kind::alone;
  std::vector<Count> counts(static_cast<std::size_t>(how.units));
  double seconds = 0;
  int64_t gifts = 0;
  {
    Office office(job, how.units, has_clerk, chunk);
    units::run(job, how.units + (has_clerk ? 1 : 0), [&](const units::Unit& unit) {
      unit.meet();
      const double start = MPI_Wtime();
      if (unit.number < how.units) {
        counts[static_cast<std::size_t>(unit.number)] = explore(unit, office, *tree, slice);
      } else {
        office.work_as_clerk();
      }
      if (unit.number == 0) seconds = MPI_Wtime() - start;
    });
    const int64_t mine = office.gifts();
    MPI_Reduce(&mine, &gifts, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  }
  int64_t most = 0;
  const Count found = add_up(counts, most);
  int right = found == tree->published ? 1 : 0;
  MPI_Bcast(&right, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (job.rank == 0) {
    std::printf("uts: tree %s; %d rank(s), %s\n", tree->name, job.size, how.words().c_str());
    std::printf("%lld nodes in %.4f s: %.2f million a second\n",
                static_cast<long long>(found.nodes), seconds,
                static_cast<double>(found.nodes) / seconds / 1e6);
    std::printf("%lld gifts between ranks, balance %.2f\n", static_cast<long long>(gifts),
                static_cast<double>(most) * job.size / static_cast<double>(found.nodes));
    std::printf("%lld leaves, %lld deep: %s\n", static_cast<long long>(found.leaves),
                static_cast<long long>(found.depth), right != 0 ? "as published" : "WRONG");
  }
  return right != 0 ? 0 : 1;
}
