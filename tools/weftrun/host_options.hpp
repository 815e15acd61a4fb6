// What a command line says of hosts: read, and dealt the ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weftrun/hosts.hpp"
#include "weftrun/options.hpp"

namespace weft::run {

/// What the command line says of hosts. Programs after the first run on the same hosts, if nothing
/// is said of theirs.
struct HostOptions {
  struct Part {
    std::vector<HostSlots> hosts;
    int ranks = 0;
  };
  std::vector<Part> parts;
  int each = 0;  ///< ranks of each host; 0: as the hosts say
  bool oversubscribe = false;
  std::string agent;
};

/// Adds what one program, of so many ranks, said: a list of hosts or a file of them, or neither.
std::optional<Usage> add_hosts(const std::string& list, const std::string& file, int ranks,
                               HostOptions& hosts);

/// Deals the ranks to nodes, and settles how other hosts are reached, if there are any.
std::optional<Usage> choose_hosts(const HostOptions& hosts, Options& options);

}  // namespace weft::run
