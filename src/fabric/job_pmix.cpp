// The provider for processes that a PMIx launcher started: weftrun, Slurm, PRRTE.
//
// PMIx runs a thread of its own in this process; its callbacks here only write down what they
// heard, under one lock, and wake whoever waits. Nothing in them calls PMIx, which would
// deadlock. Peers' values stay with their server until `get` first asks for them.
#include "fabric/job_pmix.hpp"

#include <fmt/format.h>
#include <pmix.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "fabric/job_secret.hpp"
#include "fabric/job_wire.hpp"
#include "weft/base/config.hpp"

namespace weft::fabric {
namespace {

/// In front of every key, because PMIx keeps some names to itself.
constexpr std::string_view kKeyPrefix = "weft:";
/// How long `get` waits for a launcher of several nodes to fetch what a far rank published.
constexpr int kFarGetSeconds = 30;
/// How long a failed fence waits to be told who died.
constexpr std::chrono::seconds kCauseWait{2};

std::string pmix_text(pmix_status_t status) { return PMIx_Error_string(status); }

/// Releases what PMIx_Get returned.
struct ValueRelease {
  void operator()(pmix_value_t* value) const noexcept { PMIX_VALUE_RELEASE(value); }
};
using Value = std::unique_ptr<pmix_value_t, ValueRelease>;

/// What happened to the job so far, as PMIx's thread heard it.
struct News {
  std::mutex lock;
  std::condition_variable changed;
  std::map<int, std::string> dead;  ///< rank → cause
  std::map<int, std::string> left;  ///< rank → how; no failure, but no fence can end any more
  bool launcher_lost = false;
  std::function<void(Rank, std::string)> told;
};

/// One PMIx_Fence_nb: owned by the waiting caller and by PMIx's callback, because a caller that
/// learns of a death leaves before the callback comes, if it ever does.
struct FenceWait {
  std::shared_ptr<News> news;
  std::optional<pmix_status_t> status;  ///< under news->lock
};

void on_fence_end(pmix_status_t status, void* object) {
  const std::unique_ptr<std::shared_ptr<FenceWait>> wait(
      static_cast<std::shared_ptr<FenceWait>*>(object));
  News& news = *(*wait)->news;
  const std::lock_guard hold(news.lock);
  (*wait)->status = status;
  news.changed.notify_all();
}

/// Tells `news` what event `status` says. On PMIx's thread.
void on_event(std::size_t, pmix_status_t status, const pmix_proc_t* source, pmix_info_t info[],
              std::size_t ninfo, pmix_info_t*, std::size_t,
              pmix_event_notification_cbfunc_fn_t done, void* done_data) {
  News* news = nullptr;
  const pmix_proc_t* affected = source;
  std::string cause;
  for (std::size_t i = 0; i < ninfo; ++i) {
    if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_RETURN_OBJECT)) {
      news = static_cast<News*>(info[i].value.data.ptr);
    } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) {
      affected = info[i].value.data.proc;
    } else if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_TEXT_MESSAGE)) {
      if (info[i].value.data.string != nullptr) cause = info[i].value.data.string;
    }
  }
  if (news != nullptr) {
    std::function<void(Rank, std::string)> told;
    const int rank = affected == nullptr ? -1 : static_cast<int>(affected->rank);
    {
      const std::lock_guard hold(news->lock);
      if (status == PMIX_ERR_LOST_CONNECTION) {
        news->launcher_lost = true;
      } else if (rank >= 0 && status == PMIX_EVENT_PROC_TERMINATED) {
        news->left.emplace(rank, cause.empty() ? "left the job" : cause);
      } else if (rank >= 0) {
        if (cause.empty()) cause = pmix_text(status);
        if (news->dead.emplace(rank, cause).second) told = news->told;
      }
      news->changed.notify_all();
    }
    if (told) told(Rank{rank}, cause);
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, done_data);
}

/// While it lives, threads that this one starts have all signals blocked: a program's signals are
/// for its own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// The numbers in "0,1,5-7".
std::vector<int> parse_ranks(std::string_view text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    auto [next, bad] = std::from_chars(at, end, first);
    if (bad != std::errc()) break;
    int last = first;
    if (next < end && *next == '-') next = std::from_chars(next + 1, end, last).ptr;
    for (int rank = first; rank <= last; ++rank) ranks.push_back(rank);
    at = next < end ? next + 1 : end;
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

class PmixJob final : public Job {
 public:
  PmixJob();
  ~PmixJob() override;

  Rank rank() const noexcept override { return Rank{static_cast<int32_t>(me_.rank)}; }
  int size() const noexcept override { return size_; }
  const std::vector<Rank>& node_ranks() const noexcept override { return node_ranks_; }
  int node_of(Rank rank) const noexcept override;
  int node_count() const noexcept override { return node_count_; }
  const std::string& id() const noexcept override { return id_; }
  const std::string& key() const noexcept override { return key_; }
  std::string_view provider() const noexcept override { return "pmix"; }

  void put(std::string_view key, std::string_view value) override;
  std::string get(Rank from, std::string_view key) override;
  void fence() override;
  [[noreturn]] void abort(int code, std::string_view why) override;
  void on_peer_death(std::function<void(Rank, std::string)> told) override;

 private:
  pmix_proc_t proc(pmix_rank_t rank) const;
  Value job_info(const char* key, bool optional) const;
  void find_nodes();
  void agree_on_key();
  void watch_events();
  void refuse_in_fork() const;
  [[noreturn]] void throw_fence_error(std::unique_lock<std::mutex>& hold, pmix_status_t status);

  pmix_proc_t me_{};
  const pid_t pid_ = getpid();  ///< a forked child must not speak for its parent
  int size_ = 1;
  int node_count_ = 1;
  int fake_nodes_ = 1;
  bool under_weftrun_ = false;
  std::vector<int> near_;       ///< ranks of this host, ascending
  std::vector<Rank> node_ranks_;
  std::vector<int> node_of_;    ///< empty when a formula does
  std::string id_;
  std::string key_;
  std::shared_ptr<News> news_ = std::make_shared<News>();
  std::mutex put_lock_;
  bool put_since_fence_ = false;  ///< under put_lock_
};

PmixJob::PmixJob() {
  {
    const SignalsBlocked blocked;
    const pmix_status_t status = PMIx_Init(&me_, nullptr, 0);
    if (status != PMIX_SUCCESS)
      throw Error(Errc::launcher,
                  fmt::format("PMIx_Init: {}: the launcher named by PMIX_NAMESPACE={} does not "
                              "answer (did it end?)",
                              pmix_text(status), base::environment("PMIX_NAMESPACE").value));
  }
  try {
    const Value size = job_info(PMIX_JOB_SIZE, false);
    if (size == nullptr) throw Error(Errc::launcher, "the PMIx launcher tells no job size");
    size_ = static_cast<int>(size->data.uint32);
    for (const char* c = me_.nspace; *c != '\0'; ++c) {
      const bool safe = std::isalnum(static_cast<unsigned char>(*c)) != 0 || *c == '-' || *c == '.';
      id_.push_back(safe ? *c : '_');
    }
    find_nodes();
    watch_events();
    agree_on_key();
  } catch (...) {
    PMIx_Finalize(nullptr, 0);
    throw;
  }
}

PmixJob::~PmixJob() {
  if (getpid() != pid_) return;
  PMIx_Finalize(nullptr, 0);
}

pmix_proc_t PmixJob::proc(pmix_rank_t rank) const {
  pmix_proc_t named = me_;
  named.rank = rank;
  return named;
}

/// Job-level info, or nothing. `optional`: do not ask the launcher for what it did not send.
Value PmixJob::job_info(const char* key, bool optional) const {
  const pmix_proc_t all = proc(PMIX_RANK_WILDCARD);
  pmix_info_t directive;
  PMIX_INFO_LOAD(&directive, PMIX_OPTIONAL, nullptr, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&all, key, &directive, optional ? 1 : 0, &value);
  return Value(status == PMIX_SUCCESS ? value : nullptr);
}

/// Fills the node map: pretended nodes, else one node if all ranks are near, else the launcher's.
void PmixJob::find_nodes() {
  const Value peers = job_info(PMIX_LOCAL_PEERS, false);
  if (peers != nullptr && peers->type == PMIX_STRING && peers->data.string != nullptr)
    near_ = parse_ranks(peers->data.string);
  if (near_.empty()) near_ = {rank().value};

  const Value fake = job_info(kFakeNodesInfo, true);
  if (fake != nullptr && fake->type == PMIX_UINT32)
    fake_nodes_ = std::clamp(static_cast<int>(fake->data.uint32), 1, size_);
  if (fake_nodes_ > 1) {
    node_count_ = fake_nodes_;
    for (int r = 0; r < size_; ++r)
      if (node_of(Rank{r}) == node_of(rank())) node_ranks_.push_back(Rank{r});
    return;
  }
  for (const int r : near_) node_ranks_.push_back(Rank{r});
  if (static_cast<int>(near_.size()) == size_) return;

  char* names = nullptr;
  const pmix_status_t status = PMIx_Resolve_nodes(me_.nspace, &names);
  if (status != PMIX_SUCCESS || names == nullptr)
    throw Error(Errc::launcher, "PMIx_Resolve_nodes: " + pmix_text(status));
  const std::unique_ptr<char, decltype(&std::free)> names_owner(names, &std::free);
  node_of_.assign(static_cast<std::size_t>(size_), 0);
  node_count_ = 0;
  for (std::string_view rest = names; !rest.empty();) {
    const std::string node(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), node.size() + 1));
    pmix_proc_t* there = nullptr;
    std::size_t count = 0;
    if (PMIx_Resolve_peers(node.c_str(), me_.nspace, &there, &count) == PMIX_SUCCESS)
      for (std::size_t i = 0; i < count; ++i)
        if (there[i].rank < static_cast<pmix_rank_t>(size_)) node_of_[there[i].rank] = node_count_;
    PMIX_PROC_FREE(there, count);
    ++node_count_;
  }
}

int PmixJob::node_of(Rank rank) const noexcept {
  if (fake_nodes_ > 1) return block_node_of(rank.value, size_, fake_nodes_);
  if (node_of_.empty()) return 0;
  return node_of_[static_cast<std::size_t>(rank.value)];
}

void PmixJob::watch_events() {
  pmix_status_t codes[] = {PMIX_ERR_LOST_CONNECTION,    PMIX_ERR_PROC_ABORTED,
                           PMIX_ERR_PROC_ABORTED_BY_SIG, PMIX_ERR_PROC_TERM_WO_SYNC,
                           PMIX_ERR_PROC_KILLED_BY_CMD,  PMIX_EVENT_PROC_TERMINATED};
  pmix_info_t object;
  PMIX_INFO_LOAD(&object, PMIX_EVENT_RETURN_OBJECT, news_.get(), PMIX_POINTER);
  const pmix_status_t status =
      PMIx_Register_event_handler(codes, std::size(codes), &object, 1, on_event, nullptr, nullptr);
  if (status < 0) throw Error(Errc::launcher, "PMIx_Register_event_handler: " + pmix_text(status));
}

/// weftrun hands the key out in the environment; under other launchers rank 0 makes one.
void PmixJob::agree_on_key() {
  const base::Environment given = base::environment(kJobKeyVariable);
  if (given.found && !given.value.empty()) {
    under_weftrun_ = true;
    key_ = given.value;
    return;
  }
  if (me_.rank == 0) put("key", random_job_key());
  fence();
  key_ = get(Rank{0}, "key");
}

void PmixJob::refuse_in_fork() const {
  if (getpid() != pid_)
    throw Error(Errc::launcher, "a forked child cannot use the job of its parent");
}

void PmixJob::put(std::string_view key, std::string_view value) {
  refuse_in_fork();
  const std::string full = fmt::format("{}{}", kKeyPrefix, key);
  if (full.size() > PMIX_MAX_KEYLEN)
    throw Error(Errc::bad_argument, fmt::format("put: a key of {} characters", key.size()));
  // PMIx copies; it only wants a pointer that is not const.
  std::string copy(value);
  pmix_value_t packed;
  PMIX_VALUE_CONSTRUCT(&packed);
  packed.type = PMIX_BYTE_OBJECT;
  packed.data.bo.bytes = copy.data();
  packed.data.bo.size = copy.size();
  const std::lock_guard hold(put_lock_);
  const pmix_status_t status = PMIx_Put(PMIX_GLOBAL, full.c_str(), &packed);
  if (status != PMIX_SUCCESS) throw Error(Errc::launcher, "PMIx_Put: " + pmix_text(status));
  put_since_fence_ = true;
}

std::string PmixJob::get(Rank from, std::string_view key) {
  refuse_in_fork();
  if (from.value < 0 || from.value >= size_)
    throw Error(Errc::no_such_peer, fmt::format("get: rank {} of a job of {}", from.value, size_));
  // A rank of this host committed to this host's server before its fence ended: if the value is
  // not there now, it was never published. A far one's has to be fetched.
  const bool near = std::binary_search(near_.begin(), near_.end(), from.value);
  pmix_info_t directive;
  int seconds = kFarGetSeconds;
  if (near) {
    PMIX_INFO_LOAD(&directive, PMIX_IMMEDIATE, nullptr, PMIX_BOOL);
  } else {
    PMIX_INFO_LOAD(&directive, PMIX_TIMEOUT, &seconds, PMIX_INT);
  }
  const pmix_proc_t source = proc(static_cast<pmix_rank_t>(from.value));
  const std::string full = fmt::format("{}{}", kKeyPrefix, key);
  pmix_value_t* raw = nullptr;
  const pmix_status_t status = PMIx_Get(&source, full.c_str(), &directive, 1, &raw);
  const Value value(status == PMIX_SUCCESS ? raw : nullptr);
  if (status == PMIX_ERR_NOT_FOUND || status == PMIX_ERR_TIMEOUT)
    throw Error(Errc::no_such_peer,
                fmt::format("get: rank {} never published '{}'", from.value, key));
  if (status != PMIX_SUCCESS || value->type != PMIX_BYTE_OBJECT)
    throw Error(Errc::launcher, fmt::format("PMIx_Get of '{}' of rank {}: {}", key, from.value,
                                            pmix_text(status)));
  if (value->data.bo.size == 0) return {};
  return {value->data.bo.bytes, value->data.bo.size};
}

void PmixJob::fence() {
  refuse_in_fork();
  {
    const std::lock_guard hold(put_lock_);
    if (std::exchange(put_since_fence_, false)) {
      const pmix_status_t status = PMIx_Commit();
      if (status != PMIX_SUCCESS) throw Error(Errc::launcher, "PMIx_Commit: " + pmix_text(status));
    }
  }
  {
    std::unique_lock hold(news_->lock);
    if (news_->launcher_lost || !news_->dead.empty() || !news_->left.empty())
      throw_fence_error(hold, PMIX_SUCCESS);
  }
  auto wait = std::make_shared<FenceWait>(FenceWait{news_, std::nullopt});
  auto for_callback = std::make_unique<std::shared_ptr<FenceWait>>(wait);
  const pmix_status_t asked =
      PMIx_Fence_nb(nullptr, 0, nullptr, 0, on_fence_end, for_callback.get());
  if (asked == PMIX_OPERATION_SUCCEEDED) return;
  std::unique_lock hold(news_->lock);
  if (asked != PMIX_SUCCESS) throw_fence_error(hold, asked);
  [[maybe_unused]] const auto* handed_over = for_callback.release();
  news_->changed.wait(hold, [&] {
    return wait->status || news_->launcher_lost || !news_->dead.empty() || !news_->left.empty();
  });
  if (wait->status == PMIX_SUCCESS) return;
  throw_fence_error(hold, wait->status.value_or(PMIX_SUCCESS));
}

/// Throws what best says why a fence cannot end well. `status` is what PMIx answered, if it did.
void PmixJob::throw_fence_error(std::unique_lock<std::mutex>& hold, pmix_status_t status) {
  const auto known = [&] {
    return news_->launcher_lost || !news_->dead.empty() || !news_->left.empty();
  };
  // The fence may fail a moment before the news of why it did arrives.
  if (!known()) news_->changed.wait_for(hold, kCauseWait, known);
  if (!news_->dead.empty()) {
    const auto& [rank, cause] = *news_->dead.begin();
    throw Error(Errc::peer_died, fmt::format("fence: rank {} {}", rank, cause));
  }
  if (!news_->left.empty()) {
    const auto& [rank, how] = *news_->left.begin();
    throw Error(Errc::peer_died, fmt::format("fence: rank {} {}", rank, how));
  }
  if (status == PMIX_ERR_PARTIAL_SUCCESS || status == PMIX_ERR_PROC_TERM_WO_SYNC)
    throw Error(Errc::peer_died, "fence: a rank ended before it came");
  throw Error(Errc::launcher, "fence: " + (news_->launcher_lost ? "the launcher went away"
                                                               : pmix_text(status)));
}

void PmixJob::abort(int code, std::string_view why) {
  std::fflush(nullptr);
  const int exit_code = abort_exit_code(code);
  if (getpid() == pid_) {
    const std::string text(why);
    const pmix_status_t status = PMIx_Abort(exit_code, text.c_str(), nullptr, 0);
    if (status != PMIX_SUCCESS || !under_weftrun_)
      print_line(fmt::format("weft: rank {} ended the job: {}", me_.rank, why));
  }
  _exit(exit_code);
}

void PmixJob::on_peer_death(std::function<void(Rank, std::string)> told) {
  std::map<int, std::string> earlier;
  {
    const std::lock_guard hold(news_->lock);
    news_->told = told;
    earlier = news_->dead;
  }
  if (told)
    for (auto& [rank, cause] : earlier) told(Rank{rank}, std::move(cause));
}

}  // namespace

std::unique_ptr<Job> join_pmix_job() { return std::make_unique<PmixJob>(); }

}  // namespace weft::fabric
