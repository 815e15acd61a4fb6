// In place of the ofi transport in builds without it (WEFT_OFI).
#include "fabric/parts.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

std::unique_ptr<Transport> make_ofi_transport(Job& job, const Geometry& geometry) {
  return make_ofi_part(job, geometry, {});
}

std::unique_ptr<Transport> make_ofi_part(Job& /*job*/, const Geometry& /*geometry*/,
                                         std::span<std::byte> /*packets*/) {
  throw Error(Errc::bad_config,
              "this build has no ofi transport: configure with -DWEFT_OFI=ON (needs Debian's "
              "libfabric-dev)");
}

}  // namespace weft::fabric
