// libfabric itself, loaded by the first who needs it.
//
// It is not linked: loading it loads what it stands on, and some of that does much before `main`.
// Debian's brings two libraries for old network cards that measure the clock for a tenth of a
// second each and put handlers of their own on six signals. A process that talks within its node
// has nothing to do with any of it.
#pragma once

#include <rdma/fabric.h>

namespace weft::fabric::ofi {

/// The functions of libfabric that are not inline, of the versions that this build's headers mean.
struct Libfabric {
  decltype(&::fi_getinfo) getinfo;
  decltype(&::fi_freeinfo) freeinfo;
  decltype(&::fi_dupinfo) dupinfo;
  decltype(&::fi_fabric) fabric;
  decltype(&::fi_strerror) strerror;
};

/// Loads it, once for the process; it stays. What the program had set for its signals and the
/// calling thread's processors is as before afterwards. Thread-safe; takes 0.2 s the first time
/// with Debian's. Throws Error(bad_config): it is not installed, or is not the one that weft was
/// built with; the next call tries again.
const Libfabric& libfabric();

/// For tests, which put themselves between weft and libfabric: these are libfabric() from now on.
/// Not while anybody uses it.
void replace_libfabric(const Libfabric& functions);

}  // namespace weft::fabric::ofi
