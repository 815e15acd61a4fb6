// The PMIx server inside weftrun.
//
// All ranks are local to it, so that the library itself ends their fences and answers their gets.
// It asks its host, which is us, about a fence only once a rank was lost: that fence can never be
// complete, and the answer says so.
#include "weftrun/pmix_server.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pmix.h>
#include <pmix_server.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cstdlib>
#include <future>
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
class Answer {
 public:
  static void callback(pmix_status_t status, void* self) {
    static_cast<Answer*>(self)->promise_.set_value(status);
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

}  // namespace

/// PMIx's upcalls, on its thread: quick, and never back into PMIx.
struct PmixServer::Callbacks {
  static pmix_status_t connected(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t finalized(const pmix_proc_t* who, void*, pmix_op_cbfunc_t, void*) {
    g_server->push({Event::finalized, static_cast<int>(who->rank), 0, {}, {}});
    return PMIX_OPERATION_SUCCEEDED;
  }
  static pmix_status_t aborted(const pmix_proc_t* who, void*, int code, const char text[],
                               pmix_proc_t*, std::size_t, pmix_op_cbfunc_t done, void* done_data) {
    g_server->push({Event::aborted, static_cast<int>(who->rank), code, text == nullptr ? "" : text,
                    [=] { done(PMIX_SUCCESS, done_data); }});
    return PMIX_SUCCESS;
  }
  static pmix_status_t fence_without_lost(const pmix_proc_t*, std::size_t, const pmix_info_t*,
                                          std::size_t, char*, std::size_t, pmix_modex_cbfunc_t,
                                          void*) {
    return PMIX_ERR_PROC_TERM_WO_SYNC;
  }
  /// A value of a rank that is not here: there is none.
  static pmix_status_t direct_modex(const pmix_proc_t*, const pmix_info_t*, std::size_t,
                                    pmix_modex_cbfunc_t, void*) {
    return PMIX_ERR_NOT_FOUND;
  }
};

PmixServer::PmixServer(const Plan& plan)
    : nspace_(fmt::format("{}{}-{}", fabric::kNamespacePrefix, getpid(), fabric::random_hex(4))),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  g_server = this;
  static pmix_server_module_t module{};
  module.client_connected = Callbacks::connected;
  module.client_finalized = Callbacks::finalized;
  module.abort = Callbacks::aborted;
  module.fence_nb = Callbacks::fence_without_lost;
  module.direct_modex = Callbacks::direct_modex;
  {
    // Job data in each rank's memory, 2 KiB a rank, and no files that could be left behind.
    const ScopedVariable store("PMIX_MCA_gds", "hash");
    // The server reads the machine's topology, 7 ms, to answer questions that weft never asks.
    const ScopedVariable topology("HWLOC_SYNTHETIC", "pu:1");
    Infos infos;
    infos.add(PMIX_SERVER_TMPDIR, plan.temp_dir.c_str(), PMIX_STRING);
    infos.add(PMIX_SYSTEM_TMPDIR, plan.temp_dir.c_str(), PMIX_STRING);
    check(PMIx_server_init(&module, infos.data(), infos.size()), "PMIx_server_init");
  }

  std::vector<int> ranks(static_cast<std::size_t>(plan.ranks));
  std::iota(ranks.begin(), ranks.end(), 0);
  const std::string all = fmt::format("{}", fmt::join(ranks, ","));
  char* node_map = nullptr;
  char* rank_map = nullptr;
  check(PMIx_generate_regex(plan.host.c_str(), &node_map), "PMIx_generate_regex");
  check(PMIx_generate_ppn(all.c_str(), &rank_map), "PMIx_generate_ppn");
  const auto count = static_cast<uint32_t>(plan.ranks);
  const auto nodes = static_cast<uint32_t>(plan.fake_nodes);
  Infos infos;
  infos.add(PMIX_JOB_SIZE, &count, PMIX_UINT32);
  infos.add(PMIX_UNIV_SIZE, &count, PMIX_UINT32);
  infos.add(PMIX_MAX_PROCS, &count, PMIX_UINT32);
  infos.add(PMIX_LOCAL_SIZE, &count, PMIX_UINT32);
  infos.add(PMIX_LOCAL_PEERS, all.c_str(), PMIX_STRING);
  infos.add(PMIX_NODE_MAP, node_map, PMIX_REGEX);
  infos.add(PMIX_PROC_MAP, rank_map, PMIX_REGEX);
  infos.add(fabric::kFakeNodesInfo, &nodes, PMIX_UINT32);
  std::free(node_map);
  std::free(rank_map);
  Answer registered;
  registered.expect(PMIx_server_register_nspace(nspace_.c_str(), plan.ranks, infos.data(),
                                                infos.size(), Answer::callback, &registered),
                    "PMIx_server_register_nspace");
  pmix_proc_t client;
  for (const int rank : ranks) {
    PMIX_LOAD_PROCID(&client, nspace_.c_str(), static_cast<pmix_rank_t>(rank));
    Answer known;
    known.expect(
        PMIx_server_register_client(&client, getuid(), getgid(), nullptr, Answer::callback, &known),
        "PMIx_server_register_client");
  }
}

std::vector<std::string> PmixServer::environment() const {
  pmix_proc_t first;
  PMIX_LOAD_PROCID(&first, nspace_.c_str(), 0);
  char** pairs = nullptr;
  check(PMIx_server_setup_fork(&first, &pairs), "PMIx_server_setup_fork");
  std::vector<std::string> variables;
  for (char** pair = pairs; pair != nullptr && *pair != nullptr; ++pair) {
    if (!std::string_view(*pair).starts_with("PMIX_RANK=")) variables.emplace_back(*pair);
    std::free(*pair);
  }
  std::free(pairs);
  variables.push_back(fmt::format("{}={}", fabric::kJobKeyVariable, fabric::random_job_key()));
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

void PmixServer::notify(int code, int rank, const std::string& text) {
  if (breakdown() != 0) return;
  pmix_proc_t who;
  PMIX_LOAD_PROCID(&who, nspace_.c_str(), static_cast<pmix_rank_t>(rank));
  Infos infos;
  infos.add(PMIX_EVENT_AFFECTED_PROC, &who, PMIX_PROC);
  infos.add(PMIX_EVENT_TEXT_MESSAGE, text.c_str(), PMIX_STRING);
  Answer told;
  told.expect(PMIx_Notify_event(code, &who, PMIX_RANGE_LOCAL, infos.data(), infos.size(),
                                Answer::callback, &told),
              "PMIx_Notify_event");
}

}  // namespace weft::run
