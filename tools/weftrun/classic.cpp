// Command lines as other MPI launchers take them, in the form that our parser takes.
#include "weftrun/classic.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "weftrun/branch.hpp"

namespace weft::run {
namespace {

/// Options that are followed by a value: whatever stands there is no program.
const std::set<std::string_view> kWithValue{"-n",
                                            "-c",
                                            "--ranks",
                                            "--np",
                                            "--n",
                                            "-H",
                                            "--host",
                                            "--hosts",
                                            "-f",
                                            "--hostfile",
                                            "--machinefile",
                                            "-x",
                                            "--env",
                                            "--genv",
                                            "--initial-errhandler",
                                            "--bind",
                                            "--bind-to",
                                            "--map-by",
                                            "--rank-by",
                                            "--wdir",
                                            "--wd",
                                            "-N",
                                            "--ppn",
                                            "--perhost",
                                            "--npernode",
                                            "--report-missing",
                                            "--timeout",
                                            "--on-failure",
                                            "--fake-nodes",
                                            "--launch-agent",
                                            "--launch-degree",
                                            "--launch-timeout",
                                            "--host-timeout"};

/// Long names that other launchers write with one dash, too.
const std::set<std::string_view> kOneDash{
    "-np",     "-host",    "-hosts",   "-hostfile", "-machinefile",   "-env",
    "-genv",   "-bind-to", "-map-by",  "-rank-by",  "-oversubscribe", "-initial-errhandler",
    "-wdir",   "-wd",      "-ppn",     "-perhost",  "-npernode",      "-prepend-rank",
    "-envall", "-genvall", "-verbose", "-quiet",    "-timeout",       "-version",
    "-help"};

/// Settings of other launchers' own parts, and how many words follow each.
const std::map<std::string_view, int> kOfOthers{
    {"--mca", 2},     {"-mca", 2},      {"--gmca", 2},   {"-gmca", 2},          {"--prtemca", 2},
    {"--pmixmca", 2}, {"-genvlist", 1}, {"-envlist", 1}, {"-iface", 1},         {"-rmk", 1},
    {"--display", 1}, {"--output", 1},  {"--prefix", 1}, {"-print-rank-map", 0}};

/// A long name that nobody knows, and not a letter that is an option with its value behind it (-n4)
/// or several in one word.
bool is_no_short_one(std::string_view word) {
  constexpr std::string_view kNumbers = "ncN", kTexts = "xfH", kFlags = "lqvh";
  if (word.size() < 3 || word[1] == '-') return false;
  word.remove_prefix(std::min(word.find_first_not_of(kFlags, 1), word.size()));
  if (word.empty() || kTexts.find(word[0]) != std::string_view::npos) return false;
  const bool is_number = kNumbers.find(word[0]) != std::string_view::npos &&
                         (word.size() == 1 || (word[1] >= '0' && word[1] <= '9'));
  return !is_number;
}

}  // namespace

std::vector<std::vector<std::string>> split_programs(int argc, const char* const* argv) {
  std::vector<std::vector<std::string>> sections(1);
  bool verbatim = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    verbatim = verbatim || word == "--";
    if (word == ":" && !verbatim)
      sections.emplace_back();
    else
      sections.back().emplace_back(word);
  }
  return sections;
}

std::vector<std::string> with_two_dashes(const std::vector<std::string>& words,
                                         std::vector<std::string>& notes) {
  std::vector<std::string> out;
  auto word = words.begin();
  while (word != words.end() && word->starts_with('-') && *word != "--") {
    std::string name = *word++;
    const std::size_t equals = name.find('=');  // then its value is there
    if (const auto other = kOfOthers.find(std::string_view(name).substr(0, equals));
        other != kOfOthers.end()) {
      for (int left = other->second - (equals == std::string::npos ? 0 : 1);
           left > 0 && word != words.end(); --left)
        name += " " + *word++;
      notes.push_back(name + ": another launcher's, left out");
      continue;
    }
    if (kOneDash.contains(name) || is_no_short_one(name)) name.insert(name.begin(), '-');
    const bool pair = (name == "--env" || name == "--genv") && words.end() - word >= 2 &&
                      (word - 1)->starts_with("-") && !(word - 1)->starts_with("--");
    out.push_back(name);
    if (pair) {
      out.push_back(*word + "=" + *std::next(word));
      word += 2;
    } else if (kWithValue.contains(name) && word != words.end()) {
      out.push_back(*word++);
    }
  }
  out.insert(out.end(), word, words.end());
  return out;
}

std::string this_host() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

bool is_this_host(std::string_view name) {
  const std::string own = this_host();
  if (name == "localhost" || name == own || name == std::string_view(own).substr(0, own.find('.')))
    return true;
  static const std::vector<std::string> addresses = own_addresses();  // there may be many to ask of
  return std::find(addresses.begin(), addresses.end(), name) != addresses.end();
}

}  // namespace weft::run
