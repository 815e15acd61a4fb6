// weftrun's end of the guardian, and what both ends do to leave nothing behind.
#include "weftrun/guardian.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "fabric/shm_store.hpp"
#include "weftrun/guardian_process.hpp"

namespace weft::run {
namespace {

/// Between two rounds of killing: about what a killed process takes to be gone.
constexpr useconds_t kSweepPauseUs = 300;

/// The pids in a /proc/…/children file.
std::vector<pid_t> listed_in(const std::string& path) {
  std::vector<pid_t> pids;
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), &std::fclose);
  for (int pid = 0; file != nullptr && std::fscanf(file.get(), "%d", &pid) == 1;)
    pids.push_back(pid);
  return pids;
}

struct TaskState {
  pid_t parent = -1;
  unsigned flags = 0;
};

/// What a /proc/…/stat file says after the name, which may hold blanks and parentheses.
std::optional<TaskState> state_in(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> text{};
  if (!file || read(file.get(), text.data(), text.size() - 1) <= 0) return std::nullopt;
  const char* after = std::strrchr(text.data(), ')');
  TaskState state;
  if (after == nullptr ||
      std::sscanf(after + 1, " %*c %d %*d %*d %*d %*d %u", &state.parent, &state.flags) != 2)
    return std::nullopt;
  return state;
}

/// The parent of `pid`, or -1.
pid_t parent_of(pid_t pid) {
  return state_in(fmt::format("/proc/{}/stat", pid)).value_or(TaskState{}).parent;
}

std::vector<pid_t> numbered_entries(const char* folder) {
  std::vector<pid_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder), &closedir);
  while (listing != nullptr) {
    const dirent* entry = readdir(listing.get());
    if (entry == nullptr) break;
    pid_t number = 0;
    const char* const end = entry->d_name + std::strlen(entry->d_name);
    const auto [stop, bad] = std::from_chars(entry->d_name, end, number);
    if (bad == std::errc() && stop == end) numbers.push_back(number);
  }
  return numbers;
}

bool is_gone(pid_t pid) { return kill(pid, 0) != 0 && errno == ESRCH; }

/// Whether every thread of `pid` is on its way out, or gone. A process's descriptors are closed by
/// the last of its threads on that way. What /proc does not show is taken to live.
bool is_ending(pid_t pid) {
  constexpr unsigned kExiting = 4;  ///< PF_EXITING, of a thread's flags since Linux 2.6
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  const std::vector<pid_t> threads = numbered_entries(tasks.c_str());
  if (threads.empty()) return is_gone(pid);
  return std::all_of(threads.begin(), threads.end(), [&](pid_t thread) {
    const std::optional<TaskState> state = state_in(fmt::format("{}/{}/stat", tasks, thread));
    return state ? (state->flags & kExiting) != 0 : is_gone(thread);
  });
}

/// This process's children, orphans that came to it included.
std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  bool listed = false;
  for (const pid_t task : numbered_entries("/proc/self/task")) {
    const std::string path = fmt::format("/proc/self/task/{}/children", task);
    if (access(path.c_str(), R_OK) != 0) continue;
    listed = true;
    for (const pid_t pid : listed_in(path)) pids.push_back(pid);
  }
  if (listed) return pids;
  // A kernel without CONFIG_PROC_CHILDREN.
  for (const pid_t pid : numbered_entries("/proc"))
    if (parent_of(pid) == getpid()) pids.push_back(pid);
  return pids;
}

}  // namespace

// Each round kills our children; theirs become ours, since we are a subreaper, and fall in the
// next round. So it ends when there is no descendant left.
void end_all_descendants() {
  for (;;) {
    int status = 0;
    const pid_t reaped = waitpid(-1, &status, WNOHANG);
    if (reaped > 0) continue;
    if (reaped < 0 && errno == ECHILD) return;
    for (const pid_t pid : children()) kill(pid, SIGKILL);
    usleep(kSweepPauseUs);
  }
}

void end_job_wholly(const std::string& shm_dir) {
  end_all_descendants();
  fabric::sweep_leftovers(shm_dir);
}

void remove_tree(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

Guardian::Guardian(GuardPlan plan) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair");
  socket_ = Fd(ends[0]);
  Fd theirs(ends[1]);
  pid_ = fork();
  if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid_ == 0) {
    socket_.reset();
    run_guardian(std::move(plan), std::move(theirs));
  }
}

void Guardian::say(const GuardWord& word) {
  if (send(socket_.get(), &word, sizeof word, MSG_NOSIGNAL) < 0) lost_ = true;
}

void Guardian::start(const std::vector<std::string>& environment) {
  const GuardWord word{GuardWord::start, 0, 0};
  std::string packet(reinterpret_cast<const char*>(&word), sizeof word);
  for (const std::string& pair : environment) packet.append(pair).push_back('\0');
  if (send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0) lost_ = true;
}

std::optional<Guardian::Heard> Guardian::hear() {
  Heard heard;
  std::array<char, 256> packet;
  const ssize_t got = recv(socket_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got < static_cast<ssize_t>(sizeof heard.word)) {
    lost_ = true;
    return std::nullopt;
  }
  std::memcpy(&heard.word, packet.data(), sizeof heard.word);
  heard.text.assign(packet.data() + sizeof heard.word,
                    static_cast<std::size_t>(got) - sizeof heard.word);
  if (heard.word.kind == GuardWord::started) running_[heard.word.rank] = heard.word.value;
  if (heard.word.kind == GuardWord::ended) running_.erase(heard.word.rank);
  return heard;
}

std::vector<int> Guardian::ending() const {
  std::vector<int> found;
  for (const auto& [rank, pid] : running_)
    if (is_ending(pid)) found.push_back(rank);
  return found;
}

void Guardian::dismiss() {
  socket_.reset();
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace weft::run
