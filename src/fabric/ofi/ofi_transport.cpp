#include "fabric/ofi/ofi_transport.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "fabric/layout.hpp"
#include "fabric/ofi/ofi_port.hpp"
#include "weft/base/config.hpp"
#include "weft/base/log.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr std::string_view kCardKey = "fabric.ofi";
constexpr std::chrono::microseconds kShortestRest{500};
constexpr std::chrono::microseconds kLongestRest{10'000};
constexpr std::chrono::milliseconds kMostLeaving{2'000};  ///< waiting for peers at the end

OfiSetup setup_of(const Geometry& geometry) {
  register_fabric_config();
  return {.geometry = geometry,
          .inline_cells = static_cast<uint32_t>(base::config_int("fabric.inline_cells")),
          .exposures = static_cast<uint32_t>(base::config_int("fabric.exposures")),
          .receives = static_cast<uint32_t>(base::config_int("fabric.ofi.receives"))};
}

const OfiSetup& checked(const OfiSetup& setup) {
  check_geometry(setup.geometry, setup.inline_cells);
  return setup;
}

}  // namespace

OfiTransport::OfiTransport(Job& job, const OfiSetup& setup)
    : job_(job),
      setup_values_(checked(setup)),
      self_(job.rank()),
      stamp_(static_cast<uint32_t>(text_hash(job.id()) ^ text_hash(job.key()))),
      max_inline_(
          static_cast<uint32_t>(setup.inline_cells * FrameQueue::kCell - sizeof(FrameQueue::Word))),
      pid_(::getpid()),
      packets_(std::size_t{setup.geometry.packets} * setup.geometry.packet_bytes),
      book_(setup.geometry.packets),
      generations_(std::make_unique<std::atomic<uint32_t>[]>(setup.exposures)),
      exposures_(generations_.get(), self_.value, setup.exposures),
      peers_(std::make_unique<std::atomic<Peer*>[]>(static_cast<std::size_t>(job.size()))),
      opened_(setup.geometry.ports, false) {
  const Info info = choose_provider(job.node_count() == 1);
  fid_fabric* fabric = nullptr;
  if (const int answer = ::fi_fabric(info->fabric_attr, &fabric, nullptr); answer != 0)
    throw Error(Errc::no_permission, fmt::format("ofi: fi_fabric: {}", error_text(answer)));
  fabric_.reset(fabric);
  Card card{setup.geometry, {}};
  for (uint32_t port = 0; port < setup.geometry.ports; ++port) {
    engines_.push_back(std::make_unique<Engine>(*this, port, info, *fabric));
    card.addresses.push_back(engines_.back()->endpoint().address());
  }
  job_.put(kCardKey, card.text());
  met_.push_back(std::make_unique<Peer>(self_, std::move(card)));
  // release: pairs with find's acquire.
  peers_[self_.value].store(met_.back().get(), std::memory_order_release);
  // Signals are for the program's threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  keeper_ = std::thread([this] { keep(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OfiTransport::~OfiTransport() {
  if (pid_ != ::getpid()) {
    // A fork's copy: connections and the thread are its parent's. Nothing of them may be touched.
    for (auto& engine : engines_) (void)engine.release();
    (void)fabric_.release();
    keeper_.detach();
    return;
  }
  leave();
  {
    const std::scoped_lock hold(keeper_lock_);
    keeper_ends_ = true;
  }
  keeper_told_.notify_one();
  keeper_.join();
  if (const uint64_t strays = strays_.load(std::memory_order_relaxed); strays != 0)
    base::log(base::LogLevel::warn,
              fmt::format("ofi: {} frames came that were of no rank of this job", strays));
}

std::unique_ptr<Port> OfiTransport::open_port(uint32_t number) {
  const std::scoped_lock hold(setup_);
  if (number >= opened_.size())
    throw Error(Errc::bad_argument,
                fmt::format("port {} of a transport with {} ports", number, opened_.size()));
  if (opened_[number])
    throw Error(Errc::bad_argument, fmt::format("port {} was opened before", number));
  opened_[number] = true;
  return std::make_unique<OfiPort>(*this, number);
}

// ---- peers ----

Peer& OfiTransport::meet(Rank rank) noexcept {
  const std::scoped_lock hold(setup_);
  auto& entry = peers_[rank.value];
  // relaxed: entries are written under this lock.
  if (Peer* const met = entry.load(std::memory_order_relaxed)) return *met;
  std::unique_ptr<Peer> peer;
  try {
    Card card = Card::parse(job_.get(rank, kCardKey));
    if (card.geometry.packet_bytes != geometry().packet_bytes)
      throw Error(Errc::bad_config,
                  fmt::format("its fabric.packet_bytes is {} instead of {}",
                              card.geometry.packet_bytes, geometry().packet_bytes));
    peer = std::make_unique<Peer>(rank, std::move(card));
  } catch (const std::exception& failure) {
    peer = std::make_unique<Peer>(rank);
    enter_death(*peer, fmt::format("rank {} cannot be reached through ofi: {}", rank.value,
                                   failure.what()));
  }
  // release: pairs with find's acquire.
  entry.store(peer.get(), std::memory_order_release);
  met_.push_back(std::move(peer));
  return *met_.back();
}

void OfiTransport::mark_down(Peer& peer, std::string_view why) noexcept {
  const std::scoped_lock hold(setup_);
  if (peer.down.load(std::memory_order_relaxed)) return;  // relaxed: set under this lock
  enter_death(peer, fmt::format("rank {} (on node {}) {}", peer.rank().value,
                                job_.node_of(peer.rank()), why));
}

void OfiTransport::note_leave(Peer& peer, uint32_t lanes) noexcept {
  // acq_rel: whoever counts the last one sees what was queued under the other engines' locks.
  if (peer.leaves.fetch_add(1, std::memory_order_acq_rel) + 1 != lanes) return;
  peer.departed.store(true, std::memory_order_relaxed);  // relaxed: mark_down publishes it
  mark_down(peer, "left the job");
}

void OfiTransport::enter_death(Peer& peer, std::string cause) noexcept {
  peer.down.store(true, std::memory_order_relaxed);  // relaxed: the release below publishes it
  deaths_.push_back({&peer, std::move(cause)});
  // release: pairs with death_count's acquire.
  death_count_.fetch_add(1, std::memory_order_release);
  for (const auto& engine : engines_) engine->ring();
}

OfiTransport::Death OfiTransport::death(std::size_t number) {
  const std::scoped_lock hold(setup_);
  return deaths_[number];
}

// ---- the keeper, and the end ----

void OfiTransport::keep() noexcept {
  ::pthread_setname_np(::pthread_self(), "weft-ofi");
  auto rest = kLongestRest;
  std::unique_lock hold(keeper_lock_);
  while (!keeper_told_.wait_for(hold, rest, [this] { return keeper_ends_; })) {
    bool moved = false;
    for (const auto& engine : engines_) moved |= engine->keep();
    rest = moved ? kShortestRest : std::min(2 * rest, kLongestRest);
  }
}

/// Tells the peers that were met, and waits until all that was sent has arrived: what lies unread
/// here when a connection is closed could take what is under way to the other side with it.
void OfiTransport::leave() noexcept {
  std::vector<Peer*> peers;
  {
    const std::scoped_lock hold(setup_);
    for (const auto& peer : met_)
      if (peer->known() && peer->rank() != self_) peers.push_back(peer.get());
  }
  for (Peer* const peer : peers) {
    uint32_t lanes = 0;
    for (const auto& engine : engines_) lanes += engine->lanes_to(*peer);
    if (lanes == 0) engines_.front()->leave(*peer, 1, true);
    for (const auto& engine : engines_) engine->leave(*peer, lanes, false);
  }
  const auto end = std::chrono::steady_clock::now() + kMostLeaving;
  for (;;) {
    bool all = true;
    for (const auto& engine : engines_) all &= engine->has_left();
    if (all || std::chrono::steady_clock::now() > end) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// ---- memory ----

std::string OfiTransport::why_not_read(Rank peer) const {
  if (peer == self_) return {};
  return "ofi does not read memory of other ranks yet";
}

Errc OfiTransport::read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept {
  if (peer != self_) return Errc::no_permission;
  if (!local.empty())
    std::memmove(local.data(), reinterpret_cast<const void*>(address), local.size());
  return Errc::ok;
}

Errc OfiTransport::write_memory(Rank peer, uint64_t address,
                                std::span<const std::byte> local) noexcept {
  if (peer != self_) return Errc::no_permission;
  if (!local.empty()) std::memmove(reinterpret_cast<void*>(address), local.data(), local.size());
  return Errc::ok;
}

std::span<std::byte> OfiTransport::allocate_shared(std::size_t bytes) {
  if (bytes == 0) throw Error(Errc::bad_argument, "a shared allocation of no bytes");
  Pages pages(bytes);
  std::byte* const base = pages.base();
  const std::scoped_lock hold(setup_);
  allocations_.insert_or_assign(base, Allocation{std::move(pages), bytes, ++segments_});
  return {base, bytes};
}

void OfiTransport::release_shared(std::span<std::byte> memory) noexcept {
  const std::scoped_lock hold(setup_);
  const auto found = allocations_.find(memory.data());
  if (found == allocations_.end()) return;
  exposures_.withdraw_segment(found->second.segment);
  allocations_.erase(found);
}

MemoryKey OfiTransport::expose(std::span<std::byte> memory) {
  const std::scoped_lock hold(setup_);
  const auto after = allocations_.upper_bound(memory.data());
  if (after != allocations_.begin()) {
    const auto& [base, one] = *std::prev(after);
    if (memory.data() + memory.size() <= base + one.bytes)
      return exposures_.expose(memory, one.segment, static_cast<uint64_t>(memory.data() - base));
  }
  return exposures_.expose(memory, 0, reinterpret_cast<uint64_t>(memory.data()));
}

}  // namespace weft::fabric::ofi

namespace weft::fabric {

std::unique_ptr<Transport> make_ofi_transport(Job& job, const Geometry& geometry) {
  auto transport = std::make_unique<ofi::OfiTransport>(job, ofi::setup_of(geometry));
  job.fence();
  return transport;
}

static_assert(TransportProvider<decltype(&make_ofi_transport)>);

}  // namespace weft::fabric
