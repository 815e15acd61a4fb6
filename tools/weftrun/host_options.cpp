// What a command line says of hosts: read, and dealt the ranks.
#include "weftrun/host_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>

#include "weft/base/config.hpp"
#include "weftrun/classic.hpp"
#include "weftrun/process_table.hpp"

namespace weft::run {
namespace {

/// All names of this host become one.
std::vector<HostSlots> with_own_name(const std::vector<HostSlots>& hosts) {
  std::vector<HostSlots> out;
  const std::string own = this_host();
  for (HostSlots host : hosts) {
    if (is_this_host(host.name)) host.name = own;
    const auto same = std::find_if(out.begin(), out.end(),
                                   [&](const HostSlots& one) { return one.name == host.name; });
    if (same == out.end())
      out.push_back(std::move(host));
    else if (same->slots > 0 || host.slots > 0)
      same->slots = std::max(same->slots, 1) + std::max(host.slots, 1);
  }
  return out;
}

}  // namespace

std::optional<Usage> add_hosts(const std::string& listed, const std::string& host_file, int ranks,
                               HostOptions& hosts) {
  HostList list;
  std::string source;
  if (!host_file.empty()) {
    if (!listed.empty()) return Usage{kUsage, "--hosts and --hostfile: one of them"};
    source = fmt::format("--hostfile {}", host_file);
    std::error_code none;
    if (std::filesystem::is_directory(host_file, none))  // which can be opened, and not read
      return Usage{kUsage, fmt::format("{}: {}", source, error_text(EISDIR))};
    std::ifstream file(host_file, std::ios::binary);
    if (!file.is_open()) return Usage{kUsage, fmt::format("{}: {}", source, error_text(errno))};
    constexpr std::size_t kMost = std::size_t{16} << 20;
    std::string text(kMost + 1, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (file.bad()) return Usage{kUsage, fmt::format("{}: {}", source, error_text(EIO))};
    if (!file.eof()) return Usage{kUsage, fmt::format("{}: more than 16 MiB", source)};
    text.resize(static_cast<std::size_t>(file.gcount()));
    list = parse_host_file(text);
  } else if (!listed.empty()) {
    source = fmt::format("--hosts {}", listed);
    list = parse_host_list(listed);
  }
  if (!list.problem.empty()) return Usage{kUsage, fmt::format("{}: {}", source, list.problem)};
  const bool same =
      !hosts.parts.empty() && (list.value.empty() || list.value == hosts.parts.back().hosts);
  if (same)
    hosts.parts.back().ranks += ranks;
  else
    hosts.parts.push_back({std::move(list.value), ranks});
  return std::nullopt;
}

std::optional<Usage> choose_hosts(const HostOptions& hosts, Options& options) {
  std::vector<NodePart>& nodes = options.nodes;
  for (const HostOptions::Part& part : hosts.parts) {
    std::vector<HostSlots> named = with_own_name(part.hosts);
    if (hosts.each > 0)
      for (HostSlots& host : named) host.slots = hosts.each;
    if (named.empty()) named.push_back({this_host(), 0});
    NodeList dealt = deal(named, part.ranks, hosts.oversubscribe);
    if (!dealt.problem.empty()) return Usage{kUsage, dealt.problem};
    for (NodePart& node : dealt.value) {
      node.first = nodes.empty() ? 0 : nodes.back().first + nodes.back().ranks;
      if (!nodes.empty() && nodes.back().host == node.host) {
        nodes.back().ranks += node.ranks;
        continue;
      }
      if (std::any_of(nodes.begin(), nodes.end(),
                      [&](const NodePart& one) { return one.host == node.host; }))
        return Usage{kUsage, fmt::format("--hosts: the ranks of a host must follow each other, and "
                                         "those of {} would not",
                                         node.host)};
      nodes.push_back(std::move(node));
    }
  }
  if (nodes.size() == 1 && nodes.front().host == this_host()) nodes.clear();
  if (nodes.empty()) return std::nullopt;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].host == this_host()) options.this_node = static_cast<int>(i);
  const base::Environment agent = base::environment(kLaunchAgentVariable);
  std::istringstream words(!hosts.agent.empty()                  ? hosts.agent
                           : agent.found && !agent.value.empty() ? agent.value
                                                                 : "ssh -x -o BatchMode=yes");
  for (std::string word; words >> word;) options.launch_agent.push_back(word);
  if (options.launch_agent.empty()) return Usage{kUsage, "--launch-agent: no command"};
  std::string found;
  if (auto usage = find_program(options.launch_agent.front(), found))
    return Usage{usage->code, fmt::format("launch agent: {}", usage->text)};
  return std::nullopt;
}

}  // namespace weft::run
