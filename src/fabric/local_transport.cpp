// The provider for ranks that are threads of one process: segments are anonymous memory, found in
// a registry of the process. A job of one is `self`.
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "fabric/backing.hpp"
#include "fabric/lane_setup.hpp"
#include "fabric/lane_transport.hpp"
#include "fabric/parts.hpp"
#include "weft/base/copy.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft::fabric {

namespace {

/// Anonymous pages, zeroed, not resident before they are touched.
class Pages {
 public:
  Pages() = default;
  explicit Pages(std::size_t bytes) : bytes_((bytes + kPage - 1) / kPage * kPage) {
    void* const at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw Error(Errc::no_memory,
                  fmt::format("no {} bytes of memory: {}", bytes_, std::strerror(errno)));
    base_ = static_cast<std::byte*>(at);
  }
  Pages(Pages&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

/// One rank's memory: kept alive by its owner and by every peer that attached.
struct LocalSegment {
  explicit LocalSegment(std::size_t bytes) : pages(bytes) {}
  Pages pages;
  std::mutex lock;  // guards the rest
  std::map<uint32_t, BellPipe> bells;
};

/// All live segments of the process, by job and rank.
class Registry {
 public:
  static Registry& instance() {
    // Not destroyed: a runtime may end with a static object of the program's.
    static Registry& registry = *new Registry;
    return registry;
  }
  void add(const std::string& job, int32_t rank, std::shared_ptr<LocalSegment> segment) {
    const std::scoped_lock hold(lock_);
    segments_[{job, rank}] = std::move(segment);
  }
  void remove(const std::string& job, int32_t rank) {
    const std::scoped_lock hold(lock_);
    segments_.erase({job, rank});
  }
  std::shared_ptr<LocalSegment> find(const std::string& job, int32_t rank) {
    const std::scoped_lock hold(lock_);
    const auto found = segments_.find({job, rank});
    return found == segments_.end() ? nullptr : found->second;
  }

 private:
  std::mutex lock_;
  std::map<std::pair<std::string, int32_t>, std::shared_ptr<LocalSegment>> segments_;
};

class LocalLink final : public PeerLink {
 public:
  explicit LocalLink(std::shared_ptr<LocalSegment> segment) : segment_(std::move(segment)) {}
  [[nodiscard]] std::byte* base() const noexcept override { return segment_->pages.base(); }
  int open_bell(uint32_t port) noexcept override {
    const std::scoped_lock hold(segment_->lock);
    const auto found = segment_->bells.find(port);
    return found == segment_->bells.end() ? -1 : found->second.write.get();
  }
  void secure(std::size_t, std::size_t) override {}
  std::span<std::byte> map_shared(const SharedRow& row) noexcept override {
    return {reinterpret_cast<std::byte*>(row.address), row.bytes};
  }
  void unmap_shared(std::span<std::byte>) noexcept override {}
  std::string probe_read() noexcept override { return {}; }
  Errc read(uint64_t address, std::span<std::byte> local) noexcept override {
    if (!local.empty()) {
      base::copy_bytes(local.data(), reinterpret_cast<const void*>(address), local.size());
    }
    return Errc::ok;
  }
  Errc write(uint64_t address, std::span<const std::byte> local) noexcept override {
    if (!local.empty()) {
      base::copy_bytes(reinterpret_cast<void*>(address), local.data(), local.size());
    }
    return Errc::ok;
  }
  bool gone() noexcept override { return false; }

 private:
  std::shared_ptr<LocalSegment> segment_;
};

class LocalBacking final : public Backing {
 public:
  LocalBacking(const Job& job, std::size_t bytes)
      : job_(job), segment_(std::make_shared<LocalSegment>(bytes)) {
    Registry::instance().add(job.id(), job.rank().value, segment_);
  }
  ~LocalBacking() override { Registry::instance().remove(job_.id(), job_.rank().value); }

  [[nodiscard]] std::string_view name() const noexcept override {
    return job_.size() == 1 ? "self" : "local";
  }
  [[nodiscard]] std::byte* base() const noexcept override { return segment_->pages.base(); }
  const BellPipe& open_own_bell(uint32_t port, PortControl& control) override {
    const std::scoped_lock hold(segment_->lock);
    return segment_->bells[port] = make_bell_pipe(control);
  }
  std::unique_ptr<PeerLink> attach(Rank peer) override {
    auto segment = Registry::instance().find(job_.id(), peer.value);
    if (!segment) throw Error(Errc::peer_died, "it has left the job");
    const auto& header = *reinterpret_cast<const SegmentHeader*>(segment->pages.base());
    const std::string_view fault = header_fault(header, text_hash(job_.id()), text_hash(job_.key()),
                                                peer.value, segment->pages.size());
    if (!fault.empty()) throw Error(Errc::protocol, fmt::format("its segment: {}", fault));
    return std::make_unique<LocalLink>(std::move(segment));
  }
  std::span<std::byte> allocate_shared(std::size_t bytes, uint32_t segment,
                                       SharedRow& row) override {
    Pages pages(bytes);
    row.address = reinterpret_cast<uint64_t>(pages.base());
    row.bytes = pages.size();
    const std::span<std::byte> memory(pages.base(), pages.size());
    shared_.insert_or_assign(segment, std::move(pages));
    return memory;
  }
  void release_shared(std::span<std::byte> memory, uint32_t segment, SharedRow&) noexcept override {
    // A peer may still be copying: the pages are given back now, their addresses one release later.
    ::madvise(memory.data(), memory.size(), MADV_DONTNEED);
    const auto found = shared_.find(segment);
    if (found == shared_.end()) return;
    retired_ = std::move(found->second);
    shared_.erase(found);
  }
  [[nodiscard]] bool in_process() const noexcept override { return true; }
  [[nodiscard]] int deaths_fd() const noexcept override { return -1; }

 private:
  const Job& job_;
  std::shared_ptr<LocalSegment> segment_;
  std::map<uint32_t, Pages> shared_;
  Pages retired_;
};

}  // namespace

std::unique_ptr<Transport> make_local_part(Job& job, const Geometry& geometry,
                                           std::vector<Rank> ranks) {
  const LaneSetup setup = lane_setup(geometry, std::move(ranks));
  auto backing = std::make_unique<LocalBacking>(job, LaneTransport::layout_for(setup).total);
  return std::make_unique<LaneTransport>(job, setup, std::move(backing));
}

std::unique_ptr<Transport> make_local_transport(Job& job, const Geometry& geometry) {
  auto transport = make_local_part(job, geometry, job.node_ranks());
  job.fence();
  return transport;
}

static_assert(TransportProvider<decltype(&make_local_transport)>);

}  // namespace weft::fabric
