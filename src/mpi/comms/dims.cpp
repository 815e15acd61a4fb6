// MPI_Dims_create.
#include "mpi/comms/dims.hpp"

#include <algorithm>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi {

namespace {

std::vector<int> divisors_of(int n) {
  std::vector<int> divisors;
  for (int64_t i = 1; i * i <= n; ++i) {
    if (n % i != 0) continue;
    divisors.push_back(static_cast<int>(i));
    if (i * i != n) divisors.push_back(static_cast<int>(n / i));
  }
  std::sort(divisors.begin(), divisors.end());
  return divisors;
}

/// Whether `count` factors of at most `size` can reach `n`.
bool reaches(int n, int count, int size) {
  int64_t product = 1;
  for (int i = 0; i < count && product < n; ++i) product *= size;
  return product >= n;
}

/// Looks for `count` factors of `n`, none above `most`, the first ones as small as can be: tries
/// divisors in ascending order, from the first that leaves the others enough.
bool find_factors(int n, int count, int most, const std::vector<int>& divisors,
                  std::vector<int>& found) {
  if (n == 1) {
    found.insert(found.end(), static_cast<std::size_t>(count), 1);
    return true;
  }
  if (count == 0) return false;
  for (const int divisor : divisors) {
    if (divisor > most) return false;
    if (n % divisor != 0 || !reaches(n, count, divisor)) continue;
    found.push_back(divisor);
    if (find_factors(n / divisor, count - 1, divisor, divisors, found)) return true;
    found.pop_back();
  }
  return false;
}

}  // namespace

std::vector<int> balanced_factors(int processes, int count) {
  std::vector<int> factors;
  if (count > 0) (void)find_factors(processes, count, processes, divisors_of(processes), factors);
  return factors;
}

namespace calls {

void Dims_create(int nnodes, int ndims, int dims[]) {
  require(nnodes > 0, MPI_ERR_ARG, "a grid has at least one process");
  if (ndims < 0) fail(MPI_ERR_DIMS, "a negative number of dimensions");
  require(ndims == 0 || dims != nullptr, MPI_ERR_DIMS, "a null array of dimensions");
  int64_t given = 1;
  int open = 0;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] < 0) fail(MPI_ERR_DIMS, "a negative size of a dimension");
    if (dims[i] == 0) ++open;
    if (dims[i] > 0) given *= dims[i];
    if (given > nnodes) fail(MPI_ERR_DIMS, "the sizes that are given need more processes");
  }
  if (nnodes % given != 0)
    fail(MPI_ERR_DIMS, "the number of processes is no multiple of the sizes that are given");
  const std::vector<int> factors = balanced_factors(static_cast<int>(nnodes / given), open);
  std::size_t next = 0;
  for (int i = 0; i < ndims; ++i) {
    if (dims[i] == 0) dims[i] = factors[next++];
  }
}

}  // namespace calls
}  // namespace weft::mpi
