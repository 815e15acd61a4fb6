// The provider for processes that a PMIx launcher started: weftrun, Slurm, PRRTE.
#include "fabric/job_pmix.hpp"

#include <fmt/format.h>
#include <pmix.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <utility>

#include "fabric/job_pmix_news.hpp"
#include "fabric/job_pmix_store.hpp"
#include "fabric/job_secret.hpp"
#include "fabric/job_wire.hpp"
#include "weft/base/config.hpp"

namespace weft::fabric {
namespace {

std::string pmix_text(pmix_status_t status) { return PMIx_Error_string(status); }

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

  void put(std::string_view key, std::string_view value) override {
    refuse_in_fork();
    store_->put(key, value);
  }
  std::string get(Rank from, std::string_view key) override {
    refuse_in_fork();
    return store_->get(from, key);
  }
  void fence() override {
    refuse_in_fork();
    store_->commit();
    PmixNews::fence(news_);
    store_->count_fence();
  }
  [[noreturn]] void abort(int code, std::string_view why) override;
  void on_peer_death(PmixNews::Told told) override { news_->on_death(std::move(told)); }

 private:
  pmix_proc_t proc(pmix_rank_t rank) const;
  PmixValue job_info(const char* key, bool optional) const;
  void find_nodes();
  void agree_on_key();
  void refuse_in_fork() const;

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
  std::optional<PmixStore> store_;  ///< made once `near_` is known
  const std::shared_ptr<PmixNews> news_ = std::make_shared<PmixNews>();
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
    const PmixValue size = job_info(PMIX_JOB_SIZE, false);
    if (size == nullptr) throw Error(Errc::launcher, "the PMIx launcher tells no job size");
    size_ = static_cast<int>(size->data.uint32);
    for (const char* c = me_.nspace; *c != '\0'; ++c) {
      const bool safe = std::isalnum(static_cast<unsigned char>(*c)) != 0 || *c == '-' || *c == '.';
      id_.push_back(safe ? *c : '_');
    }
    find_nodes();
    store_.emplace(me_, size_, near_);
    news_->subscribe();
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
PmixValue PmixJob::job_info(const char* key, bool optional) const {
  const pmix_proc_t all = proc(PMIX_RANK_WILDCARD);
  pmix_info_t directive;
  PMIX_INFO_LOAD(&directive, PMIX_OPTIONAL, nullptr, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&all, key, &directive, optional ? 1 : 0, &value);
  return PmixValue(status == PMIX_SUCCESS ? value : nullptr);
}

/// Fills the node map: pretended nodes, else one node if all ranks are near, else the launcher's.
void PmixJob::find_nodes() {
  const PmixValue peers = job_info(PMIX_LOCAL_PEERS, false);
  if (peers != nullptr && peers->type == PMIX_STRING && peers->data.string != nullptr)
    near_ = parse_ranks(peers->data.string);
  if (near_.empty()) near_ = {rank().value};

  const PmixValue fake = job_info(kFakeNodesInfo, true);
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

}  // namespace

std::unique_ptr<Job> join_pmix_job() { return std::make_unique<PmixJob>(); }

}  // namespace weft::fabric
