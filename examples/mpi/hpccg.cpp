// Conjugate gradients on a cube of points, each coupled to the 26 around it: what HPCCG of the
// Mantevo suite does, written with blocking calls by as many units as there are parts.
//
//   mpiexec -n 2 hpccg [--size N] [--iterations I] [how it runs]
//
//   --size N         points on each side of the cube (64)
//   --iterations I   when to give up (500)
//   --units 1        how it runs: one unit a rank, MPI alone (so it is if nothing is said);
//   --threads T      T threads a rank, with MPI_THREAD_MULTIPLE;
//   --tasks T        T tasks of weft a rank, on --workers W threads (one for each of its cores)
//
// What it shows: an MPI program becomes one of many units by giving each unit what was a rank's.
// The cube is cut into layers, one for each unit of each rank. A unit exchanges planes with the
// one above and the one below by MPI_Sendrecv, whether that is in the same rank or in another, and
// computes only then: no nonblocking calls, no order of work that hides their time. While a unit
// waits, others of its rank compute; that is what T larger than the number of cores is for.
//
// The system is the suite's: 27 on the diagonal, -1 for each neighbour, a right side for which
// every unknown is 1. The coefficients are not stored. In the end the residual is computed anew
// from the solution, and must be 1e-8 of the right side or less; and the unknowns must be 1 to five
// digits. Counted as operations are two for each coefficient, and ten for a point's share of the
// vectors.
//
// Expect: the same number of iterations however it runs, and exit code 0. With --size 64, the
// work of an iteration takes longer than its messages, and many units cost little; with --size 16
// the messages are what is measured.
#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

#include "units.hpp"

namespace {

constexpr double kTolerance = 1e-9;  // of the residual that the method itself keeps
constexpr double kResidual = 1e-8;   // of the one computed in the end
constexpr double kError = 1e-5;
constexpr double kOperationsAPoint = 64;

/// What the run found.
struct Outcome {
  int iterations = 0;
  double seconds = 0;
  double residual = 0;  ///< |b - Ax| / |b|
  double error = 0;     ///< root of the mean square of x - 1
};

/// Numbers on a layer's points. A frame of zeros, or of a neighbour's plane above and below, saves
/// asking where the cube ends.
class Field {
 public:
  Field(int size, int planes)
      : row_(static_cast<std::size_t>(size) + 2),
        planes_(static_cast<std::size_t>(planes)),
        cells_(row_ * row_ * (planes_ + 2)) {}

  [[nodiscard]] std::size_t row_length() const { return row_; }
  [[nodiscard]] std::size_t plane_length() const { return row_ * row_; }
  /// 1 to `planes` are the layer's own.
  [[nodiscard]] double* plane(int z) {
    return cells_.data() + static_cast<std::size_t>(z) * plane_length();
  }
  [[nodiscard]] const double* plane(int z) const {
    return cells_.data() + static_cast<std::size_t>(z) * plane_length();
  }
  /// All own planes, their frames included: those are zero, and so is whatever is made of them.
  [[nodiscard]] std::span<double> own() { return {plane(1), planes_ * plane_length()}; }
  [[nodiscard]] std::span<const double> own() const { return {plane(1), planes_ * plane_length()}; }

 private:
  std::size_t row_, planes_;
  std::vector<double> cells_;
};

double dot(const Field& a, const Field& b) {
  const auto x = a.own(), y = b.own();
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// y = a x + b y
void combine(double a, const Field& x, double b, Field& y) {
  const auto from = x.own();
  const auto to = y.own();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = a * from[i] + b * to[i];
}

/// The layer of one unit.
class Layer {
 public:
  Layer(const units::Unit& unit, int size)
      : unit_(unit),
        size_(size),
        number_(unit.job.rank * unit.count + unit.number),
        layers_(unit.job.size * unit.count),
        first_(begin_of(number_)),
        planes_(begin_of(number_ + 1) - first_) {}

  [[nodiscard]] Field field() const { return {size_, planes_}; }

  /// The right side: what the matrix makes of ones.
  [[nodiscard]] Field right_side() const {
    const auto near = [&](int i) { return 1 + (i > 0 ? 1 : 0) + (i < size_ - 1 ? 1 : 0); };
    Field result = field();
    for (int z = 0; z < planes_; ++z) {
      double* row = result.plane(z + 1);
      for (int y = 0; y < size_; ++y) {
        row += result.row_length();
        for (int x = 0; x < size_; ++x) row[x + 1] = 28 - near(x) * near(y) * near(first_ + z);
      }
    }
    return result;
  }

  /// How far its unknowns are from what they should be: the sum of (x - 1)².
  [[nodiscard]] double square_from_one(const Field& x) const {
    double sum = 0;
    for (int z = 1; z <= planes_; ++z) {
      const double* row = x.plane(z);
      for (int y = 0; y < size_; ++y) {
        row += x.row_length();
        for (int i = 1; i <= size_; ++i) sum += (row[i] - 1) * (row[i] - 1);
      }
    }
    return sum;
  }

  /// result = A x, for which x gets the planes of its neighbours.
  void apply(Field& x, Field& result) const {
    exchange(x);
    const std::size_t row = x.row_length();
    for (int z = 1; z <= planes_; ++z) {
      for (int y = 1; y <= size_; ++y) {
        const std::size_t begin = static_cast<std::size_t>(y) * row;
        double* to = result.plane(z) + begin;
        const double* here = x.plane(z) + begin;
        for (int i = 1; i <= size_; ++i) to[i] = 28 * here[i];
        for (int up = -1; up <= 1; ++up) {
          const double* middle = x.plane(z + up) + begin;
          const double* before = middle - row;
          const double* behind = middle + row;
          for (int i = 1; i <= size_; ++i) {
            to[i] -= (before[i - 1] + before[i] + before[i + 1]) +
                     (middle[i - 1] + middle[i] + middle[i + 1]) +
                     (behind[i - 1] + behind[i] + behind[i + 1]);
          }
        }
      }
    }
  }

 private:
  /// A layer beside this one; of no rank, where the cube ends.
  struct Neighbour {
    int rank = MPI_PROC_NULL;
    int unit = 0;
  };

  [[nodiscard]] int begin_of(int layer) const {
    return static_cast<int>(int64_t{size_} * layer / layers_);
  }
  [[nodiscard]] Neighbour neighbour(int layer) const {
    if (layer < 0 || layer >= layers_) return {};
    return {layer / unit_.count, layer % unit_.count};
  }

  /// Planes go up, then down. A tag says which unit of the receiver's rank it is for, and whence.
  void exchange(Field& x) const {
    const Neighbour above = neighbour(number_ + 1), below = neighbour(number_ - 1);
    const int length = static_cast<int>(x.plane_length());
    MPI_Sendrecv(x.plane(planes_), length, MPI_DOUBLE, above.rank, 2 * above.unit,  //
                 x.plane(0), length, MPI_DOUBLE, below.rank, 2 * unit_.number,      //
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(x.plane(1), length, MPI_DOUBLE, below.rank, 2 * below.unit + 1,              //
                 x.plane(planes_ + 1), length, MPI_DOUBLE, above.rank, 2 * unit_.number + 1,  //
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  const units::Unit& unit_;
  int size_;
  int number_, layers_;  // of all units of all ranks
  int first_, planes_;
};

Outcome solve(const units::Unit& unit, int size, int most_iterations) {
  const Layer layer(unit, size);
  const Field b = layer.right_side();
  Field x = layer.field();
  Field product = layer.field();
  Field residual = b;
  Field direction = b;

  Outcome outcome;
  const double begin_square = unit.sum(dot(b, b));
  double square = begin_square;
  const double start = MPI_Wtime();
  while (outcome.iterations < most_iterations && square > kTolerance * kTolerance * begin_square) {
    layer.apply(direction, product);
    const double step = square / unit.sum(dot(direction, product));
    combine(step, direction, 1, x);
    combine(-step, product, 1, residual);
    const double next = unit.sum(dot(residual, residual));
    combine(1, residual, next / square, direction);
    square = next;
    ++outcome.iterations;
  }
  outcome.seconds = MPI_Wtime() - start;

  layer.apply(x, product);
  combine(1, b, -1, product);
  outcome.residual = std::sqrt(unit.sum(dot(product, product)) / begin_square);
  outcome.error =
      std::sqrt(unit.sum(layer.square_from_one(x)) / std::pow(static_cast<double>(size), 3));
  return outcome;
}

}  // namespace

int main(int argc, char** argv) {
  units::Flags flags(argc, argv);
  const int size = flags.number("--size", 64, 2, 1000);
  const int iterations = flags.number("--iterations", 500, 1, 1'000'000);
  const units::How how = flags.how();
  if (!flags.fine("hpccg", "[--size N] [--iterations I]")) return 2;

  const units::Job job(argc, argv, how);
  if (job.size * how.units > size) {
    if (job.rank == 0) {
      std::fprintf(stderr, "hpccg: %d planes (--size) are too few for %d ranks of %d unit(s)\n",
                   size, job.size, how.units);
    }
    return 2;
  }
  Outcome outcome;
  units::run(job, how.units, [&](const units::Unit& unit) {
    const Outcome mine = solve(unit, size, iterations);
    if (unit.number == 0) outcome = mine;
  });

  const bool right = outcome.residual <= kResidual && outcome.error <= kError;
  if (job.rank == 0) {
    const double points = 1.0 * size * size * size;
    std::printf("hpccg: %d x %d x %d points; %d rank(s), %s\n", size, size, size, job.size,
                how.words().c_str());
    std::printf("%d iterations in %.4f s: %.1f Mflop/s\n", outcome.iterations, outcome.seconds,
                kOperationsAPoint * points * outcome.iterations / outcome.seconds / 1e6);
    std::printf("residual %.2e, error %.2e: %s\n", outcome.residual, outcome.error,
                right ? "solved" : "NOT solved");
  }
  return right ? 0 : 1;
}
