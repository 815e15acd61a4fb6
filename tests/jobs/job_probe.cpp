// A rank for the launcher's tests: uses the joining contract and nothing else of weft.
//
//   job_probe info            prints rank, size, node and provider
//   job_probe exchange        puts, fences, gets; checks every value that it gets
//   job_probe overlap         asks for values while another of its threads is in a fence
//   job_probe start           joins, fences, leaves
//   job_probe abort RANK CODE that rank aborts the job, the others wait in a fence
//   job_probe survive RANK    that rank kills itself; the others print what they are told
//   job_probe absent RANK     that rank leaves at once; the others' fence must fail
//   job_probe fork            each rank forks a child that ends the Job object it inherited
//   job_probe again           makes a Job again and again
//   job_probe fail            each rank, at a time of its own, prints a line and fails
//   job_probe desert RANK     that rank fails in order; the others wait in a fence
//   job_probe late RANK       joins, fences; RANK never comes to the next fence, but stays
//   job_probe reach           opens the transport over shared memory: it reaches this node's ranks
//   only job_probe idle            joins, fences, prints its resident memory
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/error.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace {

using weft::Errc;
using weft::Error;
using weft::Rank;
using weft::fabric::Job;

using Arguments = std::vector<std::string>;

/// Prints a line with one write, so that tests of whole lines test weftrun and not stdio.
void print(const std::string& text) {
  const std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) throw std::runtime_error("no output");
}

void require(bool condition, std::string_view what) {
  if (!condition) throw std::runtime_error(std::string(what));
}

Rank rank_argument(const Arguments& arguments, std::size_t index) {
  require(arguments.size() > index, "a rank is missing");
  return Rank{std::stoi(arguments[index])};
}

std::string value_of(int rank, int round) {
  std::string value = fmt::format("{}/{}", rank, round);
  value.push_back('\0');
  value.push_back('\xff');
  value.append(static_cast<std::size_t>(rank % 7) * 100, 'x');
  return value;
}

/// Larger than any launcher's messages, of every byte.
std::string large_value_of(int rank) {
  std::string value;
  for (int i = 0; i < 20'000; ++i) value.push_back(static_cast<char>((i * 7 + rank) % 256));
  return value;
}

int info(Job& job, const Arguments&) {
  std::string near;
  for (const Rank rank : job.node_ranks()) near += fmt::format(" {}", rank.value);
  print(fmt::format("rank {} of {} node {} of {} by {} near{} id {} key {}", job.rank().value,
                    job.size(), job.node_of(job.rank()), job.node_count(), job.provider(), near,
                    job.id(), job.key().size()));
  return 0;
}

int exchange(Job& job, const Arguments&) {
  const int mine = job.rank().value;
  job.put("first", value_of(mine, 1));
  job.put("empty", "");
  job.put("large", large_value_of(mine));
  job.fence();
  for (int peer = 0; peer < job.size(); ++peer)
    require(job.get(Rank{peer}, "first") == value_of(peer, 1), "a wrong value");
  require(job.get(Rank{(mine + 1) % job.size()}, "empty").empty(), "an empty value is not");
  const Rank next_one{(mine + 1) % job.size()};
  require(job.get(next_one, "large") == large_value_of(next_one.value), "a wrong large value");
  // A key that a peer published after this rank had first asked it for something.
  job.put("second", value_of(mine, 2));
  job.fence();
  const int next = (mine + 1) % job.size();
  require(job.get(Rank{next}, "second") == value_of(next, 2), "a wrong second value");
  require(job.get(Rank{next}, "first") == value_of(next, 1), "the first value changed");
  // A key published again, once all have read the one before.
  job.fence();
  job.put("second", value_of(mine, 3));
  job.fence();
  require(job.get(Rank{next}, "second") == value_of(next, 3), "an old value");
  require(job.get(Rank{next}, "first") == value_of(next, 1), "the first value changed later");
  for (const Rank unknown : {Rank{-1}, Rank{job.size()}}) {
    try {
      job.get(unknown, "first");
      require(false, "a rank outside the job answered");
    } catch (const Error& error) {
      require(error.code() == Errc::no_such_peer, error.what());
    }
  }
  try {
    job.get(Rank{next}, "never");
    require(false, "a value that was never put came");
  } catch (const Error& error) {
    require(error.code() == Errc::no_such_peer, error.what());
  }
  job.fence();  // who left may answer no more
  print("good");
  return 0;
}

int overlap(Job& job, const Arguments&) {
  job.fence();
  std::atomic<bool> over{false};
  std::jthread other([&] {
    job.fence();
    over = true;
  });
  int asked = 0;
  for (; !over || asked == 0; ++asked) {
    try {
      job.get(Rank{(job.rank().value + 1) % job.size()}, "never");
    } catch (const Error& error) {
      require(error.code() == Errc::no_such_peer, error.what());
    }
  }
  // Who had left could not be asked any more, for which some launchers wait.
  other.join();
  job.fence();
  print("good");
  return 0;
}

int start(Job& job, const Arguments&) {
  job.fence();
  return 0;
}

int abort_job(Job& job, const Arguments& arguments) {
  job.fence();
  if (job.rank() == rank_argument(arguments, 0)) job.abort(std::stoi(arguments.at(1)), "no hope");
  job.fence();
  print("a fence ended without all ranks");
  return 0;
}

int survive(Job& job, const Arguments& arguments) {
  const Rank victim = rank_argument(arguments, 0);
  auto told = std::make_shared<std::promise<std::string>>();
  job.on_peer_death([told, victim](Rank who, const std::string& cause) {
    told->set_value(fmt::format("{} {}", who == victim ? "victim" : "somebody", cause));
  });
  job.fence();
  if (job.rank() == victim) raise(SIGKILL);
  std::string fence_says = "ended";
  try {
    job.fence();
  } catch (const Error& error) {
    fence_says = fmt::format("{}: {}", weft::to_string(error.code()), error.what());
  }
  // Every later fence fails, too.
  try {
    job.fence();
    fence_says = "a later one ended";
  } catch (const Error& error) {
    require(error.code() == Errc::peer_died, error.what());
  }
  print(fmt::format("told: {}; {}", told->get_future().get(), fence_says));
  return 0;
}

int absent(Job& job, const Arguments& arguments) {
  job.fence();
  if (job.rank() == rank_argument(arguments, 0)) return 0;
  try {
    job.fence();
    print("a fence ended without all ranks");
  } catch (const Error& error) {
    print(fmt::format("{}: {}", weft::to_string(error.code()), error.what()));
  }
  return 0;
}

int fork_child(Job& job, const Arguments&) {
  job.put("first", value_of(job.rank().value, 1));
  const pid_t child = fork();
  if (child == 0) {
    try {
      job.fence();
      _exit(2);
    } catch (const Error&) {
    }
    // The caller's unique_ptr is static: the Job ends here.
    std::exit(0);  // NOLINT(concurrency-mt-unsafe): a forked child has one thread
  }
  int status = -1;
  waitpid(child, &status, 0);
  require(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child did not end well");
  job.fence();
  const int next = (job.rank().value + 1) % job.size();
  require(job.get(Rank{next}, "first") == value_of(next, 1), "a wrong value after the fork");
  print("good");
  return 0;
}

int again(Job&, const Arguments&) {
  for (int round = 0; round < 3; ++round) {
    const std::unique_ptr<Job> job = weft::fabric::join_job();
    const Rank next{(job->rank().value + 1) % job->size()};
    job->on_peer_death([](Rank, const std::string&) {});
    job->put("again", value_of(job->rank().value, round));
    job->fence();
    require(job->get(next, "again") == value_of(next.value, round), "a value of an earlier Job");
    job->fence();
  }
  print("good");
  return 0;
}

int fail(Job& job, const Arguments&) {
  job.fence();
  std::this_thread::sleep_for(std::chrono::milliseconds(50) * job.rank().value);
  print(fmt::format("rank {} fails", job.rank().value));
  return 9;
}

int desert(Job& job, const Arguments& arguments) {
  job.fence();
  if (job.rank() == rank_argument(arguments, 0)) return 9;
  for (;;) {
    try {
      job.fence();
    } catch (const Error&) {
      pause();
    }
  }
}

int late(Job& job, const Arguments& arguments) {
  job.fence();
  print("waits");
  if (job.rank() == rank_argument(arguments, 0)) pause();
  job.fence();
  return 0;
}

int reach(Job& job, const Arguments&) {
  const auto shared = weft::fabric::make_shm_transport(job, weft::fabric::default_geometry(1));
  for (int peer = 0; peer < job.size(); ++peer)
    require(shared->reaches(Rank{peer}) == (job.node_of(Rank{peer}) == job.node_of(job.rank())),
            "shared memory leads to another host, or does not lead to this one");
  print("good");
  return 0;
}

int idle(Job& job, const Arguments&) {
  job.fence();
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) print(line);
  job.fence();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, int (*)(Job&, const Arguments&)> modes{
      {"info", info},       {"exchange", exchange}, {"overlap", overlap}, {"start", start},
      {"abort", abort_job}, {"survive", survive},   {"absent", absent},   {"fork", fork_child},
      {"again", again},     {"fail", fail},         {"desert", desert},   {"idle", idle},
      {"reach", reach},     {"late", late}};
  try {
    require(argc > 1 && modes.contains(argv[1]), "an unknown mode");
    static std::unique_ptr<Job> job = weft::fabric::join_job();
    const int code = modes.at(argv[1])(*job, Arguments(argv + 2, argv + argc));
    job.reset();
    return code;
  } catch (const std::exception& error) {
    fmt::print(stderr, "job_probe: {}\n", error.what());
    return 1;
  }
}
