// The provider for processes that a PMI-1 launcher started: what Job promises, on put, get and
// barrier of a key-value space of strings (docs/design/launcher.md).
#include "fabric/job_pmi1.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "fabric/job_last_words.hpp"
#include "fabric/job_secret.hpp"
#include "fabric/pmi1_connection.hpp"
#include "fabric/pmi1_wire.hpp"
#include "weft/base/config.hpp"

namespace weft::fabric {
namespace {

/// Names that no user's key can have, since those get a colon in front.
constexpr std::string_view kSecretName = "job";
constexpr std::string_view kHostName = "host";
constexpr std::size_t kMostIdCharacters = 64;  ///< of the launcher's name, in ours

/// The number in an environment variable. Throws Error(launcher).
int number_from(const char* variable, int low, int high) {
  const std::string text = base::environment(variable).value;
  int number = 0;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (bad != std::errc() || end != text.data() + text.size() || number < low || number > high)
    throw Error(Errc::launcher, fmt::format("{}={}: not a number from {} to {}, which a PMI-1 "
                                            "launcher would give",
                                            variable, text, low, high));
  return number;
}

/// Names this machine, until it is started again.
std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string identity;
  if (std::getline(file, identity) && !identity.empty()) return identity;
  utsname name{};
  uname(&name);
  return name.nodename;
}

/// The outcome of a request: its "rc", and what the server says of it.
void expect_success(const Pmi1Message& answer, std::string_view asked) {
  if (pmi1_number(answer, "rc", INT32_MIN, INT32_MAX) == 0) return;
  const auto said = answer.fields.find("msg");
  throw Error(Errc::launcher,
              fmt::format("{}: the launcher refuses: {}", asked,
                          said == answer.fields.end() ? "no reason given" : said->second));
}

/// This process's membership of its job.
///
/// Lifetime: from the first join to the end of the process: the protocol has no second beginning.
/// The Job objects that a program makes one after another are views of this.
/// Who may call: any thread.
/// Invariants: (1) the n-th publication of a key has a name of its own, because some servers refuse
/// a name twice and others keep what they fetched; the newest counts. (2) A value's first piece is
/// put after the others: who finds it finds all.
class Pmi1Session {
 public:
  Pmi1Session();
  /// Ends it in order; the object stays, for threads that the end of the process overtakes.
  void leave() noexcept;

  Rank rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  const std::vector<Rank>& node_ranks() const noexcept { return node_ranks_; }
  int node_of(Rank rank) const noexcept { return node_of_[static_cast<std::size_t>(rank.value)]; }
  int node_count() const noexcept { return node_count_; }
  const std::string& id() const noexcept { return id_; }
  const std::string& key() const noexcept { return key_; }

  void put(std::string_view key, std::string_view value);
  std::string get(Rank from, std::string_view key);
  void fence();
  std::optional<int> app_number();
  [[noreturn]] void abort(int code, std::string_view why);

 private:
  /// What is known of a key of a rank.
  struct Known {
    int generation = 0;   ///< the newest publication that was found
    uint64_t fences = 0;  ///< how many had ended when it was looked for
    std::string value;
  };

  Pmi1Message greet();
  void begin();
  void find_nodes();
  void agree();
  void publish(std::string_view name, std::string_view value);
  std::optional<std::string> fetch(Rank from, std::string_view name, int generation);
  std::string fetched(Rank from, std::string_view name);
  std::optional<std::string> ask_for(const std::string& name);
  void refuse_in_fork() const;
  [[nodiscard]] bool in_fork() const noexcept { return getpid() != pid_; }

  const pid_t pid_ = getpid();  ///< a forked child must not speak for its parent
  const int size_ = number_from("PMI_SIZE", 1, kPmi1MostRanks);
  const Rank rank_{number_from("PMI_RANK", 0, size_ - 1)};
  Pmi1Connection server_{number_from("PMI_FD", 0, INT32_MAX)};
  Pmi1Space space_;
  std::vector<int> node_of_;
  std::vector<Rank> node_ranks_;
  int node_count_ = 1;
  bool nodes_told_ = false;  ///< by the launcher
  std::string id_;
  std::string key_;

  std::mutex put_lock_;                                    ///< of what follows
  std::map<std::string, int, std::less<>> generation_of_;  ///< name → how often it was put
  std::mutex known_lock_;                                  ///< of what follows
  uint64_t fences_ = 0;
  std::map<std::pair<int, std::string>, Known> known_;
};

Pmi1Session::Pmi1Session() {
  begin();
  find_nodes();
  agree();
}

Pmi1Message Pmi1Session::greet() {
  try {
    return server_.ask(pmi1_line("init", {{"pmi_version", "1"}, {"pmi_subversion", "1"}}),
                       "response_to_init");
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{} (it serves one program of each rank: was there "
                                          "another before this one?)",
                                          error.what()));
  }
}

void Pmi1Session::begin() {
  const Pmi1Message hello = greet();
  expect_success(hello, "init");
  if (const std::string& version = pmi1_word(hello, "pmi_version"); version != "1")
    throw Error(Errc::launcher,
                fmt::format("the launcher behind PMI_FD speaks PMI {}, and this program PMI 1 and "
                            "PMIx: ask it for one of these (srun --mpi=pmix)",
                            version));
  const Pmi1Message maxes = server_.ask(pmi1_line("get_maxes"), "maxes");
  space_ = pmi1_space(maxes, server_.ask(pmi1_line("get_my_kvsname"), "my_kvsname"));
}

/// From the launcher's map, if it gives one that makes sense; else `agree` asks the ranks.
void Pmi1Session::find_nodes() {
  const std::optional<std::string> mapping = ask_for("PMI_process_mapping");
  if (!mapping) return;
  try {
    node_of_ = parse_pmi1_mapping(*mapping, size_);
    nodes_told_ = true;
  } catch (const Error&) {
    // MPICH 5's Hydra tells a job of one "(vector,0)".
  }
}

/// The ranks tell each other what the launcher does not: the key, where they run, what makes the
/// job's name unlike any other.
void Pmi1Session::agree() {
  const std::string here = host_identity();
  const auto first_of = [this](int node) {
    return static_cast<int>(std::ranges::find(node_of_, node) - node_of_.begin());
  };
  const int leader = nodes_told_ ? first_of(node_of(rank_)) : 0;
  if (!nodes_told_ || leader == rank_.value) publish(kHostName, here);
  if (rank_.value == 0) publish(kSecretName, random_hex(4) + random_job_key());
  fence();
  const std::string secret = fetched(Rank{0}, kSecretName);
  if (secret.size() != 40) throw Error(Errc::launcher, "the job's key came mutilated");
  key_ = secret.substr(8);
  id_ = "pmi1-";
  for (const char c : space_.name.substr(0, kMostIdCharacters)) {
    const bool safe = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
    id_.push_back(safe ? c : '_');
  }
  id_ += '-' + secret.substr(0, 8);

  if (!nodes_told_) {
    std::map<std::string, int> numbers;
    for (int r = 0; r < size_; ++r)
      node_of_.push_back(
          numbers.emplace(fetched(Rank{r}, kHostName), numbers.size()).first->second);
  } else if (leader != rank_.value && fetched(Rank{leader}, kHostName) != here) {
    throw Error(Errc::launcher,
                fmt::format("the launcher says (PMI_process_mapping) that ranks {} and {} share a "
                            "node, but they run on different machines",
                            leader, rank_.value));
  }
  node_count_ = 1 + *std::ranges::max_element(node_of_);
  for (int r = 0; r < size_; ++r)
    if (node_of(Rank{r}) == node_of(rank_)) node_ranks_.push_back(Rank{r});
}

void Pmi1Session::leave() noexcept {
  if (in_fork()) return;
  try {
    server_.ask(pmi1_line("finalize"), "finalize_ack");
  } catch (const Error&) {
    // The launcher went away first; there is nothing left to leave.
  }
}

void Pmi1Session::put(std::string_view key, std::string_view value) {
  refuse_in_fork();
  publish(fmt::format(":{}", key), value);
}

void Pmi1Session::publish(std::string_view name, std::string_view value) {
  const std::lock_guard hold(put_lock_);
  int& generation = generation_of_.try_emplace(std::string(name), 0).first->second;
  const std::vector<std::string> pieces = split_pmi1(value, space_.most_value);
  for (std::size_t i = pieces.size(); i-- > 0;) {
    const std::string full = pmi1_key(space_, rank_, name, generation + 1, static_cast<int>(i));
    const Pmi1Message answer = server_.ask(
        pmi1_line("put", {{"kvsname", space_.name}, {"key", full}, {"value", pieces[i]}}),
        "put_result");
    expect_success(answer, fmt::format("put of '{}'", full));
  }
  ++generation;
}

std::optional<int> Pmi1Session::app_number() {
  if (in_fork()) return std::nullopt;
  try {
    const Pmi1Message answer = server_.ask(pmi1_line("get_appnum"), "appnum");
    return static_cast<int>(pmi1_number(answer, "appnum", 0, INT32_MAX));
  } catch (const Error&) {
    return std::nullopt;  // a server that does not know the question, or that job's number
  }
}

/// The value of a name as the server has it, or nothing.
std::optional<std::string> Pmi1Session::ask_for(const std::string& name) {
  const Pmi1Message answer =
      server_.ask(pmi1_line("get", {{"kvsname", space_.name}, {"key", name}}), "get_result");
  if (pmi1_number(answer, "rc", INT32_MIN, INT32_MAX) != 0) return std::nullopt;
  return pmi1_word(answer, "value");
}

/// One generation of what `from` published, or nothing.
std::optional<std::string> Pmi1Session::fetch(Rank from, std::string_view name, int generation) {
  const std::optional<std::string> first = ask_for(pmi1_key(space_, from, name, generation, 0));
  if (!first) return std::nullopt;
  Pmi1Head head = parse_pmi1_head(*first);
  std::string text = std::move(head.begin);
  for (int piece = 1; piece < head.pieces; ++piece) {
    const std::optional<std::string> more =
        ask_for(pmi1_key(space_, from, name, generation, piece));
    if (!more)
      throw Error(Errc::launcher, fmt::format("the launcher lost piece {} of {} of what rank {} "
                                              "published",
                                              piece + 1, head.pieces, from.value));
    text += *more;
  }
  return join_pmi1(head, text);
}

std::string Pmi1Session::fetched(Rank from, std::string_view name) {
  std::optional<std::string> value = fetch(from, name, 1);
  if (!value)
    throw Error(Errc::launcher, fmt::format("the launcher does not have what rank {} published "
                                            "before a barrier",
                                            from.value));
  return *std::move(value);
}

/// While no fence ended since it was last looked for, what is here is all there is; after that the
/// server is asked for a newer publication.
std::string Pmi1Session::get(Rank from, std::string_view key) {
  refuse_in_fork();
  if (from.value < 0 || from.value >= size_)
    throw Error(Errc::no_such_peer, fmt::format("get: rank {} of a job of {}", from.value, size_));
  const std::string name = fmt::format(":{}", key);
  const std::pair place(from.value, name);
  Known newest;
  uint64_t now = 0;
  {
    const std::lock_guard hold(known_lock_);
    now = fences_;
    if (const auto found = known_.find(place); found != known_.end()) newest = found->second;
    if (newest.generation > 0 && newest.fences == now) return newest.value;
  }
  while (std::optional<std::string> newer = fetch(from, name, newest.generation + 1)) {
    ++newest.generation;
    newest.value = *std::move(newer);
  }
  if (newest.generation == 0)
    throw Error(Errc::no_such_peer,
                fmt::format("get: rank {} never published '{}'", from.value, key));
  newest.fences = now;
  const std::lock_guard hold(known_lock_);
  Known& known = known_[place];
  if (known.generation <= newest.generation) known = newest;
  return newest.value;
}

void Pmi1Session::fence() {
  refuse_in_fork();
  server_.barrier();
  const std::lock_guard hold(known_lock_);
  ++fences_;
}

void Pmi1Session::refuse_in_fork() const {
  if (in_fork()) throw Error(Errc::launcher, "a forked child cannot use the job of its parent");
}

void Pmi1Session::abort(int code, std::string_view why) {
  std::fflush(nullptr);
  const int exit_code = abort_exit_code(code);
  if (!in_fork()) {
    print_line(fmt::format("weft: rank {} ended the job: {}", rank_.value, why));
    await_readers();
    server_.tell(pmi1_line("abort", {{"exitcode", std::to_string(exit_code)}}));
  }
  _exit(exit_code);
}

Pmi1Session* g_pmi1_session = nullptr;

Pmi1Session& join_pmi1_once() {
  static std::mutex lock;
  const std::lock_guard hold(lock);
  if (g_pmi1_session == nullptr) {
    g_pmi1_session = std::make_unique<Pmi1Session>().release();
    std::atexit([] { g_pmi1_session->leave(); });
  }
  return *g_pmi1_session;
}

class Pmi1Job final : public Job {
 public:
  Rank rank() const noexcept override { return session_.rank(); }
  int size() const noexcept override { return session_.size(); }
  const std::vector<Rank>& node_ranks() const noexcept override { return session_.node_ranks(); }
  int node_of(Rank rank) const noexcept override { return session_.node_of(rank); }
  int node_count() const noexcept override { return session_.node_count(); }
  const std::string& id() const noexcept override { return session_.id(); }
  const std::string& key() const noexcept override { return session_.key(); }
  std::string_view provider() const noexcept override { return "pmi1"; }
  std::optional<int> app_number() override { return session_.app_number(); }
  void put(std::string_view key, std::string_view value) override { session_.put(key, value); }
  std::string get(Rank from, std::string_view key) override { return session_.get(from, key); }
  void fence() override { session_.fence(); }
  [[noreturn]] void abort(int code, std::string_view why) override { session_.abort(code, why); }
  void on_peer_death(std::function<void(Rank, std::string)>) override {
    // Nobody tells: the protocol has no words for it.
  }

 private:
  Pmi1Session& session_ = join_pmi1_once();
};

}  // namespace

std::unique_ptr<Job> join_pmi1_job() { return std::make_unique<Pmi1Job>(); }

}  // namespace weft::fabric
