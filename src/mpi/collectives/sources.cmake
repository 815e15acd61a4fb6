list(APPEND WEFT_MPI_SOURCES
  collectives/allgather.cpp collectives/allreduce.cpp collectives/alltoall.cpp
  collectives/barrier.cpp collectives/bcast.cpp collectives/blocks.cpp collectives/frames.cpp
  collectives/gather.cpp collectives/internal.cpp collectives/node_map.cpp collectives/posts.cpp
  collectives/reduce.cpp collectives/reduce_scatter.cpp collectives/scan.cpp
  collectives/schedule.cpp collectives/settings.cpp)
