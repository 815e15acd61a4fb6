// The guardian's own life: starts the ranks, reaps them, and when weftrun is gone, however that
// came about, kills what is left of the job and removes its folder.
//
// It is a process of one thread with a process group of its own, and a session of its own where
// there is a terminal, so that a signal to weftrun's group or terminal does not hit it, and a child
// subreaper, so that the orphans of dead ranks come to it and not to init. The ranks are its
// children: the kernel kills them should it die itself.
#include "weftrun/guardian_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>

#include "fabric/job_wire.hpp"

namespace weft::run {
namespace {

constexpr std::string_view kName = "weft-guardian";

/// Most bytes of environment that weftrun sends.
constexpr std::size_t kPacketBytes = 65536;

bool has_terminal() { return Fd(open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)).get() >= 0; }

class GuardianProcess {
 public:
  GuardianProcess(GuardPlan plan, Fd socket)
      : plan_(std::move(plan)), socket_(std::move(socket)), pids_(ranks(), 0) {}

  [[noreturn]] void run();

 private:
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(plan_.ranks); }
  void settle_in();
  void on_packet();
  void start_ranks(std::string_view additions);
  void signal_all(int signal);
  void reap();
  void say(GuardWord::Kind kind, int rank, int value, std::string_view text = {});
  void flush();
  [[noreturn]] void leave();

  GuardPlan plan_;
  Fd socket_;
  Fd children_;              ///< signalfd of SIGCHLD
  std::vector<pid_t> pids_;  ///< of this host's ranks, the first first; 0 when there is none
  std::deque<std::string> unsent_;
};

void GuardianProcess::settle_in() {
  for (const int fd : plan_.not_yours)
    if (fd >= 0) close(fd);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_NAME, kName.data());
  // Elsewhere the session stays the caller's: Linux shares cores out among sessions, see spawn.cpp.
  if (has_terminal()) {
    setsid();
  } else {
    setpgid(0, 0);
  }
  // Our name in `ps`, over weftrun's arguments. (What the options hold was copied.)
  char** const area = plan_.argv_area;
  if (area != nullptr && area[0] != nullptr) {
    char** last = area;
    while (last[1] != nullptr) ++last;
    const std::size_t room = static_cast<std::size_t>(*last + std::strlen(*last) - area[0]);
    std::memset(area[0], 0, room);
    std::memcpy(area[0], kName.data(), std::min(room, kName.size()));
  }
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  children_ = Fd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  // The user's descriptors are not ours to hold open.
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int fd = 0; fd <= 2; ++fd) dup2(null.get(), fd);
}

void GuardianProcess::run() {
  settle_in();
  for (;;) {
    const short write_too = unsent_.empty() ? 0 : POLLOUT;
    std::array<pollfd, 2> waiting{
        {{socket_.get(), static_cast<short>(POLLIN | write_too), 0}, {children_.get(), POLLIN, 0}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) leave();
    if ((waiting[1].revents & POLLIN) != 0) reap();
    if ((waiting[0].revents & POLLOUT) != 0) flush();
    if ((waiting[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) on_packet();
  }
}

void GuardianProcess::on_packet() {
  std::string packet(kPacketBytes, '\0');
  const ssize_t got = recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  GuardWord word;
  if (got < static_cast<ssize_t>(sizeof word)) leave();
  std::memcpy(&word, packet.data(), sizeof word);
  switch (word.kind) {
    case GuardWord::start:
      start_ranks(std::string_view(packet).substr(sizeof word,
                                                  static_cast<std::size_t>(got) - sizeof word));
      break;
    case GuardWord::signal:
      signal_all(word.value);
      break;
    case GuardWord::sweep:
      reap();
      end_job_wholly(plan_.shm_dir);
      say(GuardWord::swept, 0, 0);
      break;
    default:
      leave();
  }
}

/// What the ranks of one program are started with.
struct Start {
  std::vector<std::string> variables;
  std::vector<std::string> words;
  std::vector<char*> envp, argv;  ///< into these
};

bool names_same(std::string_view pair, const std::vector<std::string>& pairs) {
  const std::string_view name = pair.substr(0, pair.find('=') + 1);
  return std::any_of(pairs.begin(), pairs.end(),
                     [&](const std::string& own) { return own.starts_with(name); });
}

/// `own`: variables that each rank gets beside, at the end, written later.
Start start_of(const Options& options, std::size_t number, std::string_view additions,
               std::initializer_list<char*> own) {
  const App& app = options.apps[number];
  Start start;
  auto& variables = start.variables;
  for (char** pair = environ; *pair != nullptr; ++pair)
    if (!names_same(*pair, options.env) && !names_same(*pair, app.env))
      variables.emplace_back(*pair);
  for (const std::string& pair : options.env)
    if (!names_same(pair, app.env)) variables.push_back(pair);
  variables.insert(variables.end(), app.env.begin(), app.env.end());
  while (!additions.empty()) {
    const std::string_view pair = additions.substr(0, additions.find('\0'));
    variables.emplace_back(pair);
    additions.remove_prefix(std::min(additions.size(), pair.size() + 1));
  }
  variables.push_back(fmt::format("{}={}", fabric::kAppVariable, number));
  variables.push_back(fmt::format("{}={}", fabric::kAppRanksVariable, app.ranks));
  start.words = app.command;
  for (std::string& pair : variables) start.envp.push_back(pair.data());
  start.envp.insert(start.envp.end(), own);
  start.envp.push_back(nullptr);
  for (std::string& word : start.words) start.argv.push_back(word.data());
  start.argv.push_back(nullptr);
  return start;
}

/// Starts all ranks. `additions`: "K=V" of the job, each ended by a zero byte.
void GuardianProcess::start_ranks(std::string_view additions) {
  const Options& options = *plan_.options;
  std::array<char, 32> rank_variable{};
  std::array<char, 64> share_variable{};
  std::vector<Start> starts(options.apps.size());
  for (std::size_t i = 0; i < starts.size(); ++i)
    starts[i] = start_of(options, i, additions, {rank_variable.data(), share_variable.data()});

  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  SpawnPlan spawn_plan;
  spawn_plan.signal_mask = plan_.signal_mask;
  spawn_plan.descriptors = plan_.descriptors;
  spawn_plan.place_may_fail = plan_.placement->may_fail;
  for (std::size_t i = 0; i < ranks(); ++i) {
    const int local = static_cast<int>(i);
    const int rank = plan_.first_rank + local;
    *fmt::format_to_n(rank_variable.data(), rank_variable.size() - 1, "PMIX_RANK={}", rank).out =
        '\0';
    const auto share = plan_.placement->share_of(local, plan_.ranks);
    *fmt::format_to_n(share_variable.data(), share_variable.size() - 1, "{}={}/{}",
                      base::kCoreShareVariable, share.number, share.of)
         .out = '\0';
    const App& app = options.app_of(rank);
    const Start& start = starts[static_cast<std::size_t>(&app - options.apps.data())];
    spawn_plan.program = app.program.c_str();
    spawn_plan.folder = app.folder.empty() ? nullptr : app.folder.c_str();
    spawn_plan.argv = start.argv.data();
    spawn_plan.envp = start.envp.data();
    spawn_plan.in = rank == 0 && plan_.in ? plan_.in.get() : null.get();
    spawn_plan.out = plan_.out[i].get();
    spawn_plan.err = plan_.err[i].get();
    spawn_plan.place = plan_.placement->of(local);
    const SpawnResult result = spawn(spawn_plan);
    if (result.pid < 0) {
      say(GuardWord::start_failed, rank, result.error, result.step);
      break;
    }
    pids_[i] = result.pid;
    say(GuardWord::started, rank, result.pid);
  }
  // Only the ranks hold the writing ends now, so that their ends can be seen.
  plan_.in.reset();
  plan_.out.clear();
  plan_.err.clear();
  say(GuardWord::all_started, 0, 0);
}

void GuardianProcess::signal_all(int signal) {
  for (const pid_t pid : pids_)
    if (pid > 0) kill(-pid, signal);
}

void GuardianProcess::reap() {
  signalfd_siginfo swallowed;
  while (read(children_.get(), &swallowed, sizeof swallowed) > 0) {
  }
  for (;;) {
    siginfo_t about{};
    if (waitid(P_ALL, 0, &about, WEXITED | WNOHANG | WNOWAIT) != 0 || about.si_pid == 0) return;
    const pid_t pid = about.si_pid;
    const auto found = std::find(pids_.begin(), pids_.end(), pid);
    // What a failed rank had started goes with it. Now, while its unreaped pid cannot be another
    // process's.
    const bool failed = about.si_code != CLD_EXITED || about.si_status != 0;
    if (found != pids_.end() && failed) kill(-pid, SIGKILL);
    int status = 0;
    waitpid(pid, &status, 0);
    if (found == pids_.end()) continue;
    *found = 0;
    say(GuardWord::ended, plan_.first_rank + static_cast<int>(found - pids_.begin()), status);
  }
}

/// Never blocks: a guardian that waits for a stopped weftrun would guard nothing.
void GuardianProcess::say(GuardWord::Kind kind, int rank, int value, std::string_view text) {
  const GuardWord word{kind, rank, value};
  std::string packet(reinterpret_cast<const char*>(&word), sizeof word);
  packet.append(text);
  unsent_.push_back(std::move(packet));
  flush();
}

void GuardianProcess::flush() {
  while (!unsent_.empty()) {
    const std::string& packet = unsent_.front();
    if (send(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      leave();
    }
    unsent_.pop_front();
  }
}

void GuardianProcess::leave() {
  end_job_wholly(plan_.shm_dir);
  remove_tree(plan_.temp_dir);
  _exit(0);
}

}  // namespace

void run_guardian(GuardPlan plan, Fd socket) {
  GuardianProcess(std::move(plan), std::move(socket)).run();
}

}  // namespace weft::run
