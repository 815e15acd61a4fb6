list(APPEND WEFT_MPI_SOURCES matching/channel.cpp matching/keyed_channel.cpp)
