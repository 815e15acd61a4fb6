// The provider for ranks that are threads of one process: a store and a fence behind one lock.
#include "fabric/job_local.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <utility>

#include "fabric/job_last_words.hpp"
#include "fabric/job_secret.hpp"
#include "fabric/job_wire.hpp"

namespace weft::fabric {
namespace {

using Values = std::map<std::string, std::string, std::less<>>;
using DeathHandler = std::function<void(Rank, std::string)>;

/// What the ranks of one local job share.
///
/// Owner and lifetime: shared by the ranks' Job objects; ends with the last of them.
/// Who may call: any rank's thread; everything below `lock_` is read and written under it.
/// Progress: a fence sleeps on a condition variable; so does who takes back a handler that is being
/// called. Nothing else blocks. Handlers are called with the lock released.
/// Invariants: (1) a fence's round ends when every rank is in it, or with an error for all that
/// are in it as soon as one rank is gone; (2) a rank once gone stays gone; (3) a value is visible
/// from the end of the fence that its rank called after the put; (4) once `watch` or
/// `leave` has returned, the handler before is not being called, nor will be.
class LocalJobState {
 public:
  LocalJobState(int ranks, int nodes)
      : id_(fmt::format("local-{}-{}", getpid(), next_number())),
        key_(random_job_key()),
        seats_(static_cast<std::size_t>(ranks)),
        nodes_(nodes) {}

  int size() const noexcept { return static_cast<int>(seats_.size()); }
  int node_count() const noexcept { return nodes_; }
  const std::string& id() const noexcept { return id_; }
  const std::string& key() const noexcept { return key_; }

  int node_of(int rank) const noexcept { return block_node_of(rank, size(), nodes_); }

  void put(int rank, std::string_view key, std::string_view value) {
    const std::lock_guard hold(lock_);
    seat(rank).staged.insert_or_assign(std::string(key), std::string(value));
  }

  std::string get(int from, std::string_view key) {
    if (from < 0 || from >= size())
      throw Error(Errc::no_such_peer, fmt::format("get: rank {} of a job of {}", from, size()));
    const std::lock_guard hold(lock_);
    const Values& published = seat(from).published;
    const auto found = published.find(key);
    if (found == published.end())
      throw Error(Errc::no_such_peer, fmt::format("get: rank {} never published '{}'", from, key));
    return found->second;
  }

  void fence(int rank) {
    std::unique_lock hold(lock_);
    throw_if_one_is_gone();
    Seat& mine = seat(rank);
    for (auto& [key, value] : mine.staged) mine.published.insert_or_assign(key, std::move(value));
    mine.staged.clear();
    const uint64_t round = round_;
    if (++arrived_ == size()) {
      arrived_ = 0;
      ++round_;
      changed_.notify_all();
      return;
    }
    changed_.wait(hold, [&] { return round_ != round || gone_ > 0; });
    if (round_ == round) throw_if_one_is_gone();
  }

  void watch(int rank, const DeathHandler& told) {
    std::vector<std::pair<Rank, std::string>> earlier;
    {
      std::unique_lock hold(lock_);
      take_handler_back(hold, rank);
      seat(rank).told = told;
      for (int other = 0; other < size(); ++other)
        if (other != rank && seat(other).dead) earlier.emplace_back(Rank{other}, seat(other).cause);
    }
    if (told)
      for (auto& [other, cause] : earlier) told(other, std::move(cause));
  }

  void kill(int victim, std::string_view cause) {
    std::vector<Seat*> to_tell;
    {
      const std::lock_guard hold(lock_);
      Seat& dying = seat(victim);
      if (dying.gone) return;
      dying.gone = dying.dead = true;
      dying.cause = cause;
      ++gone_;
      changed_.notify_all();
      for (Seat& other : seats_) {
        if (other.gone || !other.told) continue;
        ++other.being_told;  // from here on its handler stays
        to_tell.push_back(&other);
      }
    }
    for (Seat* other : to_tell) {
      other->told(Rank{victim}, std::string(cause));
      const std::lock_guard hold(lock_);
      if (--other->being_told == 0) changed_.notify_all();
    }
  }

  void leave(int rank) {
    std::unique_lock hold(lock_);
    take_handler_back(hold, rank);
    Seat& leaving = seat(rank);
    if (leaving.gone) return;
    leaving.gone = true;
    leaving.cause = "left the job";
    ++gone_;
    changed_.notify_all();
  }

 private:
  struct Seat {
    Values staged;     ///< put since this rank's last fence
    Values published;  ///< what get finds
    DeathHandler told;
    int being_told = 0;  ///< deaths that are being told of just now: `told` must stay
    bool gone = false;   ///< dead, or its Job object ended
    bool dead = false;
    std::string cause;
  };

  static uint64_t next_number() noexcept {
    static std::atomic<uint64_t> next{0};
    // relaxed: only distinct numbers are wanted, no order.
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  Seat& seat(int rank) { return seats_[static_cast<std::size_t>(rank)]; }

  void take_handler_back(std::unique_lock<std::mutex>& hold, int rank) {
    Seat& mine = seat(rank);
    changed_.wait(hold, [&] { return mine.being_told == 0; });
    mine.told = nullptr;
  }

  void throw_if_one_is_gone() const {
    if (gone_ == 0) return;
    const auto first = std::find_if(seats_.begin(), seats_.end(), [](auto& s) { return s.gone; });
    throw Error(Errc::peer_died,
                fmt::format("fence: rank {} on {}: {}", first - seats_.begin(), id_, first->cause));
  }

  const std::string id_;
  const std::string key_;
  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  const int nodes_;
  int arrived_ = 0;     ///< ranks in the fence's present round
  int gone_ = 0;        ///< seats with `gone` set
  uint64_t round_ = 0;  ///< fences that ended well
};

class LocalJob final : public Job {
 public:
  LocalJob(std::shared_ptr<LocalJobState> state, int rank) : state_(std::move(state)), rank_(rank) {
    for (int r = 0; r < state_->size(); ++r) node_ranks_.push_back(Rank{r});
  }
  ~LocalJob() override { state_->leave(rank_); }

  Rank rank() const noexcept override { return Rank{rank_}; }
  int size() const noexcept override { return state_->size(); }
  const std::vector<Rank>& node_ranks() const noexcept override { return node_ranks_; }
  int node_of(Rank rank) const noexcept override { return state_->node_of(rank.value); }
  int node_count() const noexcept override { return state_->node_count(); }
  const std::string& id() const noexcept override { return state_->id(); }
  const std::string& key() const noexcept override { return state_->key(); }
  std::string_view provider() const noexcept override { return "local"; }

  void put(std::string_view key, std::string_view value) override {
    state_->put(rank_, key, value);
  }
  std::string get(Rank from, std::string_view key) override { return state_->get(from.value, key); }
  void fence() override { state_->fence(rank_); }

  void abort(int code, std::string_view why) override {
    std::fflush(nullptr);
    print_line(fmt::format("weft: rank {} ended the job: {}", rank_, why));
    _exit(abort_exit_code(code));
  }

  void on_peer_death(DeathHandler told) override { state_->watch(rank_, told); }

  LocalJobState& state() noexcept { return *state_; }

 private:
  const std::shared_ptr<LocalJobState> state_;
  const int rank_;
  std::vector<Rank> node_ranks_;
};

}  // namespace

std::vector<std::unique_ptr<Job>> make_local_job(int ranks, int nodes) {
  if (ranks < 1 || nodes < 1 || nodes > ranks)
    throw Error(Errc::bad_argument,
                fmt::format("make_local_job: {} ranks on {} nodes", ranks, nodes));
  auto state = std::make_shared<LocalJobState>(ranks, nodes);
  std::vector<std::unique_ptr<Job>> job;
  for (int rank = 0; rank < ranks; ++rank) job.push_back(std::make_unique<LocalJob>(state, rank));
  return job;
}

void kill_local_rank(Job& any, Rank victim, std::string_view cause) {
  auto* local = dynamic_cast<LocalJob*>(&any);
  if (local == nullptr || victim.value < 0 || victim.value >= any.size())
    throw Error(Errc::bad_argument, fmt::format("kill_local_rank: rank {}", victim.value));
  local->state().kill(victim.value, cause);
}

}  // namespace weft::fabric
