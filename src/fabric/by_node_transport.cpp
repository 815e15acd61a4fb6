#include "fabric/by_node_transport.hpp"

#include <algorithm>

#include "fabric/by_node_port.hpp"
#include "fabric/parts.hpp"
#include "weft/fabric/job.hpp"

namespace weft::fabric {

ByNodeTransport::ByNodeTransport(int ranks, std::span<const Rank> near_ranks,
                                 std::unique_ptr<Transport> near, std::unique_ptr<Transport> far)
    : is_near_(static_cast<std::size_t>(ranks), 0), near_(std::move(near)), far_(std::move(far)) {
  for (const Rank rank : near_ranks) is_near_.at(static_cast<std::size_t>(rank.value)) = 1;
}

std::unique_ptr<Port> ByNodeTransport::open_port(uint32_t number) {
  auto near = near_->open_port(number);
  return std::make_unique<ByNodePort>(is_near_.data(), std::move(near), far_->open_port(number));
}

std::vector<Rank> near_ranks(const Job& job) {
  std::vector<Rank> near = job.node_ranks();
  std::erase_if(near, [&](Rank rank) { return job.node_of(rank) != job.node_of(job.rank()); });
  return near;
}

std::unique_ptr<Transport> make_by_node_transport(Job& job, const Geometry& geometry) {
  const std::vector<Rank> ranks = near_ranks(job);
  // Who has no neighbours, or has them in one process, needs no segments.
  const bool in_process = ranks.size() == 1 || job.provider() == "local";
  std::unique_ptr<Transport> made =
      in_process ? make_local_part(job, geometry, ranks) : make_shm_part(job, geometry, ranks);
  if (static_cast<int>(ranks.size()) != job.size()) {
    auto far = make_ofi_part(job, geometry, made->packet_area());
    made = std::make_unique<ByNodeTransport>(job.size(), ranks, std::move(made), std::move(far));
  }
  job.fence();
  return made;
}

static_assert(TransportProvider<decltype(&make_by_node_transport)>);

}  // namespace weft::fabric
