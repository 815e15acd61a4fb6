// Heat spreads over a square plate that is dealt to the ranks of a job in strips of rows. Loops
// over rows run on all workers of a rank; two tasks meanwhile exchange rows with the ranks beside
// it.
//
//   weftrun -n 2 heat [size of the plate] [steps]
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>
#include <weft/task/loops.hpp>
#include <weft/task/scheduler.hpp>
#include <weft/weft.hpp>

namespace {

using Row = std::span<double>;

/// The rows of one rank, one of its neighbour's (or of the plate's edge) above them, one below.
class Strip {
 public:
  Strip(int rows, int columns)
      : rows_(rows),
        columns_(columns),
        cells_((std::size_t{2} + rows) * (std::size_t{2} + columns)) {}

  [[nodiscard]] int rows() const { return rows_; }  // 1 to rows() are its own
  [[nodiscard]] Row row(int number) {
    const auto width = std::size_t{2} + columns_;
    return Row(cells_).subspan(static_cast<std::size_t>(number) * width, width);
  }

 private:
  int rows_, columns_;
  std::vector<double> cells_;
};

/// Every cell becomes the mean of its four neighbours.
void relax(Strip& from, Strip& to, int row) {
  const Row above = from.row(row - 1), here = from.row(row), below = from.row(row + 1);
  const Row result = to.row(row);
  for (std::size_t i = 1; i + 1 < here.size(); ++i) {
    result[i] = (above[i] + below[i] + here[i - 1] + here[i + 1]) / 4;
  }
}

/// Sends the outermost of our rows to the neighbour, and takes the outermost of his. A plate's edge
/// has none.
void exchange(weft::Endpoint& edges, int neighbour, Row mine, Row his) {
  weft::Runtime& runtime = edges.runtime();
  if (neighbour < 0 || neighbour >= runtime.size()) return;
  const weft::Rank peer{neighbour};
  // The receive first: a long row goes only once it is awaited, and he does the same as we.
  weft::Synchronizer came;
  const weft::Post answer = weft::until_posted(
      runtime, [&] { return edges.recv(peer, weft::Tag{0}, std::as_writable_bytes(his), &came); });
  edges.send_wait(peer, weft::Tag{0}, std::as_bytes(mine));
  if (answer == weft::Post::posted) runtime.wait(came);
}

void step(weft::Endpoint& edges, Strip& now, Strip& next) {
  const int me = edges.runtime().rank().value;
  const int last = now.rows();
  auto above = weft::task::spawn([&] { exchange(edges, me - 1, now.row(1), now.row(0)); });
  auto below =
      weft::task::spawn([&] { exchange(edges, me + 1, now.row(last), now.row(last + 1)); });
  // What needs no other rank's row, while those are under way.
  weft::task::parallel_for(2, last, [&](int row) { relax(now, next, row); });
  above.join();
  below.join();
  relax(now, next, 1);
  relax(now, next, last);
}

double heat_of(Strip& strip) {
  const auto sum_of_row = [&](int row) {
    double sum = 0;
    for (const double cell : strip.row(row)) sum += cell;
    return sum;
  };
  return weft::task::parallel_reduce(1, strip.rows() + 1, 0.0, sum_of_row, std::plus<>());
}

/// A number from the command line, from 1 to `most`.
std::optional<int> number(std::string_view text, int most) {
  int value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value >= 1 && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const auto size = argc > 1 ? number(argv[1], 20'000) : 500;
  const auto steps = argc > 2 ? number(argv[2], 1'000'000) : 1000;
  if (!size || !steps || argc > 3) {
    std::fprintf(stderr,
                 "heat [size of the plate, 1 to 20000] [steps, 1 to 1000000]: not these numbers\n");
    return 2;
  }

  weft::Runtime runtime;
  const int me = runtime.rank().value;
  if (runtime.size() > *size) {
    std::fprintf(stderr, "heat: a plate of %d rows is too small for %d ranks\n", *size,
                 runtime.size());
    return 2;
  }
  weft::Endpoint edges(runtime, {});
  weft::Team everyone(runtime);
  weft::task::Scheduler scheduler;

  const int first = *size * me / runtime.size();
  Strip now(*size * (me + 1) / runtime.size() - first, *size);
  Strip next = now;
  if (me == 0) {  // the plate's upper edge is kept hot, the others cold
    for (Strip* each : {&now, &next}) {
      for (double& cell : each->row(0)) cell = 100;
    }
  }
  const double mine = scheduler.run([&] {
    for (int i = 0; i < *steps; ++i) {
      step(edges, now, next);
      std::swap(now, next);
    }
    return heat_of(now);
  });
  const double mean = everyone.sum(mine) / *size / *size;
  if (me == 0) {
    std::printf("%d steps on a plate of %d x %d: %.6f degrees on average\n", *steps, *size, *size,
                mean);
  }
}
