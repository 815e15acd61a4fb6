// Removing what a crashed job of this user left in the folder of named segments.
#include <dirent.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "fabric/proc.hpp"
#include "fabric/shm_store.hpp"

namespace weft::fabric {

namespace {

/// The numbers at the head of a name; false if it is not one of ours.
bool read_name(std::string_view name, std::array<uint64_t, 6>& numbers) noexcept {
  constexpr std::string_view kPrefix = "weft-";
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  for (uint64_t& number : numbers) {
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || end == name.data() + name.size() || *end != '-') return false;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()) + 1);
  }
  return true;
}

struct Place {
  uint64_t machine, boot, pid_namespace;  ///< 0: not known
};

/// Whether a process of `there` with this number and start is certain to be dead. One of another
/// machine or pid namespace cannot be seen from here; it may well live. None outlives its boot.
bool is_dead(const Place& there, int64_t pid, uint64_t start, const Place& here) noexcept {
  if (there.boot == 0 || here.boot == 0) return false;
  if (there.boot != here.boot) return there.machine == here.machine && here.machine != 0;
  return there.pid_namespace == here.pid_namespace && here.pid_namespace != 0 &&
         !may_be_alive(pid, start);
}

}  // namespace

int sweep_leftovers(const std::string& dir) noexcept {
  struct Close {
    void operator()(DIR* open) const noexcept { ::closedir(open); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir(dir.c_str()));
  if (!folder) return 0;
  const Place here{machine_number(), boot_number(), pid_namespace()};
  int removed = 0;
  while (const dirent* const entry = ::readdir(folder.get())) {
    std::array<uint64_t, 6> numbers;  // uid, machine, boot, pid namespace, pid, start time
    if (!read_name(entry->d_name, numbers)) continue;
    const auto [uid, machine, boot, pidns, pid, start] = numbers;
    if (uid != ::geteuid() ||
        !is_dead({machine, boot, pidns}, static_cast<int64_t>(pid), start, here))
      continue;
    if (::unlinkat(::dirfd(folder.get()), entry->d_name, 0) == 0) ++removed;
  }
  return removed;
}

}  // namespace weft::fabric
