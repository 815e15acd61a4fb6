// What ranks publish and ask for, over PMIx_Put and PMIx_Get.
#pragma once

#include <pmix.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/node_cards.hpp"
#include "weft/base/error.hpp"
#include "weft/base/types.hpp"

namespace weft::fabric {

/// Releases what PMIx_Get returned.
struct PmixRelease {
  void operator()(pmix_value_t* value) const noexcept { PMIX_VALUE_RELEASE(value); }
};
using PmixValue = std::unique_ptr<pmix_value_t, PmixRelease>;

/// The published values of a PMIx job, as one rank sees them.
///
/// Owner and lifetime: a member of the Job, used while PMIx is initialized.
/// Who may call: any thread. Blocks in PMIx, without the lock.
/// Invariants: (1) the n-th publication of a key has a PMIx key of its own, because PMIx keeps
/// what it fetched of a rank, all of it at a time, and never looks again; the newest counts.
/// (2) `fetched_at_[r] == fences_` means that all that r published before the last fence is in
/// this process.
class PmixStore {
 public:
  /// `near`: the ranks of this host, ascending. `says_no`: the launcher answers at once what a rank
  /// of another host did not publish, too. `cards`: what ranks of this host publish is also there;
  /// may be nullptr.
  PmixStore(const pmix_proc_t& me, int size, std::vector<int> near, bool says_no,
            std::unique_ptr<NodeCards> cards)
      : me_(me), size_(size), near_(std::move(near)), says_no_(says_no), cards_(std::move(cards)) {}

  void put(std::string_view key, std::string_view value);
  std::string get(Rank from, std::string_view key);
  /// Hands over to the server what was put; before each fence.
  void commit();
  /// After each fence that ended well.
  void count_fence();

 private:
  static std::string full_key(std::string_view key, int generation);
  std::optional<std::string> fetch(Rank from, const std::string& full, bool here) const;
  [[nodiscard]] bool is_near(Rank rank) const;
  [[nodiscard]] std::optional<std::string> on_card(Rank from, std::string_view key) const;

  const pmix_proc_t me_;
  const int size_;
  const std::vector<int> near_;
  const bool says_no_;
  const std::unique_ptr<NodeCards> cards_;       ///< written under the lock
  std::mutex lock_;                              ///< of what follows
  std::map<std::string, int, std::less<>> put_;  ///< key → how often this rank published it
  bool put_since_commit_ = false;
  uint64_t fences_ = 0;
  std::map<int, uint64_t> fetched_at_;  ///< rank → `fences_` when all of its values came here
};

}  // namespace weft::fabric
