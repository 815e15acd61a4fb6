// What happened to a PMIx job, as PMIx's own thread hears it.
#pragma once

#include <pmix.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "weft/base/types.hpp"

namespace weft::fabric {

inline std::string pmix_text(pmix_status_t status) { return PMIx_Error_string(status); }

/// Deaths, departures, and the launcher's end.
///
/// Owner and lifetime: shared by the session, which never ends, and by the callbacks of fences.
/// Who may call: any thread. PMIx's thread writes it down and wakes who waits; it calls `told`
/// with the lock released, and never PMIx, which would deadlock.
/// Invariant: what is known here stays: a dead rank, a departure and a lost launcher are for good.
class PmixNews {
 public:
  using Told = std::function<void(Rank, std::string)>;

  /// Asks PMIx to be told. Throws Error(launcher).
  void subscribe();
  /// From now on `told` (or nobody) is called for each rank that is dead, the earlier ones at once.
  /// Returns when the handler before it is not being called any more.
  void on_death(const Told& told);
  /// Asked, with no lock held, for a rank that will not come to this fence, or has not come.
  using Missing = std::function<std::optional<int>()>;

  /// Runs a fence; returns when it ended well. Throws Error(peer_died) or Error(launcher), at once
  /// if what is known already says that no fence can end. `left` (or nothing) is asked now and then
  /// while it lasts, and once it ended, for a rank that left; `absent`, once PMIx ended it well,
  /// for one that PMIx did not wait for. `collect`: what all ranks committed shall come to each
  /// host's server.
  static void fence(const std::shared_ptr<PmixNews>& news, const Missing& left,
                    const Missing& absent, bool collect);

 private:
  struct FenceWait;
  static void on_fence_end(pmix_status_t status, void* object);
  static void on_event(std::size_t, pmix_status_t status, const pmix_proc_t* source,
                       pmix_info_t info[], std::size_t ninfo, pmix_info_t*, std::size_t,
                       pmix_event_notification_cbfunc_fn_t done, void* done_data);
  void hear(pmix_status_t status, int rank, std::string text);
  [[nodiscard]] bool bad() const noexcept {
    return launcher_lost_ || !dead_.empty() || !left_.empty();
  }
  bool somebody_left(std::unique_lock<std::mutex>& hold, const Missing& left);
  [[noreturn]] void throw_fence_error(std::unique_lock<std::mutex>& hold, pmix_status_t status,
                                      std::optional<int> absent = {});

  std::mutex lock_;  ///< of what follows
  std::condition_variable changed_;
  std::map<int, std::string> dead_;  ///< rank → cause
  std::map<int, std::string> left_;  ///< rank → how: no failure, but no fence can end any more
  bool launcher_lost_ = false;
  Told told_;
  int telling_ = 0;  ///< calls of handlers under way
};

}  // namespace weft::fabric
