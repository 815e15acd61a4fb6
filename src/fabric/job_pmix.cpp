// The provider for processes that a PMIx launcher started: weftrun, Slurm, PRRTE.
#include "fabric/job_pmix.hpp"

#include <fmt/format.h>
#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "fabric/job_last_words.hpp"
#include "fabric/job_pmix_farewell.hpp"
#include "fabric/job_pmix_news.hpp"
#include "fabric/job_pmix_store.hpp"
#include "fabric/job_secret.hpp"
#include "fabric/job_wire.hpp"
#include "fabric/launch_signs.hpp"
#include "weft/base/config.hpp"
#include "weft/base/log.hpp"
#include "weft/base/signals_blocked.hpp"

namespace weft::fabric {
namespace {

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

/// This process's membership of its job.
///
/// Lifetime: from the first join to the end of the process, because PMIx cannot be joined again
/// once it was left: the Job objects that a program makes one after another are views of this.
/// Who may call: any thread.
class PmixSession {
 public:
  PmixSession();
  /// Ends it in order; the object stays, for threads that the end of the process overtakes. Not in
  /// order, a job that is still in use: weftrun sees that, and tells the others of a death.
  void leave() const noexcept;
  void begin_use() noexcept { users_.fetch_add(1, std::memory_order_relaxed); }
  void end_use() noexcept {
    // Objects that are destroyed after the exit handlers end it late, but in order.
    if (users_.fetch_sub(1, std::memory_order_relaxed) == 1 &&
        overdue_.load(std::memory_order_relaxed))
      leave();
  }

  Rank rank() const noexcept { return Rank{static_cast<int32_t>(me_.rank)}; }
  int size() const noexcept { return size_; }
  const std::vector<Rank>& node_ranks() const noexcept { return node_ranks_; }
  int node_of(Rank rank) const noexcept;
  int node_count() const noexcept { return node_count_; }
  const std::string& id() const noexcept { return id_; }
  const std::string& key() const noexcept { return key_; }

  void put(std::string_view key, std::string_view value) {
    refuse_in_fork();
    store_->put(key, value);
  }
  std::string get(Rank from, std::string_view key) {
    refuse_in_fork();
    return store_->get(from, key);
  }
  void fence() {
    refuse_in_fork();
    // relaxed, here and in leave: fences are called one at a time, and whoever leaves while another
    // thread is in one is not in it.
    const uint64_t ended = fences_.load(std::memory_order_relaxed) + 1;
    try {
      store_->commit();
      PmixNews::fence(
          news_, farewell_ ? [&] { return farewell_->missing(ended); } : PmixNews::Missing(),
          [&] { return store_->absent(); }, foreign_hosts_);
    } catch (...) {
      store_->end_fence(false);
      throw;
    }
    store_->end_fence(true);
    fences_.store(ended, std::memory_order_relaxed);
  }
  std::optional<int> app_number() const;
  [[noreturn]] void abort(int code, std::string_view why) const;
  /// Replaces the handler; returns when the one before is not being called any more.
  void on_peer_death(const PmixNews::Told& told) const {
    if (!in_fork()) news_->on_death(told);
  }

 private:
  pmix_proc_t proc(pmix_rank_t rank) const;
  PmixValue job_info(const char* key, bool optional) const;
  void find_nodes();
  std::unique_ptr<NodeCards> open_cards() const;
  void agree_on_key();
  [[nodiscard]] bool in_fork() const noexcept { return getpid() != pid_; }
  void refuse_in_fork() const;

  pmix_proc_t me_{};
  const pid_t pid_ = getpid();  ///< a forked child must not speak for its parent
  std::atomic<int> users_{0};
  mutable std::atomic<bool> overdue_{false};  ///< `leave` found users
  int size_ = 1;
  int node_count_ = 1;
  int fake_nodes_ = 1;
  bool under_weftrun_ = false;
  bool foreign_hosts_ = false;  ///< several, under another launcher than weftrun
  std::vector<int> near_;       ///< ranks of this host, ascending
  std::vector<Rank> node_ranks_;
  std::vector<int> node_of_;  ///< empty when a formula does
  std::string id_;
  std::string key_;
  std::optional<PmixStore> store_;        ///< made once `near_` is known
  std::optional<PmixFarewell> farewell_;  ///< not under weftrun
  std::atomic<uint64_t> fences_{0};       ///< that ended well
  const std::shared_ptr<PmixNews> news_ = std::make_shared<PmixNews>();
};

PmixSession::PmixSession() {
  {
    const base::SignalsBlocked blocked;
    const pmix_status_t status = PMIx_Init(&me_, nullptr, 0);
    if (status != PMIX_SUCCESS)
      throw Error(Errc::launcher,
                  fmt::format("PMIx_Init: {}: {}, which set PMIX_NAMESPACE={}, does not answer: it "
                              "ended, or this program was not started by it but by one of its "
                              "ranks; unset PMIX_NAMESPACE to run it as a job of one",
                              pmix_text(status), read_launch_signs(surroundings()).launcher,
                              base::environment("PMIX_NAMESPACE").value));
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
    // A launcher inside weftrun hands that variable down to ranks of its own.
    under_weftrun_ = !base::environment(kJobKeyVariable).value.empty() &&
                     std::string_view(me_.nspace).starts_with(kNamespacePrefix);
    foreign_hosts_ = !under_weftrun_ && static_cast<int>(near_.size()) != size_;
    store_.emplace(me_, size_, near_, foreign_hosts_, open_cards());
    news_->subscribe();
    agree_on_key();
  } catch (...) {
    PMIx_Finalize(nullptr, 0);
    throw;
  }
}

void PmixSession::leave() const noexcept {
  if (in_fork()) return;
  // relaxed: threads that might still change it are overtaken by the end anyway.
  if (under_weftrun_ && users_.load(std::memory_order_relaxed) != 0) {
    overdue_.store(true, std::memory_order_relaxed);
    return;
  }
  if (farewell_) farewell_->leave(fences_.load(std::memory_order_relaxed));
  PMIx_Finalize(nullptr, 0);
}

pmix_proc_t PmixSession::proc(pmix_rank_t rank) const {
  pmix_proc_t named = me_;
  named.rank = rank;
  return named;
}

/// Job-level info, or nothing. `optional`: do not ask the launcher for what it did not send.
PmixValue PmixSession::job_info(const char* key, bool optional) const {
  const pmix_proc_t all = proc(PMIX_RANK_WILDCARD);
  pmix_info_t directive;
  PMIX_INFO_LOAD(&directive, PMIX_OPTIONAL, nullptr, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&all, key, &directive, optional ? 1 : 0, &value);
  return PmixValue(status == PMIX_SUCCESS ? value : nullptr);
}

std::optional<int> PmixSession::app_number() const {
  if (in_fork()) return std::nullopt;
  if (under_weftrun_) return std::atoi(base::environment(kAppVariable).value.c_str());
  pmix_info_t here;
  PMIX_INFO_LOAD(&here, PMIX_OPTIONAL, nullptr, PMIX_BOOL);
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&me_, PMIX_APPNUM, &here, 1, &value) != PMIX_SUCCESS) return std::nullopt;
  const PmixValue held(value);
  return held->type == PMIX_UINT32 ? std::optional(static_cast<int>(held->data.uint32))
                                   : std::nullopt;
}

/// Fills the node map: pretended nodes, else one node if all ranks are near, else the launcher's.
void PmixSession::find_nodes() {
  const PmixValue peers = job_info(PMIX_LOCAL_PEERS, false);
  if (peers != nullptr && peers->type == PMIX_STRING && peers->data.string != nullptr)
    near_ = parse_ranks(peers->data.string);
  if (near_.empty()) near_ = {rank().value};
  for (const int r : near_) node_ranks_.push_back(Rank{r});

  const PmixValue fake = job_info(kFakeNodesInfo, true);
  if (fake != nullptr && fake->type == PMIX_UINT32)
    fake_nodes_ = std::clamp(static_cast<int>(fake->data.uint32), 1, size_);
  if (fake_nodes_ > 1) {
    node_count_ = fake_nodes_;
    return;
  }
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

std::unique_ptr<NodeCards> PmixSession::open_cards() const {
  if (!under_weftrun_) return nullptr;
  const PmixValue place = job_info(kCardsInfo, true);
  const auto own = std::lower_bound(near_.begin(), near_.end(), rank().value);
  if (place == nullptr || place->type != PMIX_STRING || own == near_.end() ||
      *own != rank().value) {
    return nullptr;
  }
  const auto ranks = static_cast<int>(near_.size());
  auto cards = NodeCards::open(place->data.string, ranks, static_cast<int>(own - near_.begin()));
  base::log(base::LogLevel::debug,
            cards ? fmt::format("cards of {} ranks: {}", ranks, place->data.string)
                  : fmt::format("no cards: {} cannot be used", place->data.string));
  return cards;
}

int PmixSession::node_of(Rank rank) const noexcept {
  if (fake_nodes_ > 1) return block_node_of(rank.value, size_, fake_nodes_);
  if (node_of_.empty()) return 0;
  return node_of_[static_cast<std::size_t>(rank.value)];
}

/// weftrun hands the key out in the environment; under other launchers rank 0 makes one.
void PmixSession::agree_on_key() {
  if (under_weftrun_) {
    key_ = base::environment(kJobKeyVariable).value;
    return;
  }
  farewell_.emplace(me_);
  if (me_.rank == 0) put("key", random_job_key());
  fence();
  key_ = get(Rank{0}, "key");
  // Of a rank of another host that left, PRRTE finds nothing.
  if (foreign_hosts_) fence();
}

void PmixSession::refuse_in_fork() const {
  if (in_fork()) throw Error(Errc::launcher, "a forked child cannot use the job of its parent");
}

void PmixSession::abort(int code, std::string_view why) const {
  std::fflush(nullptr);
  const int exit_code = abort_exit_code(code);
  if (!in_fork()) {
    std::string text, line;
    try {
      text = why;
      line = fmt::format("weft: rank {} ended the job: {}", me_.rank, why);
    } catch (const std::bad_alloc&) {
      line = "weft: out of memory";  // short enough to need none
    }
    if (farewell_) farewell_->leave(fences_.load(std::memory_order_relaxed));
    if (!under_weftrun_) {  // which tells it itself
      print_line(line);
      await_readers();
    }
    if (PMIx_Abort(exit_code, text.c_str(), nullptr, 0) != PMIX_SUCCESS && under_weftrun_)
      print_line(line);
  }
  _exit(exit_code);
}

PmixSession* g_pmix_session = nullptr;

PmixSession& join_pmix_once() {
  static std::mutex lock;
  const std::lock_guard hold(lock);
  if (g_pmix_session == nullptr) {
    g_pmix_session = std::make_unique<PmixSession>().release();
    std::atexit([] { g_pmix_session->leave(); });
  }
  return *g_pmix_session;
}

class PmixJob final : public Job {
 public:
  PmixJob() : session_(join_pmix_once()) { session_.begin_use(); }
  ~PmixJob() override {
    if (watches_) session_.on_peer_death(nullptr);
    session_.end_use();
  }

  Rank rank() const noexcept override { return session_.rank(); }
  int size() const noexcept override { return session_.size(); }
  const std::vector<Rank>& node_ranks() const noexcept override { return session_.node_ranks(); }
  int node_of(Rank rank) const noexcept override { return session_.node_of(rank); }
  int node_count() const noexcept override { return session_.node_count(); }
  const std::string& id() const noexcept override { return session_.id(); }
  const std::string& key() const noexcept override { return session_.key(); }
  std::string_view provider() const noexcept override { return "pmix"; }
  std::optional<int> app_number() override { return session_.app_number(); }
  void put(std::string_view key, std::string_view value) override { session_.put(key, value); }
  std::string get(Rank from, std::string_view key) override { return session_.get(from, key); }
  void fence() override { session_.fence(); }
  [[noreturn]] void abort(int code, std::string_view why) override { session_.abort(code, why); }
  void on_peer_death(PmixNews::Told told) override {
    watches_ = true;
    session_.on_peer_death(told);
  }

 private:
  PmixSession& session_;
  bool watches_ = false;
};

}  // namespace

std::unique_ptr<Job> join_pmix_job() { return std::make_unique<PmixJob>(); }

}  // namespace weft::fabric

#if defined(__SANITIZE_ADDRESS__)
// What libpmix itself does not free is not ours to find.
extern "C" {
const char* __lsan_default_suppressions();
const char* __lsan_default_options();
const char* __lsan_default_suppressions() { return "leak:libpmix\n"; }
const char* __lsan_default_options() { return "print_suppressions=0"; }
}
#endif
