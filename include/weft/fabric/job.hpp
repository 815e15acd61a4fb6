// Joining a job: the small contract (rank, size, put, get, fence, abort) and its providers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/types.hpp"

namespace weft::fabric {

/// A job as one of its ranks sees it.
///
/// Lifetime: one per process (the `local` provider: one per rank thread) at a time; another one
/// made after it is of the same job. The process is a member until it exits. Who may call: any
/// thread; `fence` is collective, one call at a time per rank.
class Job {
 public:
  virtual ~Job() = default;
  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] virtual Rank rank() const noexcept = 0;
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// The ranks that share memory with this one, in ascending order, itself included: those of its
  /// node. Where nodes are pretended (tests), all ranks that are really here.
  [[nodiscard]] virtual const std::vector<Rank>& node_ranks() const noexcept = 0;
  /// The number, 0 ≤ n < node_count(), of the node that `rank` runs on.
  [[nodiscard]] virtual int node_of(Rank rank) const noexcept = 0;
  [[nodiscard]] virtual int node_count() const noexcept = 0;
  /// Unique among the jobs of this user at this time; safe in a file name.
  [[nodiscard]] virtual const std::string& id() const noexcept = 0;
  /// A random secret that all ranks of this job share and no other process knows (how far that
  /// holds under launchers other than weftrun: docs/launchers.md).
  [[nodiscard]] virtual const std::string& key() const noexcept = 0;
  /// "pmix", "pmi1", "alone", "local" …
  [[nodiscard]] virtual std::string_view provider() const noexcept = 0;
  /// Which of the job's programs this process runs, in the order in which the launcher was given
  /// them; nothing: it does not tell. May ask the launcher.
  [[nodiscard]] virtual std::optional<int> app_number() { return 0; }

  /// Publishes `value` under this rank's `key`; visible to `get` after the next `fence`, at the
  /// latest. Published again, it takes the place of the earlier one.
  virtual void put(std::string_view key, std::string_view value) = 0;
  /// What `from` published; asked for on first use. Blocks. Throws Error(launcher) if the launcher
  /// is gone, Error(no_such_peer) if it never was published. Of a rank that left there may be
  /// nothing any more, which takes a while to be found out: whoever leaves fences before.
  virtual std::string get(Rank from, std::string_view key) = 0;
  /// Returns when all ranks have called it. Throws Error(peer_died) or Error(launcher) if a rank
  /// or the launcher died meanwhile.
  virtual void fence() = 0;
  /// Ends the whole job with `code` after printing `why`.
  [[noreturn]] virtual void abort(int code, std::string_view why) = 0;

  /// `told(rank, cause)` is called, from a thread of the provider's, once for each rank that the
  /// launcher reports dead; not all do (docs/launchers.md). At most one handler; set it before the
  /// first fence. It must not call this Job. Replaces the handler, if there was one (nullptr: none
  /// any more); returns when the one before is not being called any more.
  virtual void on_peer_death(std::function<void(Rank, std::string)> told) = 0;
};

/// Joins the job that started this process: through PMIx if the environment says so (PMIX_RANK and
/// PMIX_NAMESPACE), else through PMI-1 (PMI_FD, PMI_RANK and PMI_SIZE), else alone, a job of one;
/// where two launchers are inside one another, the inner one. Decided from the environment before
/// any library is called. A launcher that was seen and does not answer is an Error(launcher), never
/// a job of one; one that started several processes and left them no way to each other is warned
/// of.
std::unique_ptr<Job> join_job();

/// `ranks` ranks as threads of this process: element r is rank r's view. All on one node unless
/// `nodes` > 1, which deals the ranks to nodes in blocks. For tests and for ThreadSanitizer.
std::vector<std::unique_ptr<Job>> make_local_job(int ranks, int nodes = 1);

}  // namespace weft::fabric
