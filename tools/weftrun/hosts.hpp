// Which hosts a job runs on: lists and files of hosts as users write them, and the ranks' deal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::run {

/// A host that the user named, and how many ranks it takes; 0 where nothing was said of that.
struct HostSlots {
  std::string name;
  int slots = 0;

  bool operator==(const HostSlots&) const = default;
};

/// A node of the job: a host and its ranks, which are consecutive.
struct NodePart {
  std::string host;
  int first = 0;
  int ranks = 0;
};

/// What came of reading or dealing: `problem` is empty, or says why there is no result.
template <typename T>
struct OrProblem {
  T value;
  std::string problem;
};
using HostList = OrProblem<std::vector<HostSlots>>;
using NodeList = OrProblem<std::vector<NodePart>>;

/// "a,b:2,[fd00::1]:2". A host named again gets the slots of both.
HostList parse_host_list(std::string_view text);

/// Lines of "host", "host slots=N" or "host:N"; `#` begins a comment.
HostList parse_host_file(std::string_view text);

/// Deals `ranks` to the hosts, in their order and in blocks: each gets as many as it has slots,
/// where slots were given (a host without gets one then), else all get the same, the first ones one
/// more. Hosts that get none are left out. `oversubscribe`: what the slots do not take is dealt the
/// second way on top.
NodeList deal(const std::vector<HostSlots>& hosts, int ranks, bool oversubscribe);

}  // namespace weft::run
