// How a rank copies into packets: through the caches, or past them to receivers that are far.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "comm/copy_trial.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/types.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::comm {

/// comm.nontemporal
enum class Nontemporal : uint8_t { automatic, always, never };

/// A rank's way of copying to each receiver of its node: what its threads have found out. Any
/// thread; none waits for another. A way that is just changing costs time, nothing else.
class CopyWays {
 public:
  CopyWays(const fabric::Transport& transport, int ranks, Nontemporal choice);
  /// Copies into a packet for `to`, or into memory of its own. As visible as by other stores when
  /// it returns.
  void copy(Rank to, std::byte* into, const std::byte* from, std::size_t bytes) noexcept {
    if (bytes < base::kLongCopyBytes || bytes >= kTooLong || words_ == nullptr) {
      base::copy_bytes(into, from, bytes);
    } else {
      copy_long(to, into, from, bytes);
    }
  }

 private:
  /// Shorter ones are not timed, but go as the others do.
  static constexpr std::size_t kTriedBytes = 8 << 10;
  /// More than a core's caches hold: the C library's way, which may go past them itself.
  static constexpr std::size_t kTooLong = std::size_t{1} << 20;
  void copy_long(Rank to, std::byte* into, const std::byte* from, std::size_t bytes) noexcept;

  std::unique_ptr<std::atomic<uint8_t>[]> words_;  ///< CopyHabits, by rank; none: all are cached
};

}  // namespace weft::comm
