// Which algorithms collectives take: by size and number of ranks, unless configuration says.
#pragma once

#include <cstdint>

namespace weft::mpi {

enum class BcastBy : uint8_t { automatic, linear, binomial, scatter_allgather, chain };
enum class ReduceBy : uint8_t { automatic, linear, binomial, rabenseifner, pairwise };
enum class AllreduceBy : uint8_t { automatic, recursive_doubling, rabenseifner, ring, pairwise };
enum class AllgatherBy : uint8_t { automatic, bruck, ring, linear };
enum class AlltoallBy : uint8_t { automatic, bruck, linear, pairwise };
enum class GatherBy : uint8_t { automatic, binomial, linear };
enum class ReduceScatterBy : uint8_t { automatic, reduce_then_scatter, pairwise };

/// The choices and where `automatic` changes its mind. Must be the same on all ranks.
struct Choices {
  BcastBy bcast = BcastBy::automatic;
  ReduceBy reduce = ReduceBy::automatic;
  AllreduceBy allreduce = AllreduceBy::automatic;
  AllgatherBy allgather = AllgatherBy::automatic;
  AlltoallBy alltoall = AlltoallBy::automatic;
  GatherBy gather = GatherBy::automatic;
  ReduceScatterBy reduce_scatter = ReduceScatterBy::automatic;
  bool node_aware = true;
  bool node_board = true;
  int64_t segment_bytes = 128 << 10;
};

inline constexpr uint32_t kFewRanks = 7;    ///< beside the root
inline constexpr int kStraightLeaders = 4;  ///< of nodes: up to these all go by the first

/// Registers the collectives' part of the room's table; register_mpi_config does.
void register_collectives_config();

/// Read from configuration at the first call. Throws Error(bad_config).
[[nodiscard]] const Choices& choices();

}  // namespace weft::mpi
