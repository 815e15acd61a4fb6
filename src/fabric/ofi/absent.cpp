// In place of the ofi transport in builds without it (WEFT_OFI).
#include "fabric/parts.hpp"
#include "weft/base/error.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

std::unique_ptr<Transport> make_ofi_transport(Job& job, const Geometry& geometry) {
  return make_ofi_part(job, geometry, {});
}

namespace {
[[noreturn]] void refuse() {
  throw Error(Errc::bad_config,
              "this build has no ofi transport: configure with -DWEFT_OFI=ON (needs Debian's "
              "libfabric-dev)");
}
}  // namespace

std::unique_ptr<Transport> make_ofi_part(Job& /*job*/, const Geometry& /*geometry*/,
                                         std::span<std::byte> /*packets*/) {
  refuse();
}

std::string ofi_choice(bool /*one_node*/) { refuse(); }

}  // namespace weft::fabric
