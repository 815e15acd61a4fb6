// Which transports there are here, and why one is not used: each is made for a job of one.
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "fabric/launch_signs.hpp"
#include "fabric/parts.hpp"
#include "report.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::info {
namespace {

/// What came of an attempt, which answers what is there.
template <class Attempt>
std::string outcome_of(Attempt attempt) {
  try {
    return fmt::format("yes: {}", attempt());
  } catch (const Error& error) {
    return fmt::format("no: {} ({})", error.what(), to_string(error.code()));
  }
}

template <fabric::TransportProvider Provider>
std::string try_to_make(Provider make, const char* use) {
  return outcome_of([&] {
    const auto job = fabric::make_local_job(1);
    const auto made = make(*job.front(), fabric::default_geometry());
    return use;
  });
}

std::string_view name_of(fabric::TransportChoice choice) {
  switch (choice) {
    case fabric::TransportChoice::local:
      return "local";
    case fabric::TransportChoice::shm:
      return "shm";
    case fabric::TransportChoice::by_node:
      return "by_node (shm within nodes, ofi between them)";
    case fabric::TransportChoice::ofi:
      break;
  }
  return "ofi";
}

/// What a job would use that was started as this program was, on one node or several.
std::string used(bool several_nodes) {
  return std::string(name_of(fabric::choose_transport(fabric::JobShape{
      .in_process = false, .shares_memory = !several_nodes, .one_node = !several_nodes})));
}

std::string launcher() {
  const auto signs = fabric::read_launch_signs(fabric::surroundings());
  if (signs.by == fabric::JoinBy::alone) return "none: a program started like this is a job of one";
  return signs.launcher + "; weft-info --launch says more";
}

}  // namespace

Section about_transports() {
  return {"Transports",
          {{"launcher", launcher()},
           {"self", try_to_make(fabric::make_local_transport, "a rank to itself")},
           {"local", try_to_make(fabric::make_local_transport, "ranks as threads, for tests")},
           {"shm", try_to_make(fabric::make_shm_transport, "the ranks of one node")},
           {"ofi", try_to_make(fabric::make_ofi_transport, "all ranks, over libfabric")},
           // Where loopback does not count.
           {"ofi between nodes", outcome_of([] { return fabric::ofi_choice(false); })},
           {"used on one node", used(false)},
           {"used on several", used(true)}}};
}

}  // namespace weft::info
