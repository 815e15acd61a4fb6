// How this process was started: the launcher, the job that it joined, and what decided it.
#include <fmt/format.h>
#include <pmix.h>

#include <string>
#include <string_view>
#include <vector>

#include "fabric/launch_signs.hpp"
#include "report.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/job.hpp"

namespace weft::info {
namespace {

using fabric::JoinBy;
using fabric::LaunchSigns;

/// A launcher's version, where it tells one: "prterun (of Open MPI 5.0.11)".
std::string launcher_text(const LaunchSigns& signs) {
  if (signs.launcher.empty()) return "nobody: no launcher's variables are set";
  const base::Environment open_mpi = base::environment("OMPI_VERSION");
  const bool told = open_mpi.found && signs.launcher == "prterun";
  return told ? fmt::format("{} (of Open MPI {})", signs.launcher, open_mpi.value) : signs.launcher;
}

std::string way_text(JoinBy by) {
  switch (by) {
    case JoinBy::pmix: {
      const base::Environment server = base::environment("PMIX_VERSION");
      std::string_view own = PMIx_Get_version();
      own = own.substr(0, own.find(" ("));
      return fmt::format("PMIx (the launcher's {}, here {})",
                         server.found ? server.value : "of unknown version", own);
    }
    case JoinBy::pmi1:
      return "PMI-1, over the launcher's socket";
    case JoinBy::alone:
      break;
  }
  return "nothing: alone";
}

/// "0-3 6": consecutive numbers as a range.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : " ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string nodes_text(const fabric::Job& job) {
  std::vector<std::vector<int>> ranks(static_cast<std::size_t>(job.node_count()));
  for (int r = 0; r < job.size(); ++r)
    ranks.at(static_cast<std::size_t>(job.node_of(Rank{r}))).push_back(r);
  std::string text = std::to_string(job.node_count());
  for (std::size_t node = 0; node < ranks.size(); ++node)
    text += fmt::format("\nnode {}: ranks {}", node,
                        ranks[node].empty() ? "none" : ranges(ranks[node]));
  return text;
}

std::string words(const std::vector<std::string>& all) {
  if (all.empty()) return "no variable of a launcher";
  return fmt::format("{}", fmt::join(all, " "));
}

}  // namespace

Launch about_launch() {
  const LaunchSigns signs = fabric::read_launch_signs(fabric::surroundings());
  Launch launch{{"Launch",
                 {{"started by", launcher_text(signs)},
                  {"joins through", way_text(signs.by)},
                  {"decided by", words(signs.decided)}}},
                true,
                true};
  auto& facts = launch.section.facts;
  try {
    const auto job = fabric::join_job();
    facts.push_back({"provider", std::string(job->provider())});
    facts.push_back({"rank", fmt::format("{} of {}", job->rank().value, job->size())});
    facts.push_back({"nodes", nodes_text(*job)});
    facts.push_back({"job", job->id()});
    launch.speaks = job->rank().value == 0;
  } catch (const Error& error) {
    facts.push_back({"joined", fmt::format("no: {}", error.what())});
    launch.joined = false;
  }
  for (const auto& [variable, why] : signs.unused)
    facts.push_back({"not used", fmt::format("{}: {}", variable, why)});
  if (!signs.warning.empty()) facts.push_back({"warning", signs.warning});
  return launch;
}

}  // namespace weft::info
