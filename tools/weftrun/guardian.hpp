// The guardian: the small process between weftrun and the ranks that starts them, reports how
// they ended, and outlives weftrun by just long enough to leave nothing behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weftrun/options.hpp"
#include "weftrun/placement.hpp"
#include "weftrun/spawn.hpp"

namespace weft::run {

/// What guardian and weftrun say to each other: one packet of a SOCK_SEQPACKET pair each.
struct GuardWord {
  enum Kind : int32_t {
    start,         ///< to the guardian: start the ranks; the environment's additions follow, each
                   ///< ended by a zero byte
    signal,        ///< to the guardian: send signal `value` to process groups of all ranks
    sweep,         ///< to the guardian: kill whatever is left of the job, then answer `swept`
    started,       ///< from it: `rank` runs as process `value`
    start_failed,  ///< from it: `rank` could not be started: errno `value`; the step follows
    all_started,   ///< from it: every rank was started
    ended,         ///< from it: `rank` ended with wait(2) status `value`
    swept,         ///< from it: no process of the job is left
  };
  int32_t kind = 0;
  int32_t rank = 0;
  int32_t value = 0;
};

/// What the guardian must know before weftrun becomes many threads.
struct GuardPlan {
  const Options* options = nullptr;
  const Placement* placement = nullptr;
  int first_rank = 0;  ///< the ranks of this host
  int ranks = 0;
  std::string temp_dir;        ///< removed when weftrun is gone
  std::string shm_dir;         ///< the ranks' folder of named segments: swept after them
  Fd in;                       ///< rank 0's standard input; the others get /dev/null
  std::vector<Fd> out, err;    ///< writing ends, a pair for each rank of this host
  std::vector<int> not_yours;  ///< descriptors that the guardian closes: weftrun's own
  sigset_t signal_mask{};      ///< the ranks'
  rlimit descriptors{};        ///< the ranks'
  char** argv_area = nullptr;  ///< weftrun's own argv: renamed, to show in `ps`
};

/// Kills and reaps every descendant of this process, which must be a child subreaper so that
/// orphans come to it. Returns when there is none left.
void end_all_descendants();

/// Ends them so, and removes the named segments in `shm_dir` whose processes are dead.
void end_job_wholly(const std::string& shm_dir);

/// Removes a folder and what is in it; quietly.
void remove_tree(const std::string& path);

/// weftrun's end of the guardian. Start it before any thread.
class Guardian {
 public:
  explicit Guardian(GuardPlan plan);

  [[nodiscard]] int fd() const noexcept { return socket_.get(); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  void start(const std::vector<std::string>& environment);
  void signal_all(int signal) { say({GuardWord::signal, -1, signal}); }
  void sweep() { say({GuardWord::sweep, 0, 0}); }

  /// One word that arrived; nothing if none is there now. `text` is what followed it.
  struct Heard {
    GuardWord word;
    std::string text;
  };
  std::optional<Heard> hear();
  /// Ranks that have begun to end, although `hear` has not said so yet: what they kept open may be
  /// closed, and others may have seen that.
  [[nodiscard]] std::vector<int> ending() const;
  /// True once the guardian's end is closed: it died.
  [[nodiscard]] bool lost() const noexcept { return lost_; }
  /// Lets the guardian end, and waits for that.
  void dismiss();

 private:
  void say(const GuardWord& word);

  Fd socket_;
  pid_t pid_ = -1;
  std::map<int, pid_t> running_;  ///< by rank, as far as was heard
  bool lost_ = false;
};

}  // namespace weft::run
