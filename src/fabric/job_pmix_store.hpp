// What ranks publish and ask for, over PMIx_Put and PMIx_Get.
#pragma once

#include <pmix.h>

#include <condition_variable>
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
/// this process. (3) With `indexed`, each rank publishes an index before each fence, in which the
/// newest publication of each key stands: for what a rank of another host did not publish, PRRTE
/// waits, so nobody asks for that.
class PmixStore {
 public:
  /// `near`: the ranks of this host, ascending. `indexed`: ranks of other hosts are asked by their
  /// indexes; the same on all ranks. `cards`: what ranks of this host publish is also there; may be
  /// nullptr.
  PmixStore(const pmix_proc_t& me, int size, std::vector<int> near, bool indexed,
            std::unique_ptr<NodeCards> cards)
      : me_(me), size_(size), near_(std::move(near)), indexed_(indexed), cards_(std::move(cards)) {}

  void put(std::string_view key, std::string_view value);
  std::string get(Rank from, std::string_view key);
  /// Hands over to the server what was put; before each fence.
  void commit();
  /// A rank of this host that has not come to the fence under way, as far as can be known.
  [[nodiscard]] std::optional<int> absent() const;
  /// After each fence.
  void end_fence(bool well);

 private:
  /// Who is asked last: what is in this process, the server of this host, or that of the owner's.
  enum class Asked { process, server, owner };
  struct Index {
    uint64_t fence = 0;
    std::string text;
  };

  static std::string full_key(std::string_view key, int generation);
  static std::string index_key(uint64_t fence);
  void put_value(const std::string& full, std::string_view value);
  std::optional<std::string> fetch(Rank from, const std::string& full, Asked whom) const;
  std::optional<std::string> fetch_far(Rank from, const std::string& full) const;
  std::string get_by_index(Rank from, std::string_view key);
  [[nodiscard]] std::string index() const;
  [[nodiscard]] bool is_near(Rank rank) const;
  [[nodiscard]] std::optional<std::string> on_card(Rank from, std::string_view key) const;

  const pmix_proc_t me_;
  const int size_;
  const std::vector<int> near_;
  const bool indexed_;
  const std::unique_ptr<NodeCards> cards_;       ///< written under the lock
  std::mutex lock_;                              ///< of what follows
  std::map<std::string, int, std::less<>> put_;  ///< key → how often this rank published it
  bool put_since_commit_ = false;
  bool in_fence_ = false;  ///< since `commit`, until `end_fence`
  std::condition_variable fence_ended_;
  uint64_t fences_ = 0;
  std::map<int, uint64_t> fetched_at_;  ///< rank → `fences_` when all of its values came here
  std::map<int, Index> indexes_;        ///< rank → its last one that came here
};

}  // namespace weft::fabric
