// The PMIx server inside weftrun.
//
// Where all ranks are local to it, the library itself ends their fences and answers their gets. It
// asks its host, which is us, about a fence only once a rank was lost: that fence can never be
// complete, and the answer says so. Of a job of several hosts it asks about every fence that all
// local ranks have come to, and about each rank that is elsewhere: both are left to the main thread
// (exchange.cpp).
#include "weftrun/pmix_server.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pmix.h>
#include <pmix_server.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "fabric/job_secret.hpp"
#include "fabric/job_wire.hpp"
#include "weftrun/breakdown.hpp"

namespace weft::run {
namespace {

PmixServer* g_server = nullptr;  ///< PMIx's upcalls carry no pointer of ours

void check(pmix_status_t status, const char* what) {
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    throw std::runtime_error(fmt::format("{}: {}", what, PMIx_Error_string(status)));
}

/// Waits for the callback of an asynchronous PMIx call that may also end at once.
class Outcome {
 public:
  static void callback(pmix_status_t status, void* self) {
    static_cast<Outcome*>(self)->promise_.set_value(status);
  }
  void expect(pmix_status_t asked, const char* what) {
    if (asked == PMIX_OPERATION_SUCCEEDED) return;
    check(asked, what);
    check(promise_.get_future().get(), what);
  }

 private:
  std::promise<pmix_status_t> promise_;
};

/// An array of pmix_info_t that releases what PMIX_INFO_LOAD copied into it.
class Infos {
 public:
  ~Infos() {
    for (pmix_info_t& info : infos_) PMIX_INFO_DESTRUCT(&info);
  }
  void add(const char* key, const void* value, pmix_data_type_t type) {
    infos_.emplace_back();
    PMIX_INFO_LOAD(&infos_.back(), key, value, type);
  }
  pmix_info_t* data() { return infos_.data(); }
  [[nodiscard]] std::size_t size() const { return infos_.size(); }

 private:
  std::vector<pmix_info_t> infos_;
};

/// While it lives, this process's environment has `name` set.
class ScopedVariable {
 public:
  // NOLINTBEGIN(concurrency-mt-unsafe): PMIx's thread does not run before its init returns.
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  // NOLINTEND(concurrency-mt-unsafe)
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

/// "4,5,6"
std::string rank_list(const NodePart& node) {
  std::vector<int> ranks(static_cast<std::size_t>(node.ranks));
  std::iota(ranks.begin(), ranks.end(), node.first);
  return fmt::format("{}", fmt::join(ranks, ","));
}

}  // namespace

/// PMIx's upcalls, on its thread: quick, and never back into PMIx.
struct PmixServer::Callbacks {
  static pmix_status_t connected(const pmix_proc_t* who, void*, pmix_op_cbfunc_t, void*) {
    g_server->push({Event::joined, static_cast<int>(who->rank), 0, {}, {}, {}});
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t finalized(const pmix_proc_t* who, void*, pmix_op_cbfunc_t, void*) {
    g_server->push({Event::finalized, static_cast<int>(who->rank), 0, {}, {}, {}});
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t aborted(const pmix_proc_t* who, void*, int code, const char text[],
                               pmix_proc_t*, std::size_t, pmix_op_cbfunc_t done, void* done_data) {
    g_server->push({Event::aborted,
                    static_cast<int>(who->rank),
                    code,
                    text == nullptr ? "" : text,
                    [=] { done(PMIX_SUCCESS, done_data); },
                    {}});
    return PMIX_SUCCESS;
  }
  /// PMIx lets go of what it was answered.
  static void release(void* bytes) { delete static_cast<std::string*>(bytes); }
  static Answer answer_by(pmix_modex_cbfunc_t done, void* done_data) {
    return [done, done_data](int status, const std::string& bytes) {
      if (bytes.empty()) return done(status, nullptr, 0, done_data, nullptr, nullptr);
      auto* const kept = new std::string(bytes);
      done(status, kept->data(), kept->size(), done_data, release, kept);
    };
  }
  static pmix_status_t fence(const pmix_proc_t* who, std::size_t count, const pmix_info_t* info,
                             std::size_t infos, char* data, std::size_t bytes,
                             pmix_modex_cbfunc_t done, void* done_data) {
    if (g_server->nodes_.size() < 2) return PMIX_ERR_PROC_TERM_WO_SYNC;
    if (count != 1 || who->rank != PMIX_RANK_WILDCARD) return PMIX_ERR_NOT_SUPPORTED;
    bool collect = false;
    for (std::size_t i = 0; i < infos; ++i)
      if (PMIX_CHECK_KEY(&info[i], PMIX_COLLECT_DATA)) {
        collect = PMIX_INFO_TRUE(&info[i]);
      } else if (PMIX_CHECK_KEY(&info[i], PMIX_LOCAL_COLLECTIVE_STATUS) &&
                 info[i].value.data.status != PMIX_SUCCESS) {
        return PMIX_ERR_PROC_TERM_WO_SYNC;  // without a rank of this host, which left or died
      }
    Event event;
    event.kind = Event::fence;
    if (collect && data != nullptr) event.text.assign(data, bytes);
    event.answer = answer_by(done, done_data);
    g_server->push(std::move(event));
    std::free(data);
    return PMIX_SUCCESS;
  }
  /// A value of a rank that is not here.
  static pmix_status_t direct_modex(const pmix_proc_t* who, const pmix_info_t*, std::size_t,
                                    pmix_modex_cbfunc_t done, void* done_data) {
    if (g_server->nodes_.size() < 2 || who->rank > PMIX_RANK_VALID) return PMIX_ERR_NOT_FOUND;
    Event event;
    event.kind = Event::modex_ask;
    event.rank = static_cast<int>(who->rank);
    event.answer = answer_by(done, done_data);
    g_server->push(std::move(event));
    return PMIX_SUCCESS;
  }
  static void requested(pmix_status_t status, char* data, std::size_t bytes, void* answer) {
    const std::unique_ptr<Answer> owned(static_cast<Answer*>(answer));
    (*owned)(status, data == nullptr ? std::string() : std::string(data, bytes));
  }
};

PmixServer::PmixServer(const Plan& plan)
    : nspace_(plan.nspace),
      nodes_(plan.nodes),
      node_(plan.node),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  g_server = this;
  static pmix_server_module_t module{};
  module.client_connected = Callbacks::connected;
  module.client_finalized = Callbacks::finalized;
  module.abort = Callbacks::aborted;
  module.fence_nb = Callbacks::fence;
  module.direct_modex = Callbacks::direct_modex;
  {
    // Job data in each rank's memory, 2 KiB a rank, and no files that could be left behind.
    const ScopedVariable store("PMIX_MCA_gds", "hash");
    // The server reads the machine's topology, 7 ms, to answer questions that weft never asks.
    const ScopedVariable topology("HWLOC_SYNTHETIC", "pu:1");
    Infos infos;
    infos.add(PMIX_SERVER_TMPDIR, plan.temp_dir.c_str(), PMIX_STRING);
    infos.add(PMIX_SYSTEM_TMPDIR, plan.temp_dir.c_str(), PMIX_STRING);
    // By this name it finds itself among the nodes.
    if (nodes_.size() > 1 && node_ >= 0)
      infos.add(PMIX_HOSTNAME, node_part().host.c_str(), PMIX_STRING);
    check(PMIx_server_init(&module, infos.data(), infos.size()), "PMIx_server_init");
  }

  std::vector<std::string> hosts, ranks_of_hosts;
  int ranks = 0;
  for (const NodePart& node : nodes_) {
    hosts.push_back(node.host);
    ranks_of_hosts.push_back(rank_list(node));
    ranks += node.ranks;
  }
  const NodePart here = node_part();
  const std::string near = rank_list(here);
  char* node_map = nullptr;
  char* rank_map = nullptr;
  check(PMIx_generate_regex(fmt::format("{}", fmt::join(hosts, ",")).c_str(), &node_map),
        "PMIx_generate_regex");
  check(PMIx_generate_ppn(fmt::format("{}", fmt::join(ranks_of_hosts, ";")).c_str(), &rank_map),
        "PMIx_generate_ppn");
  const auto count = static_cast<uint32_t>(ranks);
  const auto local = static_cast<uint32_t>(here.ranks);
  const auto nodes = static_cast<uint32_t>(plan.fake_nodes);
  Infos infos;
  infos.add(PMIX_JOB_SIZE, &count, PMIX_UINT32);
  infos.add(PMIX_UNIV_SIZE, &count, PMIX_UINT32);
  infos.add(PMIX_MAX_PROCS, &count, PMIX_UINT32);
  infos.add(PMIX_LOCAL_SIZE, &local, PMIX_UINT32);
  infos.add(PMIX_LOCAL_PEERS, near.c_str(), PMIX_STRING);
  infos.add(PMIX_NODE_MAP, node_map, PMIX_REGEX);
  infos.add(PMIX_PROC_MAP, rank_map, PMIX_REGEX);
  infos.add(fabric::kFakeNodesInfo, &nodes, PMIX_UINT32);
  if (here.ranks > 0) cards_ = fabric::NodeCards::create(here.ranks);
  if (cards_) {
    infos.add(fabric::kCardsInfo, fabric::NodeCards::place(cards_).c_str(), PMIX_STRING);
  }
  std::free(node_map);
  std::free(rank_map);
  Outcome registered;
  registered.expect(PMIx_server_register_nspace(nspace_.c_str(), here.ranks, infos.data(),
                                                infos.size(), Outcome::callback, &registered),
                    "PMIx_server_register_nspace");
  pmix_proc_t client;
  for (int rank = here.first; rank < here.first + here.ranks; ++rank) {
    PMIX_LOAD_PROCID(&client, nspace_.c_str(), static_cast<pmix_rank_t>(rank));
    Outcome known;
    known.expect(PMIx_server_register_client(&client, getuid(), getgid(), nullptr,
                                             Outcome::callback, &known),
                 "PMIx_server_register_client");
  }
}

std::string PmixServer::new_nspace() {
  return fmt::format("{}{}-{}", fabric::kNamespacePrefix, getpid(), fabric::random_hex(4));
}

NodePart PmixServer::node_part() const {
  return node_ < 0 ? NodePart{} : nodes_.at(static_cast<std::size_t>(node_));
}

std::vector<std::string> PmixServer::environment(const std::string& key) const {
  pmix_proc_t first;
  PMIX_LOAD_PROCID(&first, nspace_.c_str(), static_cast<pmix_rank_t>(node_part().first));
  char** pairs = nullptr;
  check(PMIx_server_setup_fork(&first, &pairs), "PMIx_server_setup_fork");
  std::vector<std::string> variables;
  for (char** pair = pairs; pair != nullptr && *pair != nullptr; ++pair) {
    if (!std::string_view(*pair).starts_with("PMIX_RANK=")) variables.emplace_back(*pair);
    std::free(*pair);
  }
  std::free(pairs);
  variables.push_back(fmt::format("{}={}", fabric::kJobKeyVariable, key));
  return variables;
}

void PmixServer::push(Event event) {
  const std::lock_guard hold(lock_);
  events_.push_back(std::move(event));
  eventfd_write(bell_.get(), 1);
}

std::optional<PmixServer::Event> PmixServer::next_event() {
  const std::lock_guard hold(lock_);
  if (events_.empty()) {
    eventfd_t rung = 0;
    eventfd_read(bell_.get(), &rung);
    return std::nullopt;
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void PmixServer::tell_death(int rank, int status, const std::string& how) {
  notify(WIFSIGNALED(status) ? PMIX_ERR_PROC_ABORTED_BY_SIG : PMIX_ERR_PROC_TERM_WO_SYNC, rank,
         how);
}

void PmixServer::tell_left(int rank) {
  notify(PMIX_EVENT_PROC_TERMINATED, rank, "left the job before this fence");
}

void PmixServer::request(int rank, Answer answer) {
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, nspace_.c_str(), static_cast<pmix_rank_t>(rank));
  auto owned = std::make_unique<Answer>(std::move(answer));
  const pmix_status_t asked =
      breakdown() != 0 ? PMIX_ERR_UNREACH
                       : PMIx_server_dmodex_request(&who, Callbacks::requested, owned.get());
  if (asked == PMIX_SUCCESS)
    static_cast<void>(owned.release());
  else
    (*owned)(asked, {});
}

void PmixServer::notify(int code, int rank, const std::string& text) {
  if (breakdown() != 0) return;
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, nspace_.c_str(), static_cast<pmix_rank_t>(rank));
  Infos infos;
  infos.add(PMIX_EVENT_AFFECTED_PROC, &who, PMIX_PROC);
  infos.add(PMIX_EVENT_TEXT_MESSAGE, text.c_str(), PMIX_STRING);
  Outcome told;
  told.expect(PMIx_Notify_event(code, &who, PMIX_RANGE_LOCAL, infos.data(), infos.size(),
                                Outcome::callback, &told),
              "PMIx_Notify_event");
}

}  // namespace weft::run
