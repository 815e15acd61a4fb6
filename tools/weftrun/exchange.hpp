// What the ranks of one host exchange with those of others through their launchers: fences, and the
// values that they ask each other for.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "weftrun/pmix_server.hpp"
#include "weftrun/tree.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {

/// Owner and lifetime: weftrun or a daemon, for the whole job of several hosts.
/// Who may call: the main thread; answers from PMIx's thread wait for `serve`.
/// Invariants: (1) A fence has a number, the same on all hosts, because every rank takes part in
/// every fence. It goes up once all of a branch came, and its end comes down from weftrun. (2)
/// After the loss of any rank no fence ends well, on any host.
class Exchange {
 public:
  /// How it sends. `to` finds the way to a member, this one included.
  struct Ways {
    std::function<void(const Message&)> up;    ///< not weftrun's, which has nobody above
    std::function<void(const Message&)> down;  ///< to all below
    std::function<void(int member, const Message&)> to;
  };
  Exchange(const JobSpec& spec, int member, Ways ways);

  /// A fence or a question of the ranks that are here.
  void from_server(PmixServer::Event event);
  /// A branch came to a fence; a fence ended; a question and an answer of another host.
  void fence_in(const Message& message);
  void fence_out(const Message& message);
  void modex_ask(const Message& message, PmixServer& server);
  void modex_answer(const Message& message);
  /// `rank` died, or left: no fence can end any more. Of a dead one nobody gets values any more.
  void rank_gone(int rank, bool dead);

  /// Readable when `serve` has answers of PMIx to pass on.
  [[nodiscard]] int fd() const noexcept { return answers_->bell.get(); }
  void serve();

 private:
  struct Fence {
    int came = 0;               ///< branches, this host's ranks being one
    bool well = true;           ///< all of what they collected is there
    std::string data;           ///< what they collected
    PmixServer::Answer answer;  ///< tells the ranks that are here
  };
  struct Question {
    int rank = 0;
    PmixServer::Answer answer;
  };
  /// Where PMIx's thread leaves what it answers: it may do so when there is no Exchange any more.
  struct Answers {
    std::mutex lock;
    std::vector<Message> ready;  ///< under lock
    Fd bell;
  };

  void came(uint64_t number);
  void end_fence(uint64_t number, bool well, const std::string& data);

  const JobSpec& spec_;
  const int member_;
  const Ways ways_;
  const int branches_;  ///< how many a fence waits for
  const std::shared_ptr<Answers> answers_;
  uint64_t fences_here_ = 0;
  std::map<uint64_t, Fence> fences_;
  uint64_t questions_asked_ = 0;
  std::map<uint64_t, Question> questions_;
  std::set<int> dead_;
  bool incomplete_ = false;
};

}  // namespace weft::run
