// Binding under a made-up topology: remembered per thread, since the system has no such core.
#pragma once

namespace weft::base {

/// The made-up processor that the calling thread said it is bound to; base.faked_core if it said
/// nothing; -1 if that is not set either.
int faked_core() noexcept;

}  // namespace weft::base
