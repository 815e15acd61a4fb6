// The PMIx server inside weftrun: what the ranks join, fence and publish through.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "fabric/node_cards.hpp"
#include "weftrun/hosts.hpp"
#include "weftrun/spawn.hpp"

namespace weft::run {

/// Lifetime: one per process, made after the guardian because it starts threads; lives until the
/// process ends, because the library cannot always be ended.
/// Who may call: the main thread. PMIx's own thread only leaves Events behind, and rings `fd`.
class PmixServer {
 public:
  struct Plan {
    std::string nspace;           ///< the job's name; see new_nspace
    std::vector<NodePart> nodes;  ///< of the whole job
    int node = 0;                 ///< which of them this is; -1: none, it has no ranks
    int fake_nodes = 1;
    std::string temp_dir;
  };
  /// Throws std::runtime_error.
  explicit PmixServer(const Plan& plan);
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  /// A job's name that no other job has.
  static std::string new_nspace();

  /// What every rank needs in its environment, PMIX_RANK apart. `key`: the job's.
  [[nodiscard]] std::vector<std::string> environment(const std::string& key) const;

  /// Takes a PMIx status, and the bytes that PMIx is to have.
  using Answer = std::function<void(int status, const std::string& bytes)>;
  struct Event {
    enum Kind {
      joined,
      finalized,
      aborted,
      fence,      ///< all ranks that are here came to a fence of the whole job
      modex_ask,  ///< a rank that is here asks for what `rank`, which is not, published
    };
    Kind kind = joined;
    int rank = 0;
    int code = 0;                   ///< aborted
    std::string text;               ///< aborted: why; fence: what they collect, if they do
    std::function<void()> release;  ///< aborted: lets the rank, which waits for it, exit
    Answer answer;                  ///< fence, modex_ask: call it once
  };
  /// Readable when there are events.
  [[nodiscard]] int fd() const noexcept { return bell_.get(); }
  std::optional<Event> next_event();

  /// Tells the ranks that are left that `rank` died, and how (a wait(2) status).
  void tell_death(int rank, int status, const std::string& how);
  /// Tells them that it left the job in order: no fence can end any more.
  void tell_left(int rank);

  /// Asks PMIx for all that `rank`, which is here, published: `answer` is called from PMIx's
  /// thread, at once or when the rank has published something.
  void request(int rank, Answer answer);

 private:
  struct Callbacks;

  void notify(int code, int rank, const std::string& text);
  void push(Event event);

  /// The ranks that are here.
  [[nodiscard]] NodePart node_part() const;

  const std::string nspace_;
  const std::vector<NodePart> nodes_;
  const int node_;
  std::mutex lock_;
  std::deque<Event> events_;  ///< under lock_
  Fd bell_;
  fabric::Descriptor cards_;  ///< of this host's ranks (fabric::NodeCards), while the job lives
};

}  // namespace weft::run
