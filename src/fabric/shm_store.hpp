// How a process makes the memory that it shares, and how its peers find it.
//
// Two kinds. memfd: memory without a name; peers open /proc/PID/fd/N. It ends with the last
// process that holds it, so nothing can be left behind. file: a named file in `fabric.shm_dir`,
// for where /proc cannot be used; unlinked in order at the end. What a killed process leaves is
// swept by weftrun's guardian when the job is over, or by the next job of the same user.
//
// A name is  weft-UID-MACHINE-BOOT-PIDNS-PID-START-SERIAL-JOB[.part]  with numbers of the machine,
// its boot, the pid namespace and the start time of the process, so that a sweep can tell the dead
// from the living, also from those it cannot see: of other hosts, where they share the folder, and
// of other containers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/doorbell.hpp"
#include "weft/base/error.hpp"

namespace weft::fabric {

enum class ShmKind : uint8_t { memfd, file };

/// fabric.shm_dir, unless somebody sets it.
inline constexpr std::string_view kDefaultShmDir = "/dev/shm";

/// What a rank publishes so that peers find its segment.
struct ShmAddress {
  ShmKind kind = ShmKind::memfd;
  int64_t pid = 0;
  uint64_t start_time = 0;
  uint64_t pid_namespace = 0;  ///< in which that is its number; 0: not known
  int fd = -1;                 ///< memfd: its number in that process
  uint64_t inode = 0;          ///< of the segment
  std::string name;            ///< file: path without suffix

  [[nodiscard]] std::string text() const;
  /// Throws Error(protocol) if `text` is none.
  static ShmAddress parse(std::string_view text);
};

/// A shared object of this process or a peer: descriptor, and identity for peers.
struct ShmObject {
  Descriptor fd;
  uint64_t inode = 0;
  std::size_t bytes = 0;
};

/// This process's shared objects. Who may call: one thread at a time.
class ShmStore {
 public:
  /// `kind` is what was asked for; where /proc does not serve, it falls back to files and says so
  /// in the log. Sweeps `dir`.
  ShmStore(ShmKind kind, std::string dir, std::string_view job_id);
  ~ShmStore();
  ShmStore(const ShmStore&) = delete;
  ShmStore& operator=(const ShmStore&) = delete;

  /// An object of `bytes` zero bytes, sparse. `part` tells it from others of the process. Throws
  /// Error(no_memory, no_permission).
  ShmObject create(std::string_view part, std::size_t bytes);
  /// Reserves memory for a range, so that touching it cannot fail. Throws Error(no_memory).
  void reserve(const ShmObject& object, std::size_t offset, std::size_t bytes) const;
  /// A named pipe; file kind only.
  Descriptor create_pipe(std::string_view part, uint64_t& inode);
  /// Takes a name away again.
  void remove(std::string_view part) noexcept;

  [[nodiscard]] ShmKind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& dir() const noexcept { return dir_; }
  [[nodiscard]] ShmAddress address_of(const ShmObject& segment) const;

 private:
  ShmKind kind_;
  int64_t pid_;  // of the maker: a fork's copy removes nothing
  std::string dir_;
  std::string name_;
  std::vector<std::string> parts_;  // file: those that exist
};

/// This process, or the system, has no descriptor left.
class NoDescriptor : public Error {
 public:
  explicit NoDescriptor(const std::string& what) : Error(Errc::no_memory, what) {}
};

/// Opens an object of another process: number `fd` of it, or its `name` + `part`. Verifies `inode`.
/// Throws NoDescriptor, or Error(peer_died, no_permission, bad_config, no_memory).
Descriptor open_shared(const ShmAddress& owner, int fd, std::string_view part, uint64_t inode);

/// Reserves a range of an object; names `dir` in the error. Throws Error(no_memory).
void reserve_range(int fd, std::size_t offset, std::size_t bytes, std::string_view dir);

/// Maps `bytes` of an object, shared. Throws Error(no_memory).
std::byte* map_shared_fd(int fd, std::size_t bytes);

/// Removes what dead processes of this user left in `dir`. Returns how many names.
int sweep_leftovers(const std::string& dir) noexcept;

}  // namespace weft::fabric
