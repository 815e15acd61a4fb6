// The surroundings of a job on one host: environment, and the folders that it uses.
#include "weftrun/job_environment.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "fabric/job_secret.hpp"
#include "fabric/shm_store.hpp"
#include "weft/base/config.hpp"

namespace weft::run {

void forget_outer_job() {
  std::vector<std::string> names;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view name(*pair, std::strcspn(*pair, "="));
    const bool theirs = name.starts_with("PMIX_") && !name.starts_with("PMIX_MCA_");
    const bool pmi1s = name == "PMI_FD" || name == "PMI_RANK" || name == "PMI_SIZE";
    if (theirs || pmi1s || (name.starts_with("WEFTRUN_") && name != kLaunchAgentVariable))
      names.emplace_back(name);
  }
  for (const std::string& name : names)
    unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): no threads yet
}

std::vector<std::string> environment_for_others() {
  constexpr std::array<std::string_view, 6> kOfThisHost{
      "HOSTNAME=", "SSH_AUTH_SOCK=", "SSH_CLIENT=", "SSH_CONNECTION=", "SSH_TTY=", "WINDOWID="};
  std::vector<std::string> pairs;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view text(*pair);
    if (std::none_of(kOfThisHost.begin(), kOfThisHost.end(),
                     [&](std::string_view name) { return text.starts_with(name); }))
      pairs.emplace_back(text);
  }
  return pairs;
}

void take_environment(const std::vector<std::string>& pairs) {
  clearenv();  // NOLINT(concurrency-mt-unsafe): no threads yet
  for (const std::string& pair : pairs) {
    const std::size_t end = pair.find('=');
    if (end == std::string::npos || end == 0) continue;
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    setenv(pair.substr(0, end).c_str(), pair.c_str() + end + 1, 1);
  }
}

void take_own_temp(const std::vector<std::string>& own) {
  constexpr std::string_view kVariable = "TMPDIR=";
  const auto serves = [](const char* folder) { return ::access(folder, W_OK | X_OK) == 0; };
  const base::Environment theirs = base::environment("TMPDIR");
  if (!theirs.found || serves(theirs.value.c_str())) return;
  // NOLINTBEGIN(concurrency-mt-unsafe): no threads yet
  ::unsetenv("TMPDIR");
  for (const std::string& pair : own) {
    if (!pair.starts_with(kVariable)) continue;
    const char* const folder = pair.c_str() + kVariable.size();
    if (serves(folder)) ::setenv("TMPDIR", folder, 1);
  }
  // NOLINTEND(concurrency-mt-unsafe)
}

std::string server_folder() {
  const base::Environment folder = base::environment("TMPDIR");
  return fmt::format("{}/weftrun-{}", folder.found && !folder.value.empty() ? folder.value : "/tmp",
                     fabric::random_hex(8));
}

std::string segments_folder(const Options& options) {
  constexpr std::string_view kVariable = "WEFT_FABRIC_SHM_DIR=";
  const base::Environment ours = base::environment("WEFT_FABRIC_SHM_DIR");
  std::string folder = ours.found ? ours.value : std::string(fabric::kDefaultShmDir);
  for (const auto* pairs : {&options.env, &options.apps.front().env})
    for (const std::string& pair : *pairs)
      if (pair.starts_with(kVariable)) folder = pair.substr(kVariable.size());
  return folder;
}

}  // namespace weft::run
