// Which transport a job gets.
#include "fabric/parts.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

namespace {

bool has_all(const std::vector<Rank>& ranks, const Job& job) {
  return static_cast<int>(ranks.size()) == job.size();
}

}  // namespace

TransportChoice choose_transport(JobShape shape) {
  register_fabric_config();
  const std::string wanted = base::config_text("fabric.transport");
  if (wanted == "ofi") return TransportChoice::ofi;
  if (wanted == "shm") return TransportChoice::shm;
  const bool all_inside = wanted == "by_node" ? shape.one_node : shape.shares_memory;
  if (!all_inside) return TransportChoice::by_node;
  return shape.in_process ? TransportChoice::local : TransportChoice::shm;
}

TransportChoice choose_transport(const Job& job) {
  return choose_transport({.in_process = job.provider() == "local" || job.provider() == "alone",
                           .shares_memory = has_all(job.node_ranks(), job),
                           .one_node = has_all(near_ranks(job), job)});
}

std::unique_ptr<Transport> make_transport(Job& job, const Geometry& geometry) {
  switch (choose_transport(job)) {
    case TransportChoice::local:
      return make_local_transport(job, geometry);
    case TransportChoice::shm:
      return make_shm_transport(job, geometry);
    case TransportChoice::by_node:
      return make_by_node_transport(job, geometry);
    case TransportChoice::ofi:
      break;
  }
  return make_ofi_transport(job, geometry);
}

static_assert(TransportProvider<decltype(&make_transport)>);

}  // namespace weft::fabric
