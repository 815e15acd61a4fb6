// Breadth-first search over a Kronecker graph dealt to ranks, after the specification of Graph500
// (graph500.org): generate, build, search from sixteen roots, check each tree, report the mean.
//
//   mpiexec -n 2 bfs [--scale S] [--degree D] [--roots R] [--batch B] [how it runs]
//
//   --scale S       the graph has 2^S vertices (16)
//   --degree D      and D times as many edges (16)
//   --roots R       searches (16)
//   --batch B       most vertices in a message (256)
//   --units 1       how it runs: one unit a rank, MPI alone (so it is if nothing is said);
//   --threads T     T threads a rank, with MPI_THREAD_MULTIPLE;
//   --tasks T       T tasks of weft a rank, on --workers W threads (one for each of its cores)
//
// What it shows: many small messages, each waited for. The vertices of each level are shared by a
// rank's units. A unit looks at its vertices' neighbours, takes those that are of its rank, and
// keeps those of others until there are enough for a message to one of them. Then it exchanges with
// the unit of its number in each other rank by MPI_Sendrecv, one rank after the other, and goes on.
// Nobody hides the time of an exchange behind computation of its own; it is what the other units
// of the rank compute in. Smaller batches make more messages of the same graph.
//
// As the specification wants: edges drawn with probabilities 0.57, 0.19, 0.19 and 0.05 for the four
// quarters of the matrix, level by level, vertices renumbered at random, roots drawn among the
// vertices with neighbours; the tree is checked by its five rules; rates are edges of the graph
// (not of the tree) within what was searched, a second, TEPS, of which the harmonic mean is
// reported. What is our own: the source of random numbers, a hash of the edge's number, so that
// the graph does not depend on the number of ranks. A vertex belongs to the rank that is its number
// modulo their count.
//
// Expect: "each tree is right", exit code 0; rates that grow with --scale, as messages fill.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "units.hpp"

namespace {

using Vertex = uint32_t;
constexpr Vertex kNone = UINT32_MAX;
constexpr uint64_t kSeed = 2026;

/// A pair of vertices, as it travels: an edge from one to another, or a vertex and who reached it.
struct Pair {
  Vertex first;
  Vertex second;
};
static_assert(sizeof(Pair) == 2 * sizeof(Vertex));

struct Size {
  int scale;
  int degree;
  [[nodiscard]] uint32_t vertices() const { return uint32_t{1} << scale; }
  [[nodiscard]] uint64_t edges() const { return uint64_t{vertices()} * uint64_t(degree); }
};

/// As good as random bits of (stream, number): SplitMix64's finalizer.
uint64_t random_bits(uint64_t stream, uint64_t number) {
  uint64_t x = (kSeed + stream) * 0x9e3779b97f4a7c15 + number * 0xd1342543de82ef95;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// A permutation of the numbers below 2^scale: each step can be undone.
Vertex renumbered(Vertex vertex, int scale) {
  const Vertex mask = (Vertex{1} << scale) - 1;
  for (const Vertex factor : {0x9e3779b1U, 0x85ebca77U, 0xc2b2ae3dU}) {
    vertex = (vertex * factor + (factor >> 7)) & mask;
    vertex ^= vertex >> ((scale + 1) / 2);
  }
  return vertex;
}

Pair edge(const Size& size, uint64_t number) {
  constexpr uint32_t kA = 57, kB = 19, kC = 19;  // of a hundred
  constexpr uint64_t kHundredth = (uint64_t{1} << 32) / 100;
  Pair pair{0, 0};
  for (int level = 0; level < size.scale; level += 2) {  // 32 bits a level
    uint64_t bits = random_bits(1 + static_cast<uint64_t>(level), number);
    for (int i = level; i < std::min(level + 2, size.scale); ++i, bits >>= 32) {
      const uint64_t draw = bits & UINT32_MAX;
      const bool down = draw >= (kA + kB) * kHundredth;
      const bool right = down ? draw >= (kA + kB + kC) * kHundredth : draw >= kA * kHundredth;
      pair.first = 2 * pair.first + (down ? 1 : 0);
      pair.second = 2 * pair.second + (right ? 1 : 0);
    }
  }
  return {renumbered(pair.first, size.scale), renumbered(pair.second, size.scale)};
}

/// A rank's part of the graph: its vertices' neighbours, each edge at both ends.
class Graph {
 public:
  Graph(const units::Job& job, const Size& size)
      : ranks_(static_cast<Vertex>(job.size)),
        rank_(static_cast<Vertex>(job.rank)),
        count_((size.vertices() - rank_ + ranks_ - 1) / ranks_) {
    const std::vector<Pair> edges = deal_edges(size);
    begins_.resize(std::size_t{count_} + 1);
    for (const Pair& each : edges) ++begins_[local(each.first) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    neighbours_.resize(edges.size());
    std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
    for (const Pair& each : edges) neighbours_[next[local(each.first)]++] = each.second;
  }

  [[nodiscard]] Vertex count() const { return count_; }  ///< of this rank's vertices
  [[nodiscard]] Vertex owner(Vertex vertex) const { return vertex % ranks_; }
  [[nodiscard]] bool owns(Vertex vertex) const { return owner(vertex) == rank_; }
  [[nodiscard]] std::size_t local(Vertex vertex) const { return vertex / ranks_; }
  [[nodiscard]] Vertex global(std::size_t number) const {
    return static_cast<Vertex>(number) * ranks_ + rank_;
  }
  /// Of a vertex of this rank.
  [[nodiscard]] std::span<const Vertex> neighbours(Vertex vertex) const {
    const std::size_t begin = begins_[local(vertex)];
    return std::span(neighbours_).subspan(begin, begins_[local(vertex) + 1] - begin);
  }

 private:
  /// Each rank generates its share of the edges; each end of each goes to its owner. In rounds, so
  /// that what is under way remains small beside the graph.
  [[nodiscard]] std::vector<Pair> deal_edges(const Size& size) const {
    constexpr uint64_t kRound = 1 << 18;
    std::vector<Pair> mine;
    MPI_Datatype pair_type = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(2, MPI_UINT32_T, &pair_type);
    MPI_Type_commit(&pair_type);
    std::vector<std::vector<Pair>> bins(ranks_);
    std::vector<int> counts(ranks_), offsets(ranks_), coming(ranks_), places(ranks_);
    for (uint64_t begin = 0; begin < size.edges(); begin += kRound * ranks_) {
      for (auto& bin : bins) bin.clear();
      const uint64_t first = begin + rank_ * kRound;
      for (uint64_t i = first; i < std::min(first + kRound, size.edges()); ++i) {
        const Pair drawn = edge(size, i);
        bins[owner(drawn.first)].push_back(drawn);
        bins[owner(drawn.second)].push_back({drawn.second, drawn.first});
      }
      std::vector<Pair> going;
      for (std::size_t rank = 0; rank < bins.size(); ++rank) {
        counts[rank] = static_cast<int>(bins[rank].size());
        offsets[rank] = static_cast<int>(going.size());
        going.insert(going.end(), bins[rank].begin(), bins[rank].end());
      }
      MPI_Alltoall(counts.data(), 1, MPI_INT, coming.data(), 1, MPI_INT, MPI_COMM_WORLD);
      std::exclusive_scan(coming.begin(), coming.end(), places.begin(), 0);
      const std::size_t had = mine.size();
      mine.resize(had + static_cast<std::size_t>(places.back() + coming.back()));
      MPI_Alltoallv(going.data(), counts.data(), offsets.data(), pair_type, mine.data() + had,
                    coming.data(), places.data(), pair_type, MPI_COMM_WORLD);
    }
    MPI_Type_free(&pair_type);
    return mine;
  }

  Vertex ranks_, rank_, count_;
  std::vector<std::size_t> begins_;  // of each vertex' neighbours, and the end of the last one's
  std::vector<Vertex> neighbours_;
};

/// Who reached each of a rank's vertices. The units of the rank race for them; between levels, when
/// others look, messages have been exchanged that order it.
class Parents {
 public:
  explicit Parents(const Graph& graph) : graph_(graph), parents_(graph.count()) {
    for (auto& each : parents_) each.store(kNone, std::memory_order_relaxed);
  }
  /// True for who comes first.
  bool claim(const Pair& reached) {
    auto& parent = parents_[graph_.local(reached.first)];
    Vertex expected = kNone;
    return parent.load(std::memory_order_relaxed) == kNone &&
           parent.compare_exchange_strong(expected, reached.second, std::memory_order_relaxed);
  }
  [[nodiscard]] std::vector<Vertex> all() const { return {parents_.begin(), parents_.end()}; }

 private:
  const Graph& graph_;
  std::vector<std::atomic<Vertex>> parents_;
};

/// A unit in one search.
class Searcher {
 public:
  Searcher(const units::Unit& unit, const Graph& graph, Parents& parents, int batch)
      : unit_(unit),
        graph_(graph),
        parents_(parents),
        fullest_(static_cast<std::size_t>(batch) + 1),
        letters_(static_cast<std::size_t>(unit.job.size)),
        incoming_(fullest_) {
    for (auto& letter : letters_) {
      letter.reserve(fullest_);
      letter.resize(1);
    }
  }

  /// Seconds that it took.
  double search(Vertex root) {
    if (unit_.number == 0 && graph_.owns(root)) reach({root, root});
    unit_.meet();
    const double start = MPI_Wtime();
    while (unit_.sum(static_cast<double>(reached_.size())) > 0) {
      level_ = std::exchange(reached_, {});
      vertex_ = neighbour_ = 0;
      while (exchange(look())) {
      }
    }
    return MPI_Wtime() - start;
  }

 private:
  void reach(const Pair& pair) {
    if (parents_.claim(pair)) reached_.push_back(pair.first);
  }

  /// Goes on through this level until a letter is full, or to the end: false.
  bool look() {
    for (; vertex_ < level_.size(); ++vertex_, neighbour_ = 0) {
      const Vertex from = level_[vertex_];
      const auto neighbours = graph_.neighbours(from);
      while (neighbour_ < neighbours.size()) {
        const Pair pair{neighbours[neighbour_++], from};
        const Vertex owner = graph_.owner(pair.first);
        if (owner == static_cast<Vertex>(unit_.job.rank)) {
          reach(pair);
          continue;
        }
        letters_[owner].push_back(pair);
        if (letters_[owner].size() == fullest_) return true;
      }
    }
    return false;
  }

  /// Letters go to the unit of the same number in each rank, and come from it. The first pair of
  /// each says whether its sender has more to look at; as long as one of them does, all come again.
  bool exchange(bool more) {
    const bool mine = more;
    const int size = unit_.job.size, rank = unit_.job.rank;
    for (int distance = 1; distance < size; ++distance) {
      const int to = (rank + distance) % size, from = (rank - distance + size) % size;
      auto& letter = letters_[static_cast<std::size_t>(to)];
      letter[0] = {mine ? 1U : 0U, 0};
      MPI_Status status;
      MPI_Sendrecv(letter.data(), words(letter.size()), MPI_UINT32_T, to, unit_.number,
                   incoming_.data(), words(fullest_), MPI_UINT32_T, from, unit_.number,
                   MPI_COMM_WORLD, &status);
      letter.resize(1);
      int came = 0;
      MPI_Get_count(&status, MPI_UINT32_T, &came);
      for (const Pair& pair :
           std::span(incoming_).subspan(1, static_cast<std::size_t>(came) / 2 - 1)) {
        reach(pair);
      }
      more = more || incoming_[0].first != 0;
    }
    return more;
  }
  static int words(std::size_t pairs) { return static_cast<int>(2 * pairs); }

  const units::Unit& unit_;
  const Graph& graph_;
  Parents& parents_;
  std::vector<Vertex> level_;               // this unit's vertices of this level,
  std::vector<Vertex> reached_;             // and of the next
  std::size_t vertex_ = 0, neighbour_ = 0;  // where it is in this level
  std::size_t fullest_;                     // pairs in a letter
  std::vector<std::vector<Pair>> letters_;  // to each rank
  std::vector<Pair> incoming_;
};

/// Checks a tree by the five rules of the specification, and counts the edges that were searched.
/// Every rank looks at its own vertices, with all parents at hand.
class Check {
 public:
  Check(const units::Job& job, const Size& size, const Graph& graph, Vertex root)
      : job_(job), size_(size), graph_(graph), root_(root) {}

  /// Edges searched, in all; none where the tree is wrong, and why in `complaint`.
  int64_t edges(const std::vector<Vertex>& mine) {
    gather(mine);
    measure_depths();
    int64_t ends = 0;
    for (std::size_t i = 0; i < mine.size(); ++i) ends += look_at(graph_.global(i));
    int64_t sums[] = {ends, complaint.empty() ? 0 : 1}, all[2];
    MPI_Allreduce(sums, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all[1] == 0 ? all[0] / 2 : 0;
  }

  std::string complaint;  ///< of this rank

 private:
  void gather(const std::vector<Vertex>& mine) {
    const auto ranks = static_cast<std::size_t>(job_.size);
    const std::size_t most = (size_.vertices() + ranks - 1) / ranks;
    std::vector<Vertex> sent(mine), came(most * ranks);
    sent.resize(most, kNone);
    MPI_Allgather(sent.data(), static_cast<int>(most), MPI_UINT32_T, came.data(),
                  static_cast<int>(most), MPI_UINT32_T, MPI_COMM_WORLD);
    parents_.resize(size_.vertices());
    for (std::size_t v = 0; v < parents_.size(); ++v) {
      parents_[v] = came[v % ranks * most + v / ranks];
    }
  }

  /// From each vertex up to the root or a vertex of known depth, and down again. Who takes more
  /// steps than there are vertices runs in a circle (rule 1).
  void measure_depths() {
    depths_.assign(parents_.size(), kNone);
    if (parents_[root_] != root_) return complain("the root is not its own parent", root_);
    depths_[root_] = 0;
    std::vector<Vertex> way;
    for (Vertex vertex = 0; vertex < parents_.size(); ++vertex) {
      way.clear();
      Vertex at = vertex;
      while (at < parents_.size() && parents_[at] != kNone && depths_[at] == kNone &&
             way.size() <= parents_.size()) {
        way.push_back(at);
        at = parents_[at];
      }
      if (way.empty()) continue;
      if (at >= parents_.size() || depths_[at] == kNone) {
        return complain("its parents do not lead to the root", vertex);
      }
      for (Vertex depth = depths_[at]; !way.empty(); way.pop_back()) depths_[way.back()] = ++depth;
    }
  }

  /// The number of edges that end at this vertex, if it was reached.
  int64_t look_at(Vertex vertex) {
    const Vertex parent = parents_[vertex], depth = depths_[vertex];
    const auto neighbours = graph_.neighbours(vertex);
    for (const Vertex other : neighbours) {
      const Vertex its = depths_[other];
      if ((depth == kNone) != (its == kNone)) complain("reached, but not its neighbour", vertex);
      if (depth > its + 1 && its != kNone) complain("a neighbour is two levels above", vertex);
    }
    if (parent == kNone) return 0;
    if (vertex != root_) {
      if (parent >= depths_.size()) {
        complain("its parent is no vertex", vertex);
      } else if (depth != depths_[parent] + 1)
        complain("not one level below its parent", vertex);
      if (std::find(neighbours.begin(), neighbours.end(), parent) == neighbours.end()) {
        complain("no edge leads to its parent", vertex);
      }
    }
    return static_cast<int64_t>(neighbours.size());
  }

  void complain(const char* what, Vertex vertex) {
    if (complaint.empty()) complaint = "vertex " + std::to_string(vertex) + ": " + what;
  }

  const units::Job& job_;
  const Size& size_;
  const Graph& graph_;
  Vertex root_;
  std::vector<Vertex> parents_;  // of all vertices
  std::vector<Vertex> depths_;
};

/// Vertices with neighbours other than themselves, the same in all ranks.
std::vector<Vertex> draw_roots(const Size& size, const Graph& graph, int count) {
  std::vector<Vertex> roots;
  for (uint64_t i = 0; roots.size() < static_cast<std::size_t>(count); ++i) {
    const auto root = static_cast<Vertex>(random_bits(0, i) % size.vertices());
    int fit = 0;
    if (graph.owns(root)) {
      for (const Vertex other : graph.neighbours(root)) fit |= other != root ? 1 : 0;
    }
    MPI_Allreduce(MPI_IN_PLACE, &fit, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (fit != 0) roots.push_back(root);
  }
  return roots;
}

/// Seconds of one search, and the tree.
double search(const units::Job& job, const Graph& graph, Vertex root, int batch, Parents& parents) {
  double seconds = 0;
  units::run(job, job.how.units, [&](const units::Unit& unit) {
    const double mine = Searcher(unit, graph, parents, batch).search(root);
    if (unit.number == 0) seconds = mine;
  });
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  units::Flags flags(argc, argv);
  const Size size{flags.number("--scale", 16, 4, 26), flags.number("--degree", 16, 1, 64)};
  const int count = flags.number("--roots", 16, 1, 1000);
  const int batch = flags.number("--batch", 256, 1, 1'000'000);
  const units::How how = flags.how();
  if (!flags.fine("bfs", "[--scale S] [--degree D] [--roots R] [--batch B]")) return 2;

  const units::Job job(argc, argv, how);
  if (static_cast<uint32_t>(job.size) > size.vertices()) {
    if (job.rank == 0) {
      std::fprintf(stderr, "bfs: %u vertices (--scale) are too few for %d ranks\n", size.vertices(),
                   job.size);
    }
    return 2;
  }
  const Graph graph(job, size);
  if (job.rank == 0) {
    std::printf("bfs: %u vertices, %llu edges; %d rank(s), %s\n", size.vertices(),
                static_cast<unsigned long long>(size.edges()), job.size, how.words().c_str());
  }
  std::vector<double> rates;
  double inverse = 0;
  for (const Vertex root : draw_roots(size, graph, count)) {
    Parents parents(graph);
    const double seconds = search(job, graph, root, batch, parents);
    Check check(job, size, graph, root);
    const int64_t edges = check.edges(parents.all());
    if (edges == 0) {
      if (!check.complaint.empty()) {
        std::fprintf(stderr, "bfs: the tree from %u is WRONG: %s\n", root, check.complaint.c_str());
      }
      return 1;
    }
    rates.push_back(static_cast<double>(edges) / seconds / 1e6);
    inverse += 1 / rates.back();
  }
  if (job.rank == 0) {
    std::sort(rates.begin(), rates.end());
    std::printf("%d searches: %.2f million edges a second (harmonic mean; %.2f to %.2f)\n", count,
                count / inverse, rates.front(), rates.back());
    std::printf("each tree is right\n");
  }
}
