// In place of the ofi transport where libfabric was not there at configure time.
#include "weft/base/error.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

std::unique_ptr<Transport> make_ofi_transport(Job& /*job*/, const Geometry& /*geometry*/) {
  throw Error(Errc::bad_config,
              "this build has no ofi transport: pkg-config did not find libfabric when it was "
              "configured (Debian's libfabric-dev)");
}

}  // namespace weft::fabric
