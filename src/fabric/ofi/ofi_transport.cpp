#include "fabric/ofi/ofi_transport.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "fabric/lane_setup.hpp"
#include "fabric/layout.hpp"
#include "fabric/ofi/limits.hpp"
#include "fabric/ofi/ofi_port.hpp"
#include "fabric/parts.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/log.hpp"
#include "weft/base/signals_blocked.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr std::string_view kCardKey = "fabric.ofi";
constexpr std::chrono::microseconds kShortestRest{500};
constexpr std::chrono::microseconds kLongestRest{10'000};
constexpr std::chrono::milliseconds kMostLeaving{2'000};  ///< waiting for peers at the end
constexpr std::chrono::microseconds kLeavingStep{100};
constexpr int kStepsPerQuestion = 100;           ///< while leaving
constexpr uint64_t kLookNs = 200'000'000;        ///< between two looks after peers
constexpr uint64_t kMostAtOnceNs = 100'000'000;  ///< of time awake

/// A cap of a step; 0: there is none.
uint32_t cap(std::string_view key) {
  const int64_t value = base::config_int(key);
  return value == 0 ? Effort::kAll : static_cast<uint32_t>(value);
}

Effort configured_effort() {
  return {.receives = cap("fabric.ofi.step_receives"),
          .sends = cap("fabric.ofi.step_sends"),
          .under_way = cap("fabric.ofi.under_way")};
}

/// What a peer may still send is counted in cells: a longer frame would leave few under way, where
/// each is under way for long.
constexpr uint32_t kMostInlineCells = 4;

OfiSetup setup_of(const Geometry& geometry, std::span<std::byte> packets) {
  register_fabric_config();
  return {
      .geometry = geometry,
      .inline_cells = std::min(configured_inline_cells(geometry), kMostInlineCells),
      .exposures = static_cast<uint32_t>(base::config_int("fabric.exposures")),
      .receive = configured_receive_strategy(),
      .receives = static_cast<uint32_t>(base::config_int("fabric.ofi.receives")),
      .receive_memory = static_cast<uint64_t>(base::config_int("fabric.ofi.receive_memory")),
      .effort = configured_effort(),
      .is_tagged = base::config_text("fabric.security") == "mac",
      .reads = base::config_text("fabric.ofi.remote_reads") != "off",
      .silence_ns = static_cast<uint64_t>(base::config_int("fabric.ofi.silence_s")) * 1'000'000'000,
      .packets = packets};
}

std::size_t packet_area_bytes(const Geometry& geometry) noexcept {
  return std::size_t{geometry.packets} * geometry.packet_bytes;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  std::string text(name.data());
  std::replace(text.begin(), text.end(), ' ', '-');
  return text;
}

OfiSetup checked(OfiSetup setup) {
  check_geometry(setup.geometry, setup.inline_cells);
  WEFT_CHECK(setup.packets.empty() || setup.packets.size() == packet_area_bytes(setup.geometry),
             "an area as large as all packets");
  return setup;
}

}  // namespace

OfiTransport::OfiTransport(Job& job, const OfiSetup& setup)
    : job_(job),
      setup_values_(checked(setup)),
      self_(job.rank()),
      stamp_(static_cast<uint32_t>(text_hash(job.id()) ^ text_hash(job.key()))),
      frame_key_(setup.is_tagged ? std::make_unique<const FrameKey>(job.key()) : nullptr),
      salt_(setup.is_tagged ? FrameKey::fresh_salt() : FrameKey::Salt{}),
      max_inline_(
          static_cast<uint32_t>(setup.inline_cells * FrameQueue::kCell - sizeof(FrameQueue::Word))),
      pid_(::getpid()),
      packets_(setup.packets.empty() ? Pages(packet_area_bytes(setup.geometry)) : Pages()),
      packet_area_(setup.packets.empty()
                       ? std::span(packets_.base(), packet_area_bytes(setup.geometry))
                       : setup.packets),
      book_(setup.geometry.packets),
      generations_(std::make_unique<std::atomic<uint32_t>[]>(setup.exposures)),
      exposures_(generations_.get(), self_.value, setup.exposures),
      peers_(std::make_unique<std::atomic<Peer*>[]>(static_cast<std::size_t>(job.size()))),
      opened_(setup.geometry.ports, false) {
  // Where nodes are pretended, all ranks are on this machine.
  const Info info = choose_provider(static_cast<int>(job.node_ranks().size()) == job.size(),
                                    setup.reads && !setup.is_tagged);
  is_over_tcp_ = ofi::is_over_tcp(*info);
  fid_fabric* fabric = nullptr;
  if (const int answer = libfabric().fabric(info->fabric_attr, &fabric, nullptr); answer != 0)
    throw Error(Errc::no_permission,
                fmt::format("ofi: fi_fabric: {}{}", error_text(answer), files_remark()));
  fabric_.reset(fabric);
  Card card{setup.geometry,
            setup.inline_cells,
            tag_bytes(),
            host_name(),
            {},
            setup.receive == ReceiveStrategy::sized,
            salt_};
  const base::SignalsBlocked blocked;  // providers may start threads, too
  for (uint32_t port = 0; port < setup.geometry.ports; ++port) {
    engines_.push_back(std::make_unique<Engine>(*this, port, info, *fabric));
    card.addresses.push_back(engines_.back()->endpoint().address());
  }
  deaths_.reserve(static_cast<std::size_t>(job.size()));
  job_.put(kCardKey, card.text());
  met_.push_back(std::make_unique<Peer>(self_, std::move(card)));
  // release: pairs with find's acquire.
  peers_[self_.value].store(met_.back().get(), std::memory_order_release);
  keeper_ = std::make_unique<Keeper>();
  keeper_->thread = std::thread([this] { keep(); });
}

bool OfiTransport::is_forks_copy() const noexcept { return pid_ != ::getpid(); }

OfiTransport::~OfiTransport() {
  if (is_forks_copy()) {
    // A fork's copy: connections and the thread are its parent's. Nothing of them may be touched.
    for (auto& engine : engines_) (void)engine.release();
    (void)fabric_.release();
    (void)keeper_.release();
    return;
  }
  leave();
  {
    const std::scoped_lock hold(keeper_->lock);
    keeper_->ends = true;
  }
  keeper_->told.notify_one();
  keeper_->thread.join();
  if (keeper_->meeter.joinable()) keeper_->meeter.join();
  if (const uint64_t strays = strays_.load(std::memory_order_relaxed); strays != 0)
    base::log(base::LogLevel::warn,
              fmt::format("ofi: {} frames came that were of no rank of this job, and were dropped",
                          strays));
  if (repeats() != 0)
    base::log(base::LogLevel::info,
              fmt::format("ofi: {} frames came more than once, and were dropped", repeats()));
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
  const std::scoped_lock one_at_a_time(meeting_);
  if (Peer* const met = find(rank)) return *met;
  std::string failure;
  std::unique_ptr<Peer> peer = make_peer(rank, failure);
  Peer& made = *peer;
  made.note_heard(awake_ns());
  const std::scoped_lock hold(setup_);
  met_.push_back(std::move(peer));
  // release: pairs with find's acquire.
  peers_[rank.value].store(&made, std::memory_order_release);
  const auto told = told_dead_.find(rank.value);
  if (failure.empty() && told != told_dead_.end()) failure = told->second;
  if (!failure.empty()) enter_death(made, std::move(failure), true);
  return made;
}

/// A peer with its address; one without if `failure` says why not.
std::unique_ptr<Peer> OfiTransport::make_peer(Rank rank, std::string& failure) {
  try {
    Card card = Card::parse(job_.get(rank, kCardKey));
    const auto must_agree = [](const char* what, uint32_t theirs, uint32_t ours) {
      if (theirs != ours)
        throw Error(Errc::bad_config,
                    fmt::format("its {} is {} instead of {}", what, theirs, ours));
    };
    must_agree("fabric.packet_bytes", card.geometry.packet_bytes, geometry().packet_bytes);
    must_agree("fabric.inline_cells", card.inline_cells, setup_values_.inline_cells);
    must_agree("number of tag bytes (fabric.security)", card.tag_bytes, tag_bytes());
    must_agree("sorting by size (fabric.ofi.receive=sized)", card.sorts_by_size ? 1 : 0,
               setup_values_.receive == ReceiveStrategy::sized ? 1 : 0);
    return std::make_unique<Peer>(rank, std::move(card));
  } catch (const std::exception& error) {
    failure = fmt::format("rank {} cannot be reached through ofi: {}", rank.value, error.what());
    return std::make_unique<Peer>(rank);
  }
}

void OfiTransport::mark_down(Peer& peer, std::string_view why) noexcept {
  const std::scoped_lock hold(setup_);
  if (peer.down.load(std::memory_order_relaxed)) return;       // relaxed: set under this lock
  int trouble = peer.trouble.load(std::memory_order_relaxed);  // relaxed: for a sentence
  if (trouble == 0) trouble = trouble_.load(std::memory_order_relaxed);  // relaxed: as above
  const bool is_of_memory = trouble == FI_ENOMEM && engines_.front()->endpoint().registers();
  enter_death(
      peer,
      fmt::format("rank {} (on {}, node {}) {}{}{}{}", peer.rank().value, peer.host(),
                  job_.node_of(peer.rank()), why,
                  trouble == 0 ? "" : fmt::format("; last from libfabric: {}", error_text(trouble)),
                  is_of_memory ? locked_memory_remark() : "", files_remark()),
      false);
}

void OfiTransport::mark_left(Peer& peer) noexcept {
  const std::scoped_lock hold(setup_);
  if (peer.down.load(std::memory_order_relaxed)) return;  // relaxed: set under this lock
  peer.departed.store(true, std::memory_order_relaxed);   // relaxed: enter_death publishes it
  enter_death(peer, fmt::format("rank {} left the job", peer.rank().value), true);
}

void OfiTransport::peer_died(Rank rank, std::string_view cause) noexcept {
  if (!reaches(rank) || rank == self_) return;
  const std::scoped_lock hold(setup_);
  Peer* const peer = find(rank);
  if (peer == nullptr)
    told_dead_.emplace(rank.value, cause);
  else if (!peer->down.load(std::memory_order_relaxed))  // relaxed: set under this lock
    enter_death(*peer, std::string(cause), false);
}

void OfiTransport::enter_death(Peer& peer, std::string cause, bool in_order) noexcept {
  peer.down.store(true, std::memory_order_relaxed);  // relaxed: the release below publishes it
  deaths_.push_back({&peer, std::move(cause), in_order ? 0 : base::now_ns()});
  // release: pairs with death_count's acquire.
  death_count_.fetch_add(1, std::memory_order_release);
  for (const auto& engine : engines_) engine->ring();
}

OfiTransport::Death OfiTransport::death(std::size_t number) {
  const std::scoped_lock hold(setup_);
  return deaths_[number];
}

// ---- the keeper, and the end ----

void OfiTransport::note_gathering() noexcept {
  // relaxed, all of them: a round that is missed is made up for at the end of the longest rest.
  if (keeper_->gathering.load(std::memory_order_relaxed)) return;
  keeper_->gathering.store(true, std::memory_order_relaxed);
  if (!keeper_->is_quick.load(std::memory_order_relaxed)) keeper_->told.notify_one();
}

void OfiTransport::keep() noexcept {
  ::pthread_setname_np(::pthread_self(), "weft-ofi");
  auto rest = kLongestRest;
  uint64_t before = base::now_ns(), looked = before;
  std::unique_lock hold(keeper_->lock);
  while (!keeper_->ends) {
    // Woken early, for somebody gathers: then soon.
    if (keeper_->told.wait_for(hold, rest) == std::cv_status::no_timeout && !keeper_->ends)
      keeper_->told.wait_for(hold, kShortestRest);
    if (keeper_->ends) break;
    const uint64_t now = base::now_ns();
    // relaxed: one writer, and a stamp.
    awake_ns_.store(awake_ns() + std::min(now - std::exchange(before, now), kMostAtOnceNs),
                    std::memory_order_relaxed);
    bool moved = keeper_->gathering.exchange(false, std::memory_order_relaxed);
    bool strangers = false;
    for (const auto& engine : engines_) {
      moved |= engine->keep();
      strangers |= engine->has_strangers();
    }
    if (strangers) meet_aside();
    if (now - looked >= kLookNs) {
      looked = now;
      for (const auto& engine : engines_) {
        engine->look_after();
        engine->end_reads_of_the_dead();
      }
    }
    rest = moved ? kShortestRest : std::min(2 * rest, kLongestRest);
    keeper_->is_quick.store(rest == kShortestRest, std::memory_order_relaxed);
  }
}

/// Nobody polls, so the keeper sees to it that ranks are met whose frames came. The launcher, which
/// is asked for their addresses, may take its time, and the keeper has others to answer meanwhile.
void OfiTransport::meet_aside() noexcept {
  const auto meet_all = [this] {
    for (const auto& engine : engines_) engine->meet_strangers();
  };
  // acquire: pairs with the release below; the thread is at its end.
  if (keeper_->meets.load(std::memory_order_acquire)) return;
  if (keeper_->meeter.joinable()) keeper_->meeter.join();
  try {
    const base::SignalsBlocked blocked;
    keeper_->meets.store(true, std::memory_order_relaxed);  // relaxed: the thread begins after it
    keeper_->meeter = std::thread([this, meet_all] {
      meet_all();
      keeper_->meets.store(false, std::memory_order_release);
    });
  } catch (const std::system_error&) {
    keeper_->meets.store(false, std::memory_order_relaxed);  // relaxed: its own
    meet_all();
  }
}

/// Polls `done`, and says at which tries to ask, until it is true or it is `end`.
template <class Done>
bool OfiTransport::leave_until(std::chrono::steady_clock::time_point end, Done done) noexcept {
  for (int tries = 0;; ++tries) {
    if (done(tries % kStepsPerQuestion == 0)) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(kLeavingStep);
  }
}

/// Waits until all that was sent has arrived, tells the peers that were met, and waits again: what
/// lies unread here when a connection is closed could take what is under way to the other side with
/// it.
void OfiTransport::leave() noexcept {
  std::vector<Peer*> peers;
  {
    const std::scoped_lock hold(setup_);
    for (const auto& peer : met_)
      if (peer->known() && peer->rank() != self_) peers.push_back(peer.get());
  }
  const auto is_settled = [&](const Peer* peer) {
    return std::all_of(engines_.begin(), engines_.end(),
                       [&](const auto& engine) { return engine->is_settled(*peer); });
  };
  // One that does not answer shall not keep the others from hearing that we leave.
  for (const auto& engine : engines_) engine->begin_to_leave();
  const auto start = std::chrono::steady_clock::now();
  leave_until(start + kMostLeaving / 2, [&](bool asks) {
    bool settled = true;
    for (const auto& engine : engines_) settled &= engine->settle(asks);
    return settled;
  });
  std::erase_if(peers, [&](const Peer* peer) { return !is_settled(peer); });
  for (Peer* const peer : peers) {
    const auto speaks = std::find_if(engines_.begin(), engines_.end(),
                                     [&](const auto& one) { return one->speaks_to(*peer); });
    (speaks != engines_.end() ? **speaks : *engines_.front()).leave(*peer);
  }
  leave_until(start + kMostLeaving, [&](bool asks) {
    bool quiet = true;
    for (const auto& engine : engines_) {
      (void)engine->settle(asks);  // not waiting for those given up
      quiet &= engine->is_quiet();
    }
    return quiet && std::all_of(peers.begin(), peers.end(), is_settled);
  });
}

// ---- memory ----

std::string OfiTransport::why_not_read(Rank peer) const {
  if (peer == self_) return {};
  return "over a network nothing is read but what was offered";
}

Errc OfiTransport::read_memory(Rank peer, uint64_t address, std::span<std::byte> local) noexcept {
  if (peer != self_) return Errc::no_permission;
  base::copy_bytes(local.data(), reinterpret_cast<const void*>(address), local.size());
  return Errc::ok;
}

Errc OfiTransport::write_memory(Rank peer, uint64_t address,
                                std::span<const std::byte> local) noexcept {
  if (peer != self_) return Errc::no_permission;
  base::copy_bytes(reinterpret_cast<void*>(address), local.data(), local.size());
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

bool OfiTransport::release_shared(std::span<std::byte> memory) noexcept {
  const std::scoped_lock hold(setup_);
  const auto found = allocations_.find(memory.data());
  if (found == allocations_.end()) return false;
  exposures_.withdraw_segment(found->second.segment);
  allocations_.erase(found);
  return true;
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
  auto transport = make_ofi_part(job, geometry, {});
  job.fence();
  return transport;
}

std::unique_ptr<Transport> make_ofi_part(Job& job, const Geometry& geometry,
                                         std::span<std::byte> packets) {
  try {
    return std::make_unique<ofi::OfiTransport>(job, ofi::setup_of(geometry, packets));
  } catch (const std::bad_alloc&) {
    throw Error(Errc::no_memory, "ofi: not enough memory" + ofi::memory_remark());
  } catch (const std::system_error& failure) {
    throw Error(Errc::no_memory, fmt::format("ofi: no thread for the network: {}{}", failure.what(),
                                             ofi::memory_remark()));
  }
}

std::string ofi_choice(bool one_node) {
  const ofi::OfiSetup setup = ofi::setup_of(default_geometry(), {});
  const ofi::Info info = ofi::choose_provider(one_node, setup.reads && !setup.is_tagged);
  return fmt::format("{} over {}, fabric.security {}", info->fabric_attr->prov_name,
                     info->domain_attr->name, setup.is_tagged ? "mac" : "plain");
}

static_assert(TransportProvider<decltype(&make_ofi_transport)>);

}  // namespace weft::fabric
