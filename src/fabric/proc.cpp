#include "fabric/proc.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "fabric/doorbell.hpp"
#include "fabric/layout.hpp"

namespace weft::fabric {

namespace {

struct Stat {
  char state;           ///< 'Z' and 'X': dead, not yet reaped; 0: not known, and errno says why
  uint64_t start_time;  ///< 0: not known
};

/// Living or not yet reaped.
bool is_there(int64_t pid) noexcept {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH;
}

bool has_ended(const Stat& task) noexcept { return task.state == 'Z' || task.state == 'X'; }

/// Of a process, or of any thread.
Stat stat_of(int64_t pid) noexcept {
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid);
  const Descriptor file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text;
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  if (n <= 0) return {};  // what closes the file leaves errno
  // The second field is a name in parentheses, which may itself hold anything; the start time is
  // the twentieth field behind it.
  std::string_view rest(text.data(), static_cast<std::size_t>(n));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) return {};
  rest.remove_prefix(name_end + 1);
  const char state = rest.size() > 1 ? rest[1] : '?';
  for (int field = 0; field < 20; ++field) {
    const std::size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return {};
    rest.remove_prefix(blank + 1);
  }
  uint64_t value = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), value);
  return {state, value};
}

}  // namespace

uint64_t start_time_of(int64_t pid) noexcept { return stat_of(pid).start_time; }

uint64_t own_start_time() noexcept { return start_time_of(::getpid()); }

uint64_t pid_namespace() noexcept {
  struct stat status;
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

int64_t living_thread_of(int64_t pid) noexcept {
  const Stat first = stat_of(pid);
  if (first.state == 0) return is_there(pid) ? kThreadNotKnown : kNoThread;
  if (!has_ended(first)) return pid;
  struct Close {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  std::array<char, 64> path{};
  fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/task", pid);
  std::unique_ptr<DIR, Close> folder(::opendir(path.data()));
  if (!folder) return kThreadNotKnown;
  std::array<int64_t, 64> threads;
  std::size_t count = 0;
  bool all_seen = true;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string_view name(entry->d_name);
    int64_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread <= 0) continue;  // "." and ".."
    if (count == threads.size()) {
      all_seen = false;
      break;
    }
    threads[count++] = thread;
  }
  folder.reset();  // there may be no descriptor beside it
  for (std::size_t i = 0; i < count; ++i) {
    errno = 0;
    const Stat now = stat_of(threads[i]);
    if (now.state != 0 && !has_ended(now)) return threads[i];
    if (now.state == 0 && errno != ENOENT && errno != ESRCH) all_seen = false;
  }
  return all_seen ? kNoThread : kThreadNotKnown;
}

uint64_t boot_number() noexcept {
  const Descriptor file(::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text;
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return n <= 0 ? 0 : text_hash({text.data(), static_cast<std::size_t>(n)});
}

uint64_t machine_number() noexcept {
  std::array<char, 512> text{};
  const Descriptor file(::open("/etc/machine-id", O_RDONLY | O_CLOEXEC));
  const ssize_t n = file ? ::read(file.get(), text.data(), text.size() / 2) : -1;
  const std::size_t id = n > 0 ? static_cast<std::size_t>(n) : 0;
  // The name, too: machines, and containers, that are copies of one another have one id.
  char* const name = text.data() + id;
  if (::gethostname(name, text.size() - id - 1) != 0) return 0;
  const std::string_view all(text.data(), id + std::strlen(name));
  return all.empty() || all == "localhost" ? 0 : text_hash(all);
}

bool may_be_alive(int64_t pid, uint64_t start_time) noexcept {
  if (!is_there(pid)) return false;
  const Stat now = stat_of(pid);
  if (has_ended(now) && living_thread_of(pid) == kNoThread) return false;
  return start_time == 0 || now.start_time == 0 || now.start_time == start_time;
}

}  // namespace weft::fabric
