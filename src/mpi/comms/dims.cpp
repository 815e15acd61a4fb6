// MPI_Dims_create.
#include "mpi/comms/dims.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

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

/// Whether n <= size^count.
bool reaches(int n, int count, int size) {
  int64_t product = 1;
  for (int i = 0; i < count && product < n; ++i) product *= size;
  return product >= n;
}
/// Whether n >= size^count.
bool leaves_room(int n, int count, int size) {
  int64_t product = 1;
  for (int i = 0; i < count && product <= n; ++i) product *= size;
  return product <= n;
}

/// Looks for factors between two bounds, in descending order, the first ones as small as can be.
/// What was tried in vain is not tried again.
class FactorSearch {
 public:
  FactorSearch(const std::vector<int>& divisors, int least) : divisors_(divisors), least_(least) {}

  /// `count` factors of `n`, none above `most`: appended to `found`.
  bool find(int n, int count, int most, std::vector<int>& found) {
    if (n == 1 && least_ == 1) {
      found.insert(found.end(), static_cast<std::size_t>(count), 1);
      return true;
    }
    if (count == 0) return n == 1;
    if (!failed_.insert({n, count, most}).second) return false;
    for (const int divisor : divisors_) {
      if (divisor > most) break;
      if (divisor < least_ || n % divisor != 0 || !reaches(n, count, divisor)) continue;
      if (!leaves_room(n / divisor, count - 1, least_)) break;
      found.push_back(divisor);
      if (find(n / divisor, count - 1, divisor, found)) return true;
      found.pop_back();
    }
    return false;
  }

 private:
  const std::vector<int>& divisors_;
  const int least_;
  std::set<std::tuple<int, int, int>> failed_;
};

}  // namespace

std::vector<int> balanced_factors(int processes, int count) {
  if (count == 0) return {};
  const std::vector<int> divisors = divisors_of(processes);
  std::vector<int> best;
  int spread = 0;
  for (auto least = divisors.rbegin(); least != divisors.rend(); ++least) {
    if (!leaves_room(processes, count, *least)) continue;
    // Only what is spread less than what was found before.
    const int most = best.empty() ? processes : *least + spread - 1;
    if (!reaches(processes, count, most)) break;
    std::vector<int> factors;
    if (!FactorSearch(divisors, *least).find(processes, count, most, factors)) continue;
    spread = factors.front() - factors.back();
    best = std::move(factors);
  }
  return best;
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
