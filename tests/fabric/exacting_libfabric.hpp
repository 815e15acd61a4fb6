// An interceptor below the ofi transport: a provider that must be told of all memory that it works
// on (FI_MR_LOCAL), bound to the endpoint that does (FI_MR_ENDPOINT), as those of many networks
// must be and TCP's need not.
//
// Purpose: it looks at each operation. Where it was not told of the memory, or not for that use, or
// where memory is taken back while a read into it is under way, it says so and ends the process.
// Owner and lifetime: the process's.
// Who may call: install before any transport is made; a process that is forked has it, too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::fabric::test {

class ExactingLibfabric {
 public:
  /// Providers are exacting from now on.
  static void install();
  /// They take no more memory at once than this, as if it had to be locked.
  static void lock_at_most(std::size_t bytes);
  /// Pieces of memory that they were told of and that were not taken back.
  [[nodiscard]] static std::size_t entries();
  /// Operations that were looked at, in this process and those forked since `install`.
  [[nodiscard]] static uint64_t looked_at();
};

}  // namespace weft::fabric::test
