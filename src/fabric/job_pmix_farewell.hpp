// Who left a PMIx job before its fences ended, for launchers whose fences do not wait for all.
#pragma once

#include <pmix.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace weft::fabric {

/// What ranks that leave say to those that stay.
///
/// PRRTE (PMIx 5) ends a fence well for those that are in it as soon as a rank leaves that is not.
/// So whoever leaves publishes, where all can look it up, how many fences it has ended, and whoever
/// ends a fence looks whether somebody left with one fewer: one question each, however many ranks
/// there are. Weftrun, which tells departures itself, and launchers that publish nothing (Slurm's,
/// whose fences do wait) need none of this.
///
/// Owner and lifetime: a member of the session, used while PMIx is initialized. Who may call: any
/// thread. Blocks in PMIx.
/// Invariant: a rank that leaves in order, or aborts, has published before PMIx knows of it. One
/// that crashes has not: there the launcher ends the job, and a fence may end a moment before.
class PmixFarewell {
 public:
  /// `me`: who is speaking.
  explicit PmixFarewell(const pmix_proc_t& me) : me_(me) {}

  /// This rank leaves now, and has ended `fences` fences.
  void leave(uint64_t fences) const noexcept;
  /// A rank that left without coming to the fence that is the `fences`th to end, counted from 1.
  std::optional<int> missing(uint64_t fences);

 private:
  static std::string key_of(const pmix_proc_t& me, uint64_t fences);

  const pmix_proc_t me_;
  // relaxed: a thread that does not see it yet asks once more, in vain.
  std::atomic<bool> silent_{false};  ///< the launcher publishes nothing
};

}  // namespace weft::fabric
