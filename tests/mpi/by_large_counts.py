"""Writes a header that makes a test program call the large-count twins: by_large_counts.py ABI_FOLDER HEADER

Included before all else of a program, it puts a function of its own in the place of each that has a twin
(src/mpi/abi/functions.txt): with the plain one's parameters, which it widens for the twin. So the programs that test the
plain functions test their twins, too.
"""
import sys

TOP = """\
// By tests/mpi/by_large_counts.py: the plain functions, served by their large-count twins.
#pragma once

#include <mpi.h>

#include <deque>
#include <mutex>
#include <vector>

namespace by_large_counts {

/// Copies that last: what a pending operation names must stay where it is.
template <class To, class From>
const To* widened(const From* from, int count) {
  if (from == nullptr || count < 0) return nullptr;
  static std::mutex lock;
  static std::deque<std::vector<To>>& all = *new std::deque<std::vector<To>>;
  const std::scoped_lock guard(lock);
  all.emplace_back(from, from + count).resize(static_cast<std::size_t>(count) + 1);
  return all.back().data();
}

/// As the plain functions answer.
template <class To, class From>
To narrowed(From wide) {
  return static_cast<To>(wide) == wide ? static_cast<To>(wide) : To{MPI_UNDEFINED};
}

/// How many processes a collective on it names in arrays; -1 of what is none.
inline int others(MPI_Comm comm) {
  int inter = 0;
  int size = -1;
  if (PMPI_Comm_test_inter(comm, &inter) != MPI_SUCCESS) return -1;
  return (inter != 0 ? PMPI_Comm_remote_size(comm, &size) : PMPI_Comm_size(comm, &size)) ==
                 MPI_SUCCESS ? size : -1;
}
inline int own(MPI_Comm comm) {
  int size = -1;
  return PMPI_Comm_size(comm, &size) == MPI_SUCCESS ? size : -1;
}
/// The same where only the root's arrays count.
inline int others_of_root(MPI_Comm comm, int root) {
  int rank = -1;
  if (PMPI_Comm_rank(comm, &rank) != MPI_SUCCESS) return -1;
  return root == rank || root == MPI_ROOT ? others(comm) : -1;
}
inline int neighbours(MPI_Comm comm, bool sources) {
  int kind = MPI_UNDEFINED;
  int rank = 0;
  int in = -1;
  int out = -1;
  if (PMPI_Topo_test(comm, &kind) != MPI_SUCCESS) return -1;
  PMPI_Comm_rank(comm, &rank);
  if (kind == MPI_CART && PMPI_Cartdim_get(comm, &in) == MPI_SUCCESS) return 2 * in;
  if (kind == MPI_GRAPH && PMPI_Graph_neighbors_count(comm, rank, &in) == MPI_SUCCESS) return in;
  int weighted = 0;
  if (kind != MPI_DIST_GRAPH) return -1;
  PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
  return sources ? in : out;
}
"""

# What is written: the type the twin has there, and of what it is read.
WRITTEN = {"Count*": ("MPI_Count", "int"), "Count&": ("MPI_Count", "int"), "Addr*": ("MPI_Count", "MPI_Aint"),
           "Disp*": ("MPI_Aint", "int")}
ARRAYS = {"Counts": "MPI_Count", "Displs": "MPI_Aint", "Addrs": "MPI_Count"}


def length(function, parameter):
    """Of an array: an expression."""
    names = [each.name for each in function.parameters]
    if function.name.startswith("Type_"):
        return "ndims" if "ndims" in names else "static_cast<int>(count)"
    if "eighbor" in function.name:
        sources = parameter.name in ("recvcounts", "rdispls", "displs")
        return f"by_large_counts::neighbours(comm, {'true' if sources else 'false'})"
    if "educe_scatter" in function.name:
        return "by_large_counts::own(comm)"
    return "by_large_counts::others_of_root(comm, root)" if "root" in names else "by_large_counts::others(comm)"


def served(function):
    """A function with the plain parameters that calls the twin."""
    before, arguments, after = [], [], []
    for parameter in function.parameters:
        name = parameter.name
        if parameter.kind in WRITTEN:
            wide, narrow = WRITTEN[parameter.kind]
            start = f"{name} != nullptr ? *{name} : 0" if parameter.kind == "Count&" else "0"
            before.append(f"{wide} wide_{name} = {start};")
            arguments.append(f"{name} != nullptr ? &wide_{name} : nullptr")
            after.append(f"if ({name} != nullptr && code == MPI_SUCCESS) *{name} = by_large_counts::narrowed<{narrow}>(wide_{name});")
        elif parameter.kind in ARRAYS:
            arguments.append(f"by_large_counts::widened<{ARRAYS[parameter.kind]}>({name}, {length(function, parameter)})")
        else:
            arguments.append(name)
    lines = [*before, f"const int code = MPI_{function.name}_c({', '.join(arguments)});", *after, "return code;"]
    return (f"inline {function.signature('large_')} {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
            f"#define MPI_{function.name} large_{function.name}\n")


def main():
    sys.path.insert(0, sys.argv[1])
    from tables import functions
    twins = [each for each in functions() if each.twin and each.state != "unsupported"]
    with open(sys.argv[2], "w", encoding="utf-8") as header:
        header.write(TOP + "\n}  // namespace by_large_counts\n\n" + "\n".join(map(served, twins)))


if __name__ == "__main__":
    main()
