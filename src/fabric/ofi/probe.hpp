// Asks whether anybody still listens at a peer's address.
//
// Purpose: tcp's providers take a refused connection for one that is not there yet, and try for
// ever. A plain connection to the same address tells the difference.
// Owner and lifetime: part of a Channel; used under its engine's lock.
// Progress: two or three system calls a look, none of which waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "fabric/doorbell.hpp"

namespace weft::fabric::ofi {

class ConnectProbe {
 public:
  /// True if the address, which is TCP's, has refused kSure connections, one after the other: a
  /// firewall that is told anew refuses for a moment what it lets pass again. Never true of what is
  /// silent. At most one knock in kEveryNs.
  [[nodiscard]] bool is_refused(std::span<const std::byte> address, uint64_t now_ns) noexcept;
  void forget() noexcept {
    knock_.reset();
    refused_ = 0;
  }

 private:
  static constexpr uint64_t kEveryNs = 200'000'000;
  static constexpr int kSure = 3;
  Descriptor knock_;  ///< a connection under way
  uint64_t next_ns_ = 0;
  int refused_ = 0;  ///< in a row
};

}  // namespace weft::fabric::ofi
