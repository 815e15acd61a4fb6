#include "fabric/lane_transport.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "fabric/lane_port.hpp"
#include "fabric/membarrier.hpp"
#include "fabric/proc.hpp"
#include "weft/base/log.hpp"
#include "weft/base/topology.hpp"

namespace weft::fabric {

Layout LaneTransport::layout_for(const LaneSetup& setup) {
  check_geometry(setup.geometry, setup.inline_cells);
  return Layout(setup.geometry, static_cast<uint32_t>(setup.ranks.size()), setup.exposures);
}

LaneTransport::LaneTransport(Job& job, const LaneSetup& setup, std::unique_ptr<Backing> backing)
    : job_(job),
      options_(setup),
      self_(job.rank()),
      membarrier_(setup.membarrier && register_membarrier()),
      pid_(::getpid()),
      backing_(std::move(backing)),
      own_(backing_->base(), layout_for(setup)),
      book_(setup.geometry.packets + kTickets),
      exposures_(&own_.generation(0), self_.value, setup.exposures),
      peers_(std::make_unique<std::atomic<Peer*>[]>(static_cast<std::size_t>(job.size()))),
      ports_(setup.geometry.ports, nullptr) {
  const auto& ranks = options_.ranks;
  my_lane_ = static_cast<uint32_t>(std::find(ranks.begin(), ranks.end(), self_) - ranks.begin());
  WEFT_CHECK(my_lane_ < ranks.size(), "a rank is among those that its transport connects");
  fill_header();
  place_packets();
  if (!meet(self_).attached()) throw Error(Errc::no_memory, deaths_.front().cause);
}

LaneTransport::~LaneTransport() {
  if (pid_ != ::getpid()) return;  // a fork's copy: the segment is not its own to leave
  // release: pairs with Peer::left; all that was sent before is seen by whoever sees this.
  own_.header().left.store(1, std::memory_order_release);
  for (auto& peer : met_) {
    if (!peer->attached() || peer->rank() == self_) continue;
    for (uint32_t p = 0; p < peer->ports(); ++p) {
      PortControl& port = peer->view().port(p);
      const uint32_t seen = sleeper_of(port, true);
      if (seen != 0) ring_first(*peer, p, seen, Knock::news);
    }
  }
}

void LaneTransport::fill_header() {
  SegmentHeader& header = own_.header();
  header.version = kSegmentVersion;
  header.lanes = static_cast<uint32_t>(options_.ranks.size());
  header.job_hash = text_hash(job_.id());
  header.key_hash = text_hash(job_.key());
  header.total_bytes = own_.layout().total;
  header.rank = self_.value;
  header.inline_cells = options_.inline_cells;
  header.geometry = options_.geometry;
  header.exposures = options_.exposures;
  header.has_membarrier = membarrier_ ? 1 : 0;
  header.self_address = reinterpret_cast<uint64_t>(&header);
  header.pid = pid_;
  header.start_time = own_start_time();
  // release: pairs with header_fault's acquire.
  header.magic.store(kSegmentMagic, std::memory_order_release);
}

void LaneTransport::place_packets() noexcept {
  const auto& machine = base::Topology::machine();
  if (machine.numa_nodes() < 2) return;
  // The writer's node: the sender writes every packet, and readers sit on any node.
  const int node = options_.packet_node >= 0 ? options_.packet_node : machine.this_numa_node();
  const auto area = packet_area();
  base::prefer_numa_node(area.data(), area.size(), node);
}

bool LaneTransport::reaches(Rank rank) const noexcept {
  return std::binary_search(options_.ranks.begin(), options_.ranks.end(), rank);
}

std::span<std::byte> LaneTransport::packet_area() noexcept {
  const Geometry& g = options_.geometry;
  return {own_.packet(0), std::size_t{g.packets} * g.packet_bytes};
}

std::atomic<uint32_t>* LaneTransport::written(Rank to, uint32_t index, bool follows) noexcept {
  Peer* const peer = to != self_ ? reachable(to) : nullptr;
  if (peer == nullptr || !peer->attached()) return nullptr;
  // Who can read there can be read from, mostly; a receiver who cannot waits.
  return !follows || can_read(*peer) ? &own_.written(index) : nullptr;
}

/// Not within a process: its threads die together, and an unordered read is a data race.
uint64_t LaneTransport::origin_for_peers(const std::byte* place) const noexcept {
  return in_process() ? 0 : reinterpret_cast<uintptr_t>(place);
}

std::unique_ptr<Port> LaneTransport::open_port(uint32_t number) {
  const std::scoped_lock hold(setup_);
  if (number >= ports_.size())
    throw Error(Errc::bad_argument,
                fmt::format("port {} of a transport with {} ports", number, ports_.size()));
  PortControl& control = own_.port(number);
  if (ports_[number] != nullptr ||
      control.state.load(std::memory_order_relaxed) != PortControl::closed)
    throw Error(Errc::bad_argument, fmt::format("port {} was opened before", number));
  const auto& machine = base::Topology::machine();
  if (machine.numa_nodes() > 1)  // the consumer's node, before any sender touches a page
    base::prefer_numa_node(own_.base() + own_.layout().lane_at(number, 0),
                           own_.layout().port_lanes_bytes, machine.this_numa_node());
  auto port = std::make_unique<LanePort>(*this, number, backing_->open_own_bell(number, control),
                                         backing_->deaths_fd());
  ports_[number] = port.get();
  // release: pairs with open_lane's acquire; the bell is entered.
  control.state.store(PortControl::open, std::memory_order_release);
  return port;
}

void LaneTransport::forget_port(uint32_t number) noexcept {
  const std::scoped_lock hold(setup_);
  ports_[number] = nullptr;
}

Peer& LaneTransport::meet(Rank rank) noexcept {
  const std::scoped_lock hold(setup_);
  auto& entry = peers_[rank.value];
  // relaxed: entries are written under this lock.
  if (Peer* const met = entry.load(std::memory_order_relaxed)) return *met;
  std::unique_ptr<Peer> peer;
  try {
    peer = attach(rank);
    if (const auto told = told_dead_.find(rank.value);
        told != told_dead_.end() && !peer->link().watched())
      enter_death(*peer, told->second);
  } catch (const std::exception& failure) {
    peer = std::make_unique<Peer>(rank);
    enter_death(*peer, fmt::format("rank {} cannot be reached through {}: {}", rank.value, name(),
                                   failure.what()));
  }
  // release: pairs with find's acquire.
  entry.store(peer.get(), std::memory_order_release);
  met_.push_back(std::move(peer));
  return *met_.back();
}

std::unique_ptr<Peer> LaneTransport::attach(Rank rank) {
  if (!reaches(rank)) throw Error(Errc::no_such_peer, "it is not on this node");
  auto link = backing_->attach(rank);
  const auto& header = *reinterpret_cast<const SegmentHeader*>(link->base());
  if (header.lanes != options_.ranks.size())  // this rank's lane there may be another's
    throw Error(Errc::bad_config,
                fmt::format("it has lanes for {} ranks, this one for {}: is fabric.transport the "
                            "same in all ranks?",
                            header.lanes, options_.ranks.size()));
  const Geometry& theirs = header.geometry;
  if (std::min(theirs.lane_cells, theirs.control_cells) < 2 * options_.inline_cells)
    throw Error(Errc::bad_config,
                fmt::format("its rings have {} and {} cells, too few for messages of {}: are "
                            "fabric.lane_cells and fabric.control_cells the same in all ranks?",
                            theirs.lane_cells, theirs.control_cells, options_.inline_cells));
  if (header.inline_cells != options_.inline_cells)  // whoever has fewer has room for no more
    throw Error(Errc::bad_config,
                fmt::format("its messages in rings have up to {} cells, this one's {}: is "
                            "fabric.inline_cells the same in all ranks?",
                            header.inline_cells, options_.inline_cells));
  return std::make_unique<Peer>(
      rank, std::move(link),
      SegmentView(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(&header)),
                  Layout(header.geometry, header.lanes, header.exposures)));
}

bool LaneTransport::fence_towards(const SegmentView& view) const noexcept {
  return !membarrier_ || view.header().has_membarrier == 0;
}

bool LaneTransport::open_lane(Peer& peer, uint32_t port) noexcept {
  if (!peer.attached()) return false;
  PortControl& control = peer.view().port(port);
  // acquire: pairs with open_port's release.
  if (control.state.load(std::memory_order_acquire) != PortControl::open) return false;
  OutLane& lane = peer.lane(port);
  {
    const std::scoped_lock hold(setup_);
    if (lane.open.load(std::memory_order_relaxed)) return true;  // relaxed: set under this lock
    if (peer.down.load(std::memory_order_relaxed)) return false;
    const SegmentView& view = peer.view();
    const Geometry& g = view.header().geometry;
    try {
      peer.link().secure(view.layout().lane_at(port, my_lane_), view.layout().lane_bytes);
    } catch (const std::exception& failure) {
      enter_death(peer, fmt::format("no lane to {}: {}", describe(peer), failure.what()));
      return false;
    }
    LaneHeads& heads = view.heads(port, my_lane_);
    lane.port = &control;
    lane.fence = fence_towards(view);
    lane.messages = RingProducer(view.message_cells(port, my_lane_), g.lane_cells, &heads.messages);
    lane.control =
        RingProducer(view.control_cells(port, my_lane_), g.control_cells, &heads.control);
    // The receiver learns of the lane, and is woken to learn it, before anything is published on
    // it: from now on it watches this process, so that a death cannot go unnoticed.
    view.active(port)[my_lane_ / 64].fetch_or(uint64_t{1} << (my_lane_ % 64),
                                              std::memory_order_relaxed);
    // release: pairs with LanePort::discover's acquire; the bit is seen with the count.
    control.activations.fetch_add(1, std::memory_order_release);
    // release: pairs with lane_to's acquire.
    lane.open.store(true, std::memory_order_release);
  }
  const uint32_t seen = sleeper_of(control, true);
  if (seen != 0) ring_port(peer, port, seen);
  return true;
}

void LaneTransport::ring_port(Peer& peer, uint32_t port, uint32_t seen) noexcept {
  OutLane& lane = peer.lane(port);
  // acquire: pairs with the release below; behind the number is what was opened.
  int bell = lane.bell.load(std::memory_order_acquire);
  if (bell == OutLane::kNoBell) [[unlikely]] {
    const std::scoped_lock hold(setup_);
    bell = lane.bell.load(std::memory_order_relaxed);
    if (bell == OutLane::kNoBell) {
      lane.bell.store(ring_first(peer, port, seen, Knock::frame), std::memory_order_release);
      return;
    }
  }
  if (bell != PeerLink::kBellGone) ring(peer.view().port(port), seen, bell, Knock::frame);
}

/// Rings a port whose bell was not there yet; what it is rung with from now on. Who cannot be rung
/// is tried again with the next frame, and where only a descriptor was wanting, before.
int LaneTransport::ring_first(Peer& peer, uint32_t port, uint32_t seen, Knock what) noexcept {
  const int bell = peer.link().open_bell(port);
  const bool in_need = bell == PeerLink::kNoDescriptor;
  const bool knocked = in_need && peer.link().knock_in_need(port, what);
  if (bell >= 0) ring(peer.view().port(port), seen, bell, what);
  if (knocked) has_rung(peer.view().port(port), seen);
  note_unrung(peer, peer.lane(port), in_need && !knocked ? seen : 0);
  return in_need ? PeerLink::kNoBell : bell;
}

/// Another thread had the descriptor, or the system gave it away. Ports of ours that sleep see to
/// it, too, and if it is one of these it is awake by that.
void LaneTransport::note_unrung(const Peer& peer, OutLane& lane, uint32_t sleep) noexcept {
  const bool is_own = peer.rank() == self_;
  const bool was = std::exchange(lane.unrung, is_own ? 0 : sleep) != 0;
  const bool is = lane.unrung != 0;
  // relaxed: a hint.
  if (was != is) unrung_.fetch_add(is ? 1 : -1U, std::memory_order_relaxed);
  if (sleep != 0 && !was) wake_own_ports();
}

bool LaneTransport::ring_again() noexcept {
  const std::unique_lock hold(setup_, std::try_to_lock);
  if (!hold) return false;
  for (auto& peer : met_) {
    for (uint32_t p = 0; peer->attached() && p < peer->ports(); ++p) {
      OutLane& lane = peer->lane(p);
      if (lane.unrung == 0) continue;
      // relaxed: set under this lock.
      const bool down = peer->down.load(std::memory_order_relaxed);
      const uint32_t seen = down ? 0 : sleeper_of(peer->view().port(p), true);
      if (seen != lane.unrung)  // who sleeps anew has looked since
        note_unrung(*peer, lane, 0);
      else  // as in ring_port
        lane.bell.store(ring_first(*peer, p, seen, Knock::frame), std::memory_order_release);
    }
  }
  return !has_unrung();
}

// ---- deaths ----

void LaneTransport::look_for_deaths(bool thorough) noexcept {
  const std::unique_lock hold(setup_, std::try_to_lock);
  if (!hold) return;  // somebody is meeting a peer; the next look will do
  take_the_launchers_word();
  const bool somebody = backing_->somebody_ended();
  if (!somebody && !thorough) return;
  for (auto& peer : met_) {
    if (!peer->attached() || peer->rank() == self_) continue;
    const bool is_down = peer->down.load(std::memory_order_relaxed);  // set under this lock
    const bool looks = somebody || (!peer->link().watched() && !is_down);
    const bool dead = looks && peer->link().gone();
    if (is_down) continue;
    if (!dead && !peer->left()) continue;
    enter_death(*peer, how_it_ended(*peer));
  }
}

void LaneTransport::peer_died(Rank rank, std::string_view cause) noexcept {
  if (in_process() || !reaches(rank) || rank == self_) return;
  {
    const std::scoped_lock hold(words_lock_);
    words_.emplace_back(rank, cause);
  }
  // Not waited for: who holds it may wait for the launcher's thread, which calls this. The next
  // look takes the word then.
  const std::unique_lock hold(setup_, std::try_to_lock);
  if (hold) take_the_launchers_word();
}

/// A peer that is watched is dead when its process is, which that tells by itself.
void LaneTransport::take_the_launchers_word() noexcept {
  std::vector<std::pair<Rank, std::string>> words;
  {
    const std::scoped_lock hold(words_lock_);
    words.swap(words_);
  }
  for (auto& [rank, cause] : words) {
    Peer* const peer = find(rank);
    if (peer == nullptr)
      told_dead_.emplace(rank.value, std::move(cause));
    else if (!peer->down.load(std::memory_order_relaxed) && !peer->link().watched())
      enter_death(*peer, std::move(cause));  // (relaxed: set under this lock)
  }
}

void LaneTransport::mark_down(Peer& peer, std::string cause) noexcept {
  const std::scoped_lock hold(setup_);
  if (!peer.down.load(std::memory_order_relaxed)) enter_death(peer, std::move(cause));
}

void LaneTransport::enter_death(Peer& peer, std::string cause) noexcept {
  // release: pairs with who looks for it before how far a packet is written. Senders have the
  // locks.
  peer.down.store(true, std::memory_order_release);
  for (uint32_t p = 0; p < peer.ports(); ++p) {  // invariant 2
    OutLane& lane = peer.lane(p);
    // relaxed: opened under the lock that this thread holds.
    if (!lane.open.load(std::memory_order_relaxed)) continue;  // relaxed: set under `setup_`
    const base::BiasedLock::Hold passed(lane.lock);
    lane.open.store(false, std::memory_order_relaxed);  // relaxed: senders look under its lock, too
  }
  deaths_.push_back({&peer, std::move(cause)});
  // release: pairs with death_count's acquire.
  death_count_.fetch_add(1, std::memory_order_release);
  wake_own_ports();
}

void LaneTransport::wake_own_ports() noexcept {
  for (LanePort* const port : ports_)
    if (port != nullptr) port->ring_self();
}

LaneTransport::Death LaneTransport::death(std::size_t number) {
  const std::scoped_lock hold(setup_);
  return deaths_[number];
}

std::string LaneTransport::describe(const Peer& peer) const {
  return fmt::format("rank {} (pid {} of this node)", peer.rank().value, peer.view().header().pid);
}

std::string LaneTransport::how_it_ended(const Peer& peer) const {
  return fmt::format("{} {}", describe(peer), peer.left() ? "left the job" : "ended");
}

// ---- memory of peers ----

Peer* LaneTransport::reachable(Rank rank) noexcept {
  if (rank.value < 0 || rank.value >= job_.size()) return nullptr;
  if (Peer* const peer = find(rank)) return peer;
  return reaches(rank) ? &meet(rank) : nullptr;
}

bool LaneTransport::can_read(Rank rank) noexcept {
  Peer* const peer = reachable(rank);
  return peer != nullptr && can_read(*peer);
}

bool LaneTransport::can_read(Peer& peer) noexcept {
  // acquire: pairs with the release below; the reason is written.
  int state = peer.reads.load(std::memory_order_acquire);
  if (state == 0) {
    const std::scoped_lock hold(setup_);
    state = peer.reads.load(std::memory_order_relaxed);
    if (state == 0) {
      if (!peer.attached())
        peer.why_not_read = "the rank cannot be reached";
      else if (!options_.reads && peer.rank() != self_)
        peer.why_not_read = "switched off by configuration (fabric.cma)";
      else
        peer.why_not_read = peer.link().probe_read();
      state = peer.why_not_read.empty() ? 1 : 2;
      peer.reads.store(state, std::memory_order_release);
    }
  }
  return state == 1;
}

std::string LaneTransport::why_not_read(Rank rank) const {
  if (!reaches(rank)) return "the rank is not on this node";
  const Peer* const peer = find(rank);
  if (peer == nullptr || peer->reads.load(std::memory_order_acquire) == 0) return "not tried yet";
  return peer->why_not_read;
}

/// Asks the system. A link that says so says it once to who watches: it is entered here. While
/// somebody meets a peer, there is no answer: whoever waits for this one asks again.
bool LaneTransport::has_ended(Peer& peer) noexcept {
  const std::unique_lock hold(setup_, std::try_to_lock);
  if (!hold || !peer.attached() || !peer.link().gone()) return false;
  // relaxed: set under this lock.
  if (!peer.down.load(std::memory_order_relaxed)) enter_death(peer, how_it_ended(peer));
  return true;
}

template <class Copy>
Errc LaneTransport::with_memory_of(Rank rank, Copy copy) noexcept {
  Peer* const peer = reachable(rank);
  if (peer == nullptr) return Errc::no_permission;
  // relaxed: a death noticed a moment later is told by the system call.
  if (peer->down.load(std::memory_order_relaxed)) return Errc::peer_died;
  const Errc error = can_read(*peer) ? copy(peer->link()) : Errc::no_permission;
  if (error == Errc::ok || error == Errc::peer_died) [[likely]]
    return error;
  // Of another process, perhaps, which has the dead one's number. And who may not read may wait
  // for what it was to write itself.
  return has_ended(*peer) ? Errc::peer_died : error;
}

Errc LaneTransport::read_memory(Rank rank, uint64_t address, std::span<std::byte> local) noexcept {
  return with_memory_of(rank, [=](PeerLink& link) { return link.read(address, local); });
}

Errc LaneTransport::write_memory(Rank rank, uint64_t address,
                                 std::span<const std::byte> local) noexcept {
  return with_memory_of(rank, [=](PeerLink& link) { return link.write(address, local); });
}

// ---- shared allocations ----

std::span<std::byte> LaneTransport::allocate_shared(std::size_t bytes) {
  if (bytes == 0) throw Error(Errc::bad_argument, "a shared allocation of no bytes");
  const std::scoped_lock hold(setup_);
  for (uint32_t row = 0; row < kSharedRows; ++row) {
    SharedRow& entry = own_.shared_row(row);
    if (entry.segment.load(std::memory_order_relaxed) != 0) continue;  // relaxed: under the lock
    // A row's segments are numbered row + 1, row + 1 + rows, …, so that an old one is told from a
    // new one.
    const uint32_t segment = shared_uses_[row]++ * kSharedRows + row + 1;
    const auto memory = backing_->allocate_shared(bytes, segment, entry);
    const auto& machine = base::Topology::machine();
    if (machine.numa_nodes() > 1)
      base::prefer_numa_node(memory.data(), memory.size(), machine.this_numa_node());
    allocations_[memory.data()] = {memory, segment};
    // release: pairs with map_segment's acquire; the row is filled in.
    entry.segment.store(segment, std::memory_order_release);
    return memory.first(bytes);
  }
  throw Error(Errc::no_memory,
              fmt::format("all {} shared allocations of a rank are in use", kSharedRows));
}

bool LaneTransport::release_shared(std::span<std::byte> memory) noexcept {
  const std::scoped_lock hold(setup_);
  const auto found = allocations_.find(memory.data());
  if (found == allocations_.end()) return false;
  const auto [whole, segment] = found->second;
  exposures_.withdraw_segment(segment);
  SharedRow& entry = own_.shared_row((segment - 1) % kSharedRows);
  backing_->release_shared(whole, segment, entry);
  allocations_.erase(found);
  entry.segment.store(0, std::memory_order_release);  // pairs with map_segment's acquire
  return true;
}

MemoryKey LaneTransport::expose(std::span<std::byte> memory) {
  const std::scoped_lock hold(setup_);
  auto after = allocations_.upper_bound(memory.data());
  if (after != allocations_.begin()) {
    const auto& [whole, segment] = std::prev(after)->second;
    if (memory.data() + memory.size() <= whole.data() + whole.size())
      return exposures_.expose(memory, segment,
                               static_cast<uint64_t>(memory.data() - whole.data()));
  }
  return exposures_.expose(memory, 0, reinterpret_cast<uint64_t>(memory.data()));
}

std::optional<std::span<std::byte>> LaneTransport::map_peer(const MemoryKey& key) noexcept {
  if (key.segment == 0) return std::nullopt;
  if (key.owner == self_.value) return exposures_.resolve(key);
  Peer* const owner = reachable(Rank{key.owner});
  if (owner == nullptr) return std::nullopt;
  Peer& peer = *owner;
  if (!peer.attached() || key.slot >= peer.view().header().exposures) return std::nullopt;
  // acquire: pairs with Exposures::expose's release. A row withdrawn has moved on.
  if (key.generation % 2 == 0 ||
      peer.view().generation(key.slot).load(std::memory_order_acquire) != key.generation)
    return std::nullopt;
  const Peer::Mapping* mapping = nullptr;
  // acquire, twice: pair with map_segment's releases.
  if (auto* const table = peer.mappings.load(std::memory_order_acquire))
    mapping = table[(key.segment - 1) % kSharedRows].load(std::memory_order_acquire);
  if (mapping == nullptr || mapping->segment != key.segment) {
    mapping = map_segment(peer, key);
    if (mapping == nullptr) return std::nullopt;
  }
  if (key.base > mapping->memory.size() || key.bytes > mapping->memory.size() - key.base)
    return std::nullopt;
  return mapping->memory.subspan(key.base, key.bytes);
}

Peer::Mapping* LaneTransport::map_segment(Peer& peer, const MemoryKey& key) noexcept {
  const std::scoped_lock hold(setup_);
  try {
    const uint32_t row = (key.segment - 1) % kSharedRows;
    if (!peer.mappings_owner) {
      peer.mappings_owner = std::make_unique<std::atomic<Peer::Mapping*>[]>(kSharedRows);
      peer.mappings.store(peer.mappings_owner.get(), std::memory_order_release);
    }
    auto& entry = peer.mappings_owner[row];
    Peer::Mapping* const old = entry.load(std::memory_order_relaxed);  // relaxed: under the lock
    if (old != nullptr && old->segment == key.segment) return old;
    const SharedRow& shared = peer.view().shared_row(row);
    // acquire: pairs with allocate_shared's release.
    if (shared.segment.load(std::memory_order_acquire) != key.segment) return nullptr;
    const auto memory = peer.link().map_shared(shared);
    if (memory.empty()) return nullptr;
    peer.live.push_back(std::make_unique<Peer::Mapping>(Peer::Mapping{key.segment, memory}));
    entry.store(peer.live.back().get(),
                std::memory_order_release);  // pairs with map_peer's acquire
    if (old == nullptr) return peer.live.back().get();
    // The old mapping's memory is withdrawn. Its address range is kept for one more generation, for
    // a thread that is still copying, and given up when the next one takes its place. The record
    // stays: a thread may still be looking at it.
    for (auto& gone : peer.retired)
      if (gone->mapped && (gone->segment - 1) % kSharedRows == row) {
        peer.link().unmap_shared(gone->memory);
        gone->mapped = false;
      }
    const auto at = std::find_if(peer.live.begin(), peer.live.end(),
                                 [old](const auto& one) { return one.get() == old; });
    peer.retired.push_back(std::move(*at));
    peer.live.erase(at);
    return entry.load(std::memory_order_relaxed);
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace weft::fabric
