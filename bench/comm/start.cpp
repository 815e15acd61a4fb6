// Start of a job.
//
// Measured: wall time from just before weftrun is started, in ns. `first_message`: to the moment
// when rank 0 has passed the barrier after every rank has received 8 bytes from its neighbour.
// `whole`: until weftrun has ended (init, messages, barrier, finalize, and nothing left).
// Rival, `whole` of as many ranks with MPICH's mpiexec: init, barrier, finalize, compiled with its
// own mpicc; turn by turn in the same run.
// It lies when programs are read from disk for the first time (the first turn is thrown away).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "comm/benches.hpp"
#include "comm/session.hpp"
#include "harness/process.hpp"
#include "harness/result.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

constexpr double kLimitSeconds = 120;

const char* const kRivalSource = R"(#include <mpi.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
)";

/// MPICH, if its folder was given: the launcher and a compiled program, or why not.
class Rival {
 public:
  explicit Rival(const std::string& folder) {
    if (folder.empty() || access((folder + "/mpiexec").c_str(), X_OK) != 0) {
      why_not_ = "rival not installed";
      return;
    }
    char made[] = "/tmp/weft-bench-XXXXXX";
    if (mkdtemp(made) == nullptr) {
      why_not_ = "no temporary folder";
      return;
    }
    folder_ = made;
    std::ofstream(folder_ + "/hello.c") << kRivalSource;
    const auto compiled = run_program(
        {folder + "/mpicc", "-O2", "-o", folder_ + "/hello", folder_ + "/hello.c"}, kLimitSeconds);
    if (compiled.code != 0) {
      why_not_ = "rival's mpicc failed";
      return;
    }
    mpiexec_ = folder + "/mpiexec";
  }
  ~Rival() {
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  Rival(const Rival&) = delete;
  Rival& operator=(const Rival&) = delete;

  [[nodiscard]] const std::string& why_not() const noexcept { return why_not_; }
  /// ns of one whole job; 0 if it failed.
  [[nodiscard]] double whole(unsigned ranks) const {
    const auto run =
        run_program({mpiexec_, "-n", std::to_string(ranks), folder_ + "/hello"}, kLimitSeconds);
    return run.code == 0 ? static_cast<double>(run.ended_ns - run.started_ns) : 0;
  }

 private:
  std::string folder_, mpiexec_, why_not_;
};

struct Times {
  double first_message = 0, whole = 0;
};

Times start_once(unsigned ranks) {
  const auto run = run_program({program_folder() + "/weftrun", "-n", std::to_string(ranks),
                                "--bind", "none", program_path(), "hello"},
                               kLimitSeconds);
  if (run.code != 0) {
    throw std::runtime_error(fmt::format("weftrun -n {} ended with {}", ranks, run.code));
  }
  const uint64_t first = std::strtoull(run.output.c_str(), nullptr, 10);
  return {static_cast<double>(first - run.started_ns),
          static_cast<double>(run.ended_ns - run.started_ns)};
}

void measure(const Options& options, const Rival& rival, unsigned ranks) {
  std::vector<double> first, whole, theirs, ratios;
  const uint64_t until = base::now_ns() + static_cast<uint64_t>(options.seconds * 1e9);
  for (int turn = 0; turn < 4 || base::now_ns() < until; ++turn) {
    const Times ours = start_once(ranks);
    const double other = rival.why_not().empty() ? rival.whole(ranks) : 0;
    if (turn == 0) continue;
    first.push_back(ours.first_message);
    whole.push_back(ours.whole);
    if (other > 0) {
      theirs.push_back(other);
      ratios.push_back(ours.whole / other);
    }
  }
  Result result = figure("start", fmt::format("first_message_{}", ranks), "ns", Better::lower);
  result.extra["ranks"] = ranks;
  result.value = summarize(first);
  print(result, options.json);
  result.mode = fmt::format("whole_{}", ranks);
  result.value = summarize(whole);
  if (theirs.empty()) {
    result.extra["rival"] = rival.why_not().empty() ? "rival failed" : rival.why_not();
  } else {
    result.limit_name = "mpich_mpiexec";
    result.limit = summarize(theirs);
    result.ratio = summarize(ratios);
  }
  print(result, options.json);
}

}  // namespace

int run_hello(const Options&) {
  Runtime runtime;
  Endpoint endpoint(runtime, {});
  const auto ranks = runtime.size();
  const int rank = runtime.rank().value;
  uint64_t word = 0;
  Synchronizer arrived;
  const Post answer = until_posted(runtime, [&] {
    return endpoint.recv(Rank{(rank + ranks - 1) % ranks}, Tag{0},
                         std::as_writable_bytes(std::span(&word, 1)), &arrived);
  });
  const uint64_t mine = 1000 + static_cast<uint64_t>(rank);
  expect_ok(endpoint.send_wait(Rank{(rank + 1) % ranks}, Tag{0}, std::as_bytes(std::span(&mine, 1)))
                .error,
            "send");
  if (answer == Post::posted) runtime.wait(arrived);
  if (word != 1000 + static_cast<uint64_t>((rank + ranks - 1) % ranks)) return 1;
  runtime.barrier();
  if (rank == 0) fmt::print("{}\n", base::now_ns());
  return 0;
}

int run_start(const Options& options) {
  const Rival rival(options.mpich);
  const std::vector<unsigned> counts =
      options.ranks != 0 ? std::vector<unsigned>{options.ranks} : std::vector<unsigned>{2, 64};
  for (const unsigned ranks : counts) measure(options, rival, ranks);
  return 0;
}

}  // namespace weft::bench
