// The table of configuration keys that choose algorithms.
#include "mpi/collectives/settings.hpp"

#include <mutex>
#include <string_view>

#include "weft/base/config.hpp"

namespace weft::mpi {
namespace {

using base::ConfigType;

constexpr base::ConfigKey kCollectiveKeys[] = {
    {.key = "mpi.bcast",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|linear|binomial|scatter_allgather|chain",
     .help = "How MPI_Bcast goes: straight from the root, down a binomial tree, scattered and "
             "gathered around a ring, or in "
             "segments along a chain; automatic: by size, and up to 1 MiB on one node straight, "
             "where it is written once for all."},
    {.key = "mpi.reduce",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|linear|binomial|rabenseifner|pairwise",
     .help = "How MPI_Reduce goes: straight to the root, up a binomial tree, halved step by step "
             "and then gathered, or a part at each rank and then gathered; automatic: by size."},
    {.key = "mpi.allreduce",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|recursive_doubling|rabenseifner|ring|pairwise",
     .help =
         "How MPI_Allreduce goes: whole vectors between ever more distant ranks, halves of them "
         "there and back, parts around a ring (commutative operations only), or a part at each "
         "rank, who shows it to all; automatic: by size."},
    {.key = "mpi.allgather",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|bruck|ring|linear",
     .help = "How MPI_Allgather(v) goes: in a logarithm of steps through a copy, around a ring, or "
             "everything at once; automatic: by size, and at once on one node, where each block is "
             "written once for all."},
    {.key = "mpi.alltoall",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|bruck|linear|pairwise",
     .help =
         "How MPI_Alltoall goes: in a logarithm of steps through copies, everything at once, or "
         "one partner after the other; automatic: by size, and what is short by nodes, also of "
         "MPI_Alltoallv and w."},
    {.key = "mpi.gather",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|binomial|linear",
     .help = "How MPI_Gather and MPI_Scatter go: along a binomial tree, or straight; automatic: by "
             "size, straight among few ranks of one node, and in two levels over several nodes, as "
             "MPI_Gatherv and MPI_Scatterv then do."},
    {.key = "mpi.reduce_scatter",
     .type = ConfigType::choice,
     .fallback = "automatic",
     .choices = "automatic|reduce_then_scatter|pairwise",
     .help = "How MPI_Reduce_scatter(_block) goes: reduced at one rank and scattered, or each part "
             "sent to its owner, who combines; automatic: by size."},
    {.key = "mpi.node_aware",
     .type = ConfigType::boolean,
     .fallback = "true",
     .help =
         "Collectives go in two levels, inside nodes and between one rank of each, where nodes "
         "have "
         "several ranks: all but neighbours' exchanges; of Gather(v), Scatter(v), Alltoall(v, w) "
         "and Reduce_scatter what is short."},
    {.key = "mpi.node_board",
     .type = ConfigType::boolean,
     .fallback = "true",
     .help = "In short blocking collectives the ranks of a node show each other their data in "
             "shared memory, without messages."},
    {.key = "mpi.segment_bytes",
     .type = ConfigType::bytes,
     .fallback = "128K",
     .low = 1 << 10,
     .high = int64_t{1} << 30,
     .help = "Segments in which large broadcasts travel along a chain."},
};

// Known from the start of every program: a misspelt variable is told whoever asks first.
const base::AnnouncedConfig kAnnouncedCollectives(kCollectiveKeys);

/// The number of a value among the choices of its key.
template <class Choice>
Choice choice(std::string_view key) {
  const std::string value = base::config_text(key);
  for (const base::ConfigKey& row : kCollectiveKeys) {
    if (row.key != key) continue;
    std::string_view rest = row.choices;
    for (uint8_t number = 0;; ++number) {
      const std::size_t end = rest.find('|');
      if (rest.substr(0, end) == value) return static_cast<Choice>(number);
      if (end == std::string_view::npos) break;
      rest.remove_prefix(end + 1);
    }
  }
  return Choice{};
}

Choices read() {
  register_collectives_config();
  return {.bcast = choice<BcastBy>("mpi.bcast"),
          .reduce = choice<ReduceBy>("mpi.reduce"),
          .allreduce = choice<AllreduceBy>("mpi.allreduce"),
          .allgather = choice<AllgatherBy>("mpi.allgather"),
          .alltoall = choice<AlltoallBy>("mpi.alltoall"),
          .gather = choice<GatherBy>("mpi.gather"),
          .reduce_scatter = choice<ReduceScatterBy>("mpi.reduce_scatter"),
          .node_aware = base::config_bool("mpi.node_aware"),
          .node_board = base::config_bool("mpi.node_board"),
          .segment_bytes = base::config_int("mpi.segment_bytes")};
}

}  // namespace

void register_collectives_config() {
  static std::once_flag once;
  std::call_once(once, [] { base::register_config(kCollectiveKeys); });
}

const Choices& choices() {
  static const Choices the_choices = read();
  return the_choices;
}

}  // namespace weft::mpi
