list(APPEND WEFT_MPI_SOURCES
  collectives/agents.cpp collectives/allgather.cpp collectives/allreduce.cpp collectives/alltoall.cpp
  collectives/arguments.cpp collectives/barrier.cpp collectives/bcast.cpp collectives/blocks.cpp
  collectives/board_store.cpp
  collectives/call.cpp collectives/check.cpp collectives/exchange_calls.cpp
  collectives/frames.cpp collectives/gather.cpp collectives/gather_unlike.cpp
  collectives/incoming.cpp collectives/inter.cpp collectives/internal.cpp
  collectives/moving_calls.cpp collectives/neighbours.cpp collectives/node_board.cpp collectives/node_map.cpp
  collectives/posts.cpp collectives/reduce.cpp collectives/reduce_scatter.cpp
  collectives/reduction_calls.cpp collectives/scan.cpp collectives/schedule.cpp
  collectives/settings.cpp collectives/shared_sends.cpp collectives/shown_vectors.cpp)
