#include "fabric/shm_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "fabric/proc.hpp"
#include "weft/base/log.hpp"

namespace weft::fabric {

namespace {

[[noreturn]] void refuse(int error, std::string_view doing) {
  Errc code = Errc::no_memory;
  if (error == EACCES || error == EPERM || error == EROFS) code = Errc::no_permission;
  // The only path that is not made here is the folder's, which the user names.
  if (error == ENOENT || error == ENOTDIR) code = Errc::bad_config;
  throw Error(code, fmt::format("{}: {}", doing, std::strerror(error)));
}

/// Whether peers can reach this process's descriptors through /proc; the reason if not.
std::string why_not_proc(int fd) {
  if (::prctl(PR_GET_DUMPABLE) != 1) return "this process is not dumpable";
  const Descriptor again(
      ::open(fmt::format("/proc/{}/fd/{}", ::getpid(), fd).c_str(), O_RDWR | O_CLOEXEC));
  return again ? std::string() : fmt::format("/proc: {}", std::strerror(errno));
}

std::string safe_name(std::string_view text) {
  std::string out(text.substr(0, 96));
  for (char& c : out)
    if (c == '/' || c == '\0') c = '_';
  return out;
}

}  // namespace

std::string ShmAddress::text() const {
  return fmt::format("{} {} {} {} {} {} {}", kind == ShmKind::memfd ? "memfd" : "file", pid,
                     start_time, pid_namespace, fd, inode, name.empty() ? "-" : name);
}

ShmAddress ShmAddress::parse(std::string_view text) {
  ShmAddress out;
  const auto word = [&text] {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return first;
  };
  const auto number = [&word](auto& value) {
    const std::string_view digits = word();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  const std::string_view kind = word();
  out.kind = kind == "file" ? ShmKind::file : ShmKind::memfd;
  const bool whole = (kind == "file" || kind == "memfd") && number(out.pid) &&
                     number(out.start_time) && number(out.pid_namespace) && number(out.fd) &&
                     number(out.inode);
  out.name = std::string(text);
  if (!whole || out.pid <= 0 || out.name.empty())
    throw Error(Errc::protocol, "its published address makes no sense");
  return out;
}

ShmStore::ShmStore(ShmKind kind, std::string dir, std::string_view job_id)
    : kind_(kind), pid_(::getpid()), dir_(std::move(dir)) {
  static std::atomic<uint32_t> serial{0};
  name_ = fmt::format("{}/weft-{}-{}-{}-{}-{}-{}-{}-{}", dir_, ::geteuid(), machine_number(),
                      boot_number(), pid_namespace(), ::getpid(), own_start_time(),
                      serial.fetch_add(1, std::memory_order_relaxed), safe_name(job_id));
  if (kind_ == ShmKind::memfd) {
    const Descriptor trial(::memfd_create("weft", MFD_CLOEXEC));
    const std::string why =
        trial ? why_not_proc(trial.get()) : fmt::format("memfd_create: {}", std::strerror(errno));
    if (!why.empty()) {
      kind_ = ShmKind::file;
      base::log(base::LogLevel::warn,
                fmt::format("shared segments are files in {} instead of memfd: {}", dir_, why));
    }
  }
  sweep_leftovers(dir_);
}

ShmStore::~ShmStore() {
  if (pid_ != ::getpid()) return;
  for (const std::string& part : parts_) ::unlink((name_ + part).c_str());
}

ShmObject ShmStore::create(std::string_view part, std::size_t bytes) {
  ShmObject object;
  object.bytes = bytes;
  if (kind_ == ShmKind::memfd) {
    object.fd = Descriptor(::memfd_create("weft", MFD_CLOEXEC));
    if (!object.fd) refuse(errno, "memfd_create");
  } else {
    const std::string path = name_ + std::string(part);
    object.fd =
        Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!object.fd) refuse(errno, fmt::format("cannot create {} (fabric.shm_dir)", path));
    parts_.emplace_back(part);
  }
  struct stat status;
  if (::ftruncate(object.fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fstat(object.fd.get(), &status) != 0)
    refuse(errno, fmt::format("cannot make a shared segment of {} KiB", bytes / 1024));
  object.inode = status.st_ino;
  return object;
}

void ShmStore::reserve(const ShmObject& object, std::size_t offset, std::size_t bytes) const {
  if (kind_ == ShmKind::file) reserve_range(object.fd.get(), offset, bytes, dir_);
}

Descriptor ShmStore::create_pipe(std::string_view part, uint64_t& inode) {
  const std::string path = name_ + std::string(part);
  if (::mkfifo(path.c_str(), 0600) != 0)
    refuse(errno, fmt::format("cannot create {} (fabric.shm_dir)", path));
  parts_.emplace_back(part);
  Descriptor pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat status;
  if (!pipe || ::fstat(pipe.get(), &status) != 0)
    refuse(errno, fmt::format("cannot open {}", path));
  inode = status.st_ino;
  return pipe;
}

void ShmStore::remove(std::string_view part) noexcept {
  const auto at = std::find(parts_.begin(), parts_.end(), part);
  if (at == parts_.end()) return;
  ::unlink((name_ + *at).c_str());
  parts_.erase(at);
}

ShmAddress ShmStore::address_of(const ShmObject& segment) const {
  return {kind_,
          ::getpid(),
          own_start_time(),
          pid_namespace(),
          segment.fd.get(),
          segment.inode,
          kind_ == ShmKind::file ? name_ : std::string()};
}

Descriptor open_shared(const ShmAddress& owner, int fd, std::string_view part, uint64_t inode) {
  const bool by_number = owner.kind == ShmKind::memfd;
  std::string path =
      by_number ? fmt::format("/proc/{}/fd/{}", owner.pid, fd) : owner.name + std::string(part);
  // O_RDWR also for pipes: a writer that is a reader, too, never meets SIGPIPE.
  const int follow = by_number ? 0 : O_NOFOLLOW;
  const auto open_it = [&] {
    return Descriptor(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | follow));
  };
  Descriptor object = open_it();
  int error = object ? 0 : errno;
  // What is there of a thread that has ended is root's.
  if (by_number && (error == ENOENT || error == EACCES || error == EPERM)) {
    const int64_t thread = living_thread_of(owner.pid);
    if (thread == kNoThread) error = ESRCH;
    if (thread == kThreadNotKnown && error == ENOENT) error = EAGAIN;  // not certain to be dead
    if (thread > 0 && thread != owner.pid) {
      path = fmt::format("/proc/{}/fd/{}", thread, fd);
      object = open_it();
      error = object ? 0 : errno;
    }
  }
  if (!object) {
    if (error == ENOENT || error == ESRCH) throw Error(Errc::peer_died, "its process has ended");
    if (error == EACCES || error == EPERM)
      throw Error(Errc::no_permission,
                  fmt::format("the system does not let this process open {}; ranks of a node must "
                              "run as one user in one container",
                              path));
    if (error == EMFILE || error == ENFILE)
      throw NoDescriptor(fmt::format("cannot open {}: {}", path, std::strerror(error)));
    refuse(error, fmt::format("cannot open {}", path));
  }
  struct stat status;
  if (::fstat(object.get(), &status) != 0 || status.st_ino != inode)
    throw Error(Errc::peer_died, fmt::format("{} is not its memory any more", path));
  return object;
}

void reserve_range(int fd, std::size_t offset, std::size_t bytes, std::string_view dir) {
  int error;
  do {
    error = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  if (error != 0)
    refuse(error, fmt::format("no room for {} KiB of shared memory in {} (fabric.shm_dir); give it "
                              "more space or lower fabric.packets",
                              (bytes + 1023) / 1024, dir));
}

std::byte* map_shared_fd(int fd, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) refuse(errno, fmt::format("cannot map {} KiB", bytes / 1024));
  return static_cast<std::byte*>(at);
}

}  // namespace weft::fabric
