// The provider for processes of one node: segments are shared memory of their own (shm_store.hpp),
// attached on first use; deaths are noticed by pidfds; ordinary memory is reached by cross-memory
// attach.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "fabric/backing.hpp"
#include "fabric/cma.hpp"
#include "fabric/lane_setup.hpp"
#include "fabric/lane_transport.hpp"
#include "fabric/parts.hpp"
#include "fabric/proc.hpp"
#include "fabric/shm_store.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

namespace {

constexpr std::string_view kAddressKey = "fabric.shm";
constexpr std::string_view kSegmentPart = ".seg";
std::string bell_part(uint32_t port) { return fmt::format(".bell{}", port); }
std::string shared_part(uint32_t segment) { return fmt::format(".mem{}", segment); }
/// How often peers are asked for that cannot be watched (no pidfd_open, no descriptors left).
constexpr long kAskEveryNs = 100'000'000;

/// A shared mapping, with the descriptor that it came from.
class SharedMapping {
 public:
  SharedMapping(Descriptor fd, std::size_t bytes)
      : fd_(std::move(fd)), base_(map_shared_fd(fd_.get(), bytes)), bytes_(bytes) {}
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  ~SharedMapping() { ::munmap(base_, bytes_); }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {base_, bytes_}; }

 private:
  Descriptor fd_;
  std::byte* base_;
  std::size_t bytes_;
};

/// Huge pages where the system has them to give; a hint only.
void advise(const SharedMapping& memory) noexcept {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  if (memory.size() >= kHuge) ::madvise(memory.base(), memory.size(), MADV_HUGEPAGE);
}

/// Its number is what is wanted, for a bell where the process has no other left: a peer that
/// sleeps has nobody else to wake it.
Descriptor spare_descriptor() noexcept { return Descriptor(::eventfd(0, EFD_CLOEXEC)); }

class ShmLink final : public PeerLink {
 public:
  ShmLink(const ShmAddress& address, std::unique_ptr<SharedMapping> segment, Descriptor pidfd,
          int deaths, bool watched, std::string dir, Descriptor& spare)
      : address_(address),
        segment_(std::move(segment)),
        pidfd_(std::move(pidfd)),
        deaths_(deaths),
        watched_(watched),
        dir_(std::move(dir)),
        spare_(spare) {
    const auto& header = *reinterpret_cast<const SegmentHeader*>(segment_->base());
    bells_.resize(header.geometry.ports);
  }
  ~ShmLink() override {
    for (const auto memory : maps_) ::munmap(memory.data(), memory.size());
  }

  [[nodiscard]] std::byte* base() const noexcept override { return segment_->base(); }

  int open_bell(uint32_t port) noexcept override {
    if (bells_[port]) return bells_[port].get();
    // Where somebody else had the spare one, it comes first: many can be rung with it.
    if (!spare_) spare_ = spare_descriptor();
    if (!spare_) return kNoDescriptor;
    try {
      bells_[port] = bell_of(port);
      return bells_[port].get();
    } catch (const NoDescriptor&) {
      return kNoDescriptor;
    } catch (const Error& error) {
      return error.code() == Errc::peer_died ? kBellGone : kNoBell;
    } catch (const std::exception&) {
      return kNoBell;
    }
  }

  bool knock_in_need(uint32_t port, Knock what) noexcept override {
    spare_.reset();
    bool knocked = false;
    try {
      const Descriptor bell = bell_of(port);
      knock(bell.get(), what);
      knocked = true;
    } catch (const std::exception&) {
    }
    spare_ = spare_descriptor();
    return knocked;
  }

  void secure(std::size_t offset, std::size_t bytes) override {
    if (address_.kind == ShmKind::file) reserve_range(segment_->fd(), offset, bytes, dir_);
  }

  std::span<std::byte> map_shared(const SharedRow& row) noexcept override {
    try {
      const uint32_t segment = row.segment.load(std::memory_order_relaxed);
      const Descriptor fd = open_shared(address_, row.fd, shared_part(segment), row.inode);
      struct stat status;
      if (::fstat(fd.get(), &status) != 0 || static_cast<uint64_t>(status.st_size) < row.bytes)
        return {};
      const std::span memory(map_shared_fd(fd.get(), row.bytes), row.bytes);
      maps_.push_back(memory);
      return memory;
    } catch (const std::exception&) {
      return {};
    }
  }
  void unmap_shared(std::span<std::byte> memory) noexcept override {
    std::erase_if(maps_, [memory](const auto& one) { return one.data() == memory.data(); });
    ::munmap(memory.data(), memory.size());
  }

  std::string probe_read() noexcept override {
    const auto& header = *reinterpret_cast<const SegmentHeader*>(base());
    const int64_t thread = living_thread_of(address_.pid);
    return probe_cross_memory(thread > 0 ? thread : address_.pid, header.self_address,
                              kSegmentMagic);
  }
  Errc read(uint64_t address, std::span<std::byte> local) noexcept override {
    return by_a_living_thread([=](int64_t pid) { return cross_read(pid, address, local); });
  }
  Errc write(uint64_t address, std::span<const std::byte> local) noexcept override {
    return by_a_living_thread([=](int64_t pid) { return cross_write(pid, address, local); });
  }

  bool gone() noexcept override {
    if (!pidfd_) return gone_ = gone_ || !may_be_alive(address_.pid, address_.start_time);
    if (gone_) return true;
    pollfd ask{pidfd_.get(), POLLIN, 0};
    gone_ = ::poll(&ask, 1, 0) > 0;
    // Told once; from now on it shall not keep anybody awake.
    if (gone_) ::epoll_ctl(deaths_, EPOLL_CTL_DEL, pidfd_.get(), nullptr);
    return gone_;
  }
  [[nodiscard]] bool watched() const noexcept override { return watched_; }

 private:
  template <class Copy>
  [[nodiscard]] Errc by_a_living_thread(Copy copy) const noexcept {
    const Errc error = copy(address_.pid);
    if (error != Errc::peer_died) [[likely]]
      return error;
    const int64_t thread = living_thread_of(address_.pid);
    return thread <= 0 || thread == address_.pid ? error : copy(thread);
  }
  [[nodiscard]] Descriptor bell_of(uint32_t port) const {
    const Layout layout = layout_of();
    const PortControl& control = SegmentView(base(), layout).port(port);
    return open_shared(address_, control.bell_fd, bell_part(port), control.bell_inode);
  }
  [[nodiscard]] Layout layout_of() const noexcept {
    const auto& header = *reinterpret_cast<const SegmentHeader*>(base());
    return Layout(header.geometry, header.lanes, header.exposures);
  }

  ShmAddress address_;
  std::unique_ptr<SharedMapping> segment_;
  Descriptor pidfd_;
  int deaths_;
  bool watched_;
  std::string dir_;
  Descriptor& spare_;
  std::vector<Descriptor> bells_;
  std::vector<std::span<std::byte>> maps_;
  bool gone_ = false;
};

class ShmBacking final : public Backing {
 public:
  ShmBacking(Job& job, const Layout& layout)
      : job_(job),
        store_(base::config_text("fabric.shm_backing") == "file" ? ShmKind::file : ShmKind::memfd,
               base::config_text("fabric.shm_dir"), job.id()),
        deaths_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!deaths_)
      throw Error(Errc::no_memory, fmt::format("epoll_create1: {}", std::strerror(errno)));
    ShmObject segment = store_.create(kSegmentPart, layout.total);
    // Lanes are reserved by those who open them.
    store_.reserve(segment, 0, layout.lanes_begin);
    store_.reserve(segment, layout.written, layout.total - layout.written);
    address_ = store_.address_of(segment);
    segment_ = std::make_unique<SharedMapping>(std::move(segment.fd), layout.total);
    job_.put(kAddressKey, address_.text());
    permit_cross_memory();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "shm"; }
  [[nodiscard]] std::byte* base() const noexcept override { return segment_->base(); }

  const BellPipe& open_own_bell(uint32_t port, PortControl& control) override {
    if (store_.kind() == ShmKind::memfd) return bells_[port] = make_bell_pipe(control);
    BellPipe pipe;
    pipe.read = store_.create_pipe(bell_part(port), control.bell_inode);
    pipe.write = Descriptor(::fcntl(pipe.read.get(), F_DUPFD_CLOEXEC, 0));
    return bells_[port] = std::move(pipe);
  }

  std::unique_ptr<PeerLink> attach(Rank peer) override {
    // The own address is needed before the fence that publishes it.
    const ShmAddress address =
        peer == job_.rank() ? address_ : ShmAddress::parse(job_.get(peer, kAddressKey));
    if (address.pid_namespace != address_.pid_namespace && address.pid_namespace != 0 &&
        address_.pid_namespace != 0)
      throw Error(
          Errc::no_permission,
          "it runs in another pid namespace (a container of its own?); ranks of a node must "
          "run as one user in one container");
    Descriptor pidfd;
    if (peer != job_.rank()) {
      pidfd = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, address.pid, 0)));
      if ((!pidfd && errno == ESRCH) || !may_be_alive(address.pid, address.start_time))
        throw Error(Errc::peer_died, "its process has ended");
    }
    Descriptor fd = open_shared(address, address.fd, kSegmentPart, address.inode);
    struct stat status;
    if (::fstat(fd.get(), &status) != 0 || status.st_size < static_cast<off_t>(kPage))
      throw Error(Errc::protocol, "its segment is too short");
    auto segment =
        std::make_unique<SharedMapping>(std::move(fd), static_cast<std::size_t>(status.st_size));
    const auto& header = *reinterpret_cast<const SegmentHeader*>(segment->base());
    const std::string_view fault = header_fault(header, text_hash(job_.id()), text_hash(job_.key()),
                                                peer.value, segment->size());
    if (!fault.empty()) throw Error(Errc::protocol, fmt::format("its segment: {}", fault));
    const bool watched = peer == job_.rank() || (pidfd && watch(pidfd.get()));
    if (!watched) wake_in_time();
    return std::make_unique<ShmLink>(address, std::move(segment), std::move(pidfd), deaths_.get(),
                                     watched, store_.dir(), spare_);
  }

  std::span<std::byte> allocate_shared(std::size_t bytes, uint32_t segment,
                                       SharedRow& row) override {
    const std::size_t whole = (bytes + kPage - 1) / kPage * kPage;
    ShmObject object = store_.create(shared_part(segment), whole);
    try {
      store_.reserve(object, 0, whole);
      row.inode = object.inode;
      row.bytes = whole;
      row.fd = object.fd.get();
      auto memory = std::make_unique<SharedMapping>(std::move(object.fd), whole);
      row.address = reinterpret_cast<uint64_t>(memory->base());
      advise(*memory);
      return (shared_[segment] = std::move(memory))->span();
    } catch (...) {
      store_.remove(shared_part(segment));
      throw;
    }
  }

  void release_shared(std::span<std::byte>, uint32_t segment, SharedRow&) noexcept override {
    const auto found = shared_.find(segment);
    if (found == shared_.end()) return;
    // The memory goes now, whoever still has it mapped; a late writer touches pages that nobody
    // reads.
    ::fallocate(found->second->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(found->second->size()));
    shared_.erase(found);
    store_.remove(shared_part(segment));
  }

  [[nodiscard]] int deaths_fd() const noexcept override { return deaths_.get(); }
  [[nodiscard]] bool somebody_ended() noexcept override {
    pollfd ask{deaths_.get(), POLLIN, 0};
    const bool ended = ::poll(&ask, 1, 0) > 0;
    uint64_t times = 0;
    if (ended && timer_) (void)!::read(timer_.get(), &times, sizeof times);
    return ended;
  }

 private:
  [[nodiscard]] bool watch(int fd) const noexcept {
    epoll_event event{};
    event.events = EPOLLIN;
    return ::epoll_ctl(deaths_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  /// From now on sleepers are woken to ask for those who are not watched. Where that cannot be had,
  /// who polls asks all the same.
  void wake_in_time() noexcept {
    if (timer_) return;
    Descriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    const itimerspec often{{0, kAskEveryNs}, {0, kAskEveryNs}};
    if (timer && ::timerfd_settime(timer.get(), 0, &often, nullptr) == 0 && watch(timer.get()))
      timer_ = std::move(timer);
  }

  Job& job_;
  ShmStore store_;
  Descriptor deaths_;
  Descriptor spare_ = spare_descriptor();  ///< closed and opened again by links
  Descriptor timer_;                       ///< only if a peer is not watched
  ShmAddress address_;
  std::unique_ptr<SharedMapping> segment_;
  std::map<uint32_t, BellPipe> bells_;
  std::map<uint32_t, std::unique_ptr<SharedMapping>> shared_;
};

}  // namespace

std::unique_ptr<Transport> make_shm_part(Job& job, const Geometry& geometry,
                                         std::vector<Rank> ranks) {
  const LaneSetup setup = lane_setup(geometry, std::move(ranks));
  auto backing = std::make_unique<ShmBacking>(job, LaneTransport::layout_for(setup));
  return std::make_unique<LaneTransport>(job, setup, std::move(backing));
}

std::unique_ptr<Transport> make_shm_transport(Job& job, const Geometry& geometry) {
  auto transport = make_shm_part(job, geometry, job.node_ranks());
  job.fence();
  return transport;
}

static_assert(TransportProvider<decltype(&make_shm_transport)>);

}  // namespace weft::fabric
