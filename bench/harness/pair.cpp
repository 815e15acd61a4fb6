#include "harness/pair.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "fabric/launch_signs.hpp"
#include "weft/base/error.hpp"

namespace weft::bench {
namespace {

int first_core() noexcept {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return -1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) return core;
  }
  return -1;
}

}  // namespace

Pair::Pair() : job_(fabric::join_job()), yard_(std::make_unique<Yard>(*job_)), core_(first_core()) {
  peer_core_ = static_cast<int>(static_cast<int64_t>(yard_->trade(static_cast<uint64_t>(core_))));
  peer_pid_ = static_cast<int>(yard_->trade(static_cast<uint64_t>(getpid())));
  if (leads() && !bound_apart()) {
    fmt::print(stderr,
               "weft-bench: the ranks have no cores of their own (weftrun --bind core, or share); "
               "latencies will read far too long\n");
  }
}

bool started_by_launcher() {
  return fabric::read_launch_signs(fabric::surroundings()).by != fabric::JoinBy::alone;
}

std::string program_path() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  if (length < 0) throw std::runtime_error("cannot read /proc/self/exe");
  return {path, static_cast<std::size_t>(length)};
}

std::string program_folder() {
  const std::string path = program_path();
  return path.substr(0, path.rfind('/'));
}

void start_under_weftrun(int ranks, Bound bound, char** arguments) {
  std::vector<std::string> words{
      program_folder() + "/weftrun",           "-n",          std::to_string(ranks), "--bind",
      bound == Bound::core ? "core" : "share", program_path()};
  for (char** word = arguments + 1; *word != nullptr; ++word) words.emplace_back(*word);
  std::vector<char*> raw;
  raw.reserve(words.size() + 1);
  for (auto& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  execv(raw[0], raw.data());
  fmt::print(stderr, "weft-bench: cannot start {}: {}\n", words[0], std::strerror(errno));
}

}  // namespace weft::bench
