// The collectives that compare.cpp measures, by name.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

/// What collectives send and receive, enough for `ranks` of the larger side.
struct Buffers {
  Buffers(int bytes, int ranks)
      : in(static_cast<std::size_t>(std::max(bytes, 8)) / sizeof(double) *
               static_cast<std::size_t>(ranks),
           1),
        out(in.size(), 0) {
    const int doubles = static_cast<int>(in.size()) / ranks;
    for (int i = 0; i < ranks; ++i) {
      counts.push_back(doubles);
      places.push_back(i * doubles);
    }
  }
  std::vector<double> in;
  std::vector<double> out;
  std::vector<int> counts;  ///< of each rank's, in doubles
  std::vector<int> places;
};

using CallCollective = void (*)(Buffers& data, int doubles, int root);
/// The sizes are what each rank gives to, or gets from, each other one.
inline CallCollective find_collective(const std::string& name) {
  static const std::map<std::string, CallCollective> kAll{
      {"barrier", [](Buffers&, int, int) { MPI_Barrier(MPI_COMM_WORLD); }},
      {"bcast",
       [](Buffers& data, int doubles, int root) {
         MPI_Bcast(data.in.data(), doubles, MPI_DOUBLE, root, MPI_COMM_WORLD);
       }},
      {"reduce",
       [](Buffers& data, int doubles, int root) {
         MPI_Reduce(data.in.data(), data.out.data(), doubles, MPI_DOUBLE, MPI_SUM, root,
                    MPI_COMM_WORLD);
       }},
      {"allreduce",
       [](Buffers& data, int doubles, int) {
         MPI_Allreduce(data.in.data(), data.out.data(), doubles, MPI_DOUBLE, MPI_SUM,
                       MPI_COMM_WORLD);
       }},
      {"reduce-scatter",
       [](Buffers& data, int doubles, int) {
         MPI_Reduce_scatter_block(data.in.data(), data.out.data(), doubles, MPI_DOUBLE, MPI_SUM,
                                  MPI_COMM_WORLD);
       }},
      {"gather",
       [](Buffers& data, int doubles, int root) {
         MPI_Gather(data.in.data(), doubles, MPI_DOUBLE, data.out.data(), doubles, MPI_DOUBLE, root,
                    MPI_COMM_WORLD);
       }},
      {"scatter",
       [](Buffers& data, int doubles, int root) {
         MPI_Scatter(data.in.data(), doubles, MPI_DOUBLE, data.out.data(), doubles, MPI_DOUBLE,
                     root, MPI_COMM_WORLD);
       }},
      {"gatherv",
       [](Buffers& data, int doubles, int root) {
         MPI_Gatherv(data.in.data(), doubles, MPI_DOUBLE, data.out.data(), data.counts.data(),
                     data.places.data(), MPI_DOUBLE, root, MPI_COMM_WORLD);
       }},
      {"scatterv",
       [](Buffers& data, int doubles, int root) {
         MPI_Scatterv(data.in.data(), data.counts.data(), data.places.data(), MPI_DOUBLE,
                      data.out.data(), doubles, MPI_DOUBLE, root, MPI_COMM_WORLD);
       }},
      {"alltoallv",
       [](Buffers& data, int, int) {
         MPI_Alltoallv(data.in.data(), data.counts.data(), data.places.data(), MPI_DOUBLE,
                       data.out.data(), data.counts.data(), data.places.data(), MPI_DOUBLE,
                       MPI_COMM_WORLD);
       }},
      {"allgather",
       [](Buffers& data, int doubles, int) {
         MPI_Allgather(data.in.data(), doubles, MPI_DOUBLE, data.out.data(), doubles, MPI_DOUBLE,
                       MPI_COMM_WORLD);
       }},
      {"alltoall",
       [](Buffers& data, int doubles, int) {
         MPI_Alltoall(data.in.data(), doubles, MPI_DOUBLE, data.out.data(), doubles, MPI_DOUBLE,
                      MPI_COMM_WORLD);
       }},
  };
  const auto found = kAll.find(name);
  return found == kAll.end() ? nullptr : found->second;
}
