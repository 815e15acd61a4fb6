# Point-to-point and requests.
weft_mpi_test(smoke RANKS 1 2 3 4 SOURCES programs/smoke.cpp)
weft_mpi_test(p2p_modes RANKS 1 2 3 4 SOURCES programs/p2p_modes.cpp)
weft_long_under(address mpi.p2p_modes.1)
weft_mpi_test(p2p_order RANKS 2 4 SOURCES programs/p2p_order.cpp)
weft_mpi_test(p2p_order_64 RANKS 2 PROGRAM p2p_order ARGUMENTS 64)
weft_mpi_test(p2p_probe RANKS 1 2 3 4 SOURCES programs/p2p_probe.cpp)
weft_mpi_test(p2p_probe_16 RANKS 2 PROGRAM p2p_probe ARGUMENTS 16)
weft_mpi_test(p2p_polls RANKS 1 4 8 SOURCES programs/p2p_polls.cpp)
weft_mpi_test(p2p_unchecked RANKS 2 SOURCES programs/p2p_unchecked.cpp
  ENV WEFT_MPI_CHECK_ARGUMENTS=false)
weft_mpi_test(p2p_errors RANKS 1 2 4 SOURCES programs/p2p_errors.cpp)
weft_mpi_test(p2p_buffered RANKS 1 2 4 SOURCES programs/p2p_buffered.cpp)
weft_mpi_test(request_sets RANKS 1 2 3 4 SOURCES programs/request_sets.cpp)
weft_mpi_test(request_sets_64 RANKS 2 PROGRAM request_sets ARGUMENTS 64)
# Sends taken back, of numbered messages: over one device, over several, and where most of them are in the backlog.
weft_mpi_test(p2p_recalls RANKS 1 2 3 SOURCES programs/p2p_recalls.cpp)
weft_mpi_test(p2p_recalls_over_devices RANKS 2 3 PROGRAM p2p_recalls
  ENV WEFT_COMM_DEVICES=4 WEFT_MPI_DEVICES=dedicated)
weft_mpi_test(p2p_recalls_crowded RANKS 2 PROGRAM p2p_recalls
  ENV WEFT_FABRIC_LANE_CELLS=16 WEFT_FABRIC_PACKETS=64 WEFT_COMM_DEVICES=4
      WEFT_MPI_DEVICES=dedicated)
# Wildcards posted and withdrawn by many threads over two devices: the model's answers.
if(NOT WEFT_SANITIZE)
  weft_mpi_test(p2p_model RANKS 1 2 3 4 SOURCES programs/p2p_model.cpp)
endif()
# `make stress`, which says how long, configures anew.
set(model_seconds 0)
if(DEFINED ENV{WEFT_STRESS_SECONDS})
  set(model_seconds $ENV{WEFT_STRESS_SECONDS})
  if(model_seconds GREATER 60)
    set(model_seconds 60)  # the watchdog comes at 100
  endif()
endif()
# Of more than 2^31 elements; they want 9 GiB.
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
if(DEFINED ENV{WEFT_STRESS_SECONDS} AND NOT WEFT_SANITIZE AND memory_mib GREATER 12000)
  weft_mpi_test(p2p_huge RANKS 2 SOURCES programs/p2p_huge.cpp)
endif()
weft_mpi_test(p2p_model_64 RANKS 1 2 3 PROGRAM p2p_model SOURCES programs/p2p_model.cpp
  ARGUMENTS 64 50 ${model_seconds}
  ENV WEFT_COMM_DEVICES=2 WEFT_MPI_DEVICES=dedicated)

# By the large-count twins.
weft_mpi_by_large_counts(p2p_modes RANKS 2)
weft_mpi_by_large_counts(p2p_errors RANKS 2)
weft_mpi_by_large_counts(p2p_buffered RANKS 2)
weft_mpi_by_large_counts(p2p_probe RANKS 2)
weft_mpi_by_large_counts(request_sets RANKS 2)
