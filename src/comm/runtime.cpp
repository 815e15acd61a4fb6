// The runtime: joining, making the devices, progress over them, and ending.
#include "weft/comm/runtime.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "comm/users_code.hpp"
#include "weft/base/buffers.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"
#include "weft/base/copy.hpp"
#include "weft/base/log.hpp"
#include "weft/base/share_number.hpp"
#include "weft/base/topology.hpp"
#include "weft/fabric/config.hpp"

namespace weft {

namespace {

// Of large transfers in packets: what a rank has under way at most.
constexpr uint32_t kMostStreamedBytes = 8 << 20;
constexpr uint32_t kLeastStreaming = 16;  ///< packets
/// Where a machine does not show its caches: of the last level, and of the second.
constexpr uint64_t kSupposedCache = 32 << 20;
constexpr uint64_t kSupposedSecondCache = 1 << 20;

std::atomic<bool> joined{false};  ///< this process has a runtime that joined the job

std::unique_ptr<fabric::Transport> open_transport(fabric::Job& job, fabric::Geometry geometry,
                                                  const RuntimeOptions& options) {
  auto transport = fabric::make_transport(job, geometry);
  return options.wrap ? options.wrap(std::move(transport)) : std::move(transport);
}

/// This rank can count on one core: it was told so, is bound to one, or, if it may run on all, that
/// is its share beside the other ranks of its node.
bool counts_on_one_core(const RuntimeSettings& settings, const fabric::Job& job) {
  if (settings.cores != 0) return settings.cores == 1;
  const base::Topology& machine = base::Topology::machine();
  const std::size_t ranks = machine.narrowed() ? 1 : job.node_ranks().size();
  return machine.cores().size() / ranks <= 1;
}

}  // namespace

// --- Making ------------------------------------------------------------------------------------

Runtime::Impl::OnlyOne::OnlyOne(bool joins) : joins_(joins) {
  if (joins && joined.exchange(true))
    throw Error(Errc::bad_argument, "this process has a Runtime already: one per process");
}

Runtime::Impl::OnlyOne::~OnlyOne() {
  if (joins_) joined.store(false);
}

Runtime::Impl::Impl(Runtime& the_runtime, const RuntimeOptions& options)
    : self(the_runtime),
      process(::getpid()),
      only_one(options.job == nullptr),
      owned_job(options.job == nullptr ? fabric::join_job() : nullptr),
      job(options.job != nullptr ? *options.job : *owned_job),
      settings(read_settings(options)),
      turns(job.rank().value % 2 == 0, settings.turn_ns,
            {.serve = [](void* impl) noexcept { static_cast<Impl*>(impl)->serve_the_left(); },
             .left = [](void* impl) noexcept { return static_cast<Impl*>(impl)->one_left(); },
             .argument = this}) {
  base::set_log_rank(job.rank().value);
  endpoints.reset(static_cast<std::atomic<Endpoint::Impl*>*>(
      std::calloc(kMaxEndpoints, sizeof(std::atomic<Endpoint::Impl*>))));
  if (!endpoints) throw Error(Errc::no_memory, "no memory for a table of endpoints");
  const auto ranks = static_cast<std::size_t>(job.size());
  dead = std::make_unique<std::atomic<bool>[]>(ranks);

  const fabric::Geometry geometry = fabric::default_geometry(settings.devices);
  transport = open_transport(job, geometry, options);
  bool reaches_all = true;
  for (int r = 0; r < job.size(); ++r) {
    reaches_all = reaches_all && transport->reaches(Rank{r});
    has_far_ranks = has_far_ranks || transport->is_far(Rank{r});
  }
  ranks_limit = reaches_all ? static_cast<uint32_t>(job.size()) : 0;
  packet_memory = transport->packet_area().data();
  packet_bytes = transport->geometry().packet_bytes;
  most_streaming = std::min(transport->geometry().packets / 2,
                            std::max(kLeastStreaming, kMostStreamedBytes / packet_bytes));
  settings.eager_bytes = std::min<std::size_t>(settings.eager_bytes, packet_bytes);
  settings.far_eager_bytes =
      std::clamp<std::size_t>(settings.far_eager_bytes, settings.eager_bytes, packet_bytes);

  const uint32_t packet_count = transport->geometry().packets;
  packets = std::make_unique<base::SlotPool>(packet_count);
  packet_states = std::make_unique<comm::PacketStates>(packet_count);
  shared_packets = std::make_unique<comm::SharedPackets>(*packets, packet_count);
  copy_ways = std::make_unique<comm::CopyWays>(*transport, job.size(), settings.nontemporal);
  const base::Topology& machine = base::Topology::machine();
  const bool shows_caches = machine.cache_bytes() != 0;
  received_bytes =
      comm::receiver_cache_bytes(shows_caches ? machine.cache_bytes() : kSupposedCache,
                                 shows_caches ? machine.all_cache_bytes() : kSupposedCache,
                                 static_cast<int>(job.node_ranks().size()));
  const uint64_t second_cache =
      machine.second_cache_bytes() != 0 ? machine.second_cache_bytes() : kSupposedSecondCache;
  go_around_bytes = comm::go_around_bytes(second_cache, received_bytes);
  const auto peers = static_cast<uint32_t>(ranks);
  most_requests = std::clamp(kRequestRecords / peers, kLeastRequests, kMostRequests);
  requests = std::make_unique<std::atomic<uint32_t>[]>(ranks);
  operations = std::make_unique<comm::OperationTable>(
      settings.operations, peers * most_requests + kRefusalRecords, kFetchRecords);
  const uint32_t unexpected_records = settings.unexpected + settings.devices;
  unexpected = std::make_unique<base::Records<comm::Unexpected>>(unexpected_records);

  cores = static_cast<uint32_t>(machine.cores().size());
  const std::size_t ranks_here = job.node_ranks().size();
  ranks_have_cores = machine.has_processors_for(ranks_here);
  own_cores = machine.narrowed() ? cores : std::max(1U, cores / static_cast<uint32_t>(ranks_here));
  yield_ticks = base::to_ticks(kYieldNs);
  spin_ticks = base::to_ticks(static_cast<double>(settings.spin_ns));
  turn_ticks = base::to_ticks(kTurnNs);
  if (settings.report_quiet_ns != 0)
    quiet_ticks = base::to_ticks(static_cast<double>(settings.report_quiet_ns));
  takes_turns = counts_on_one_core(settings, job) && settings.devices == 1 &&
                settings.turn_ns != 0 &&
                (settings.progress == Progress::waiters || settings.progress == Progress::workers);
  if (takes_turns) cores = 1;
  sleep_fd = ::epoll_create1(EPOLL_CLOEXEC);
  if (sleep_fd < 0) throw Error(Errc::no_permission, "epoll_create1 failed");
  if (settings.devices > 1)
    keepers = std::make_unique<comm::Keepers>(settings.devices, yield_ticks);
  for (uint32_t i = 0; i < settings.devices; ++i) {
    devices.push_back(
        std::make_unique<Device>(*this, static_cast<uint16_t>(i), transport->open_port(i)));
    epoll_event event{.events = EPOLLIN, .data = {.u32 = i}};
    const int bell = devices.back()->port().bell_fd();
    if (bell >= 0 && ::epoll_ctl(sleep_fd, EPOLL_CTL_ADD, bell, &event) != 0) {
      throw Error(Errc::no_permission, "a doorbell cannot join an epoll set");
    }
  }
  if (devices.size() == 1) only_device = devices[0].get();
  if (takes_turns) turns.set_parked(devices[0]->waiters().parked);
  const fabric::Port& port = devices[0]->port();
  const std::size_t longest =
      std::max<std::size_t>(port.max_inline_to(job.rank()), port.max_control());
  kept = std::make_unique<comm::KeptBytes>(
      unexpected_records, (longest + sizeof(fabric::OpenLoan) + base::kCacheLine - 1) /
                              base::kCacheLine * base::kCacheLine);
  for (auto& device : devices) device->spares() = {unexpected->allocate(), kept->allocate()};
}

Runtime::Impl::~Impl() {
  if (sleep_fd >= 0) ::close(sleep_fd);
}

Runtime::Runtime(RuntimeOptions options) : impl_(std::make_unique<Impl>(*this, options)) {
  Impl& my = *impl_;
  // Once a node; by now every room below has registered its settings.
  if (my.job.node_ranks().front() == my.job.rank()) base::warn_unknown_config();
  my.job.on_peer_death([&my](Rank rank, std::string cause) { my.report_death(rank, cause); });
  if (my.settings.progress == Progress::server) {
    for (auto& device : my.devices) {
      my.servers.emplace_back(
          [&my, &each = *device](const std::stop_token& stop) { my.serve(each, stop); });
    }
  }
  my.team = std::make_unique<Team>(*this);
  my.offered = my.settings.progress == Progress::workers && base::add_idle_work(my);
}

Runtime::~Runtime() {
  Impl& my = *impl_;
  if (::getpid() != my.process) {
    // A forked child: the job, the rings and the threads are its parent's.
    (void)impl_.release();
    return;
  }
  my.probes.begin_end();
  // Nobody's memory goes before everybody is done with it; but not in the middle of a failure. The
  // living wait for each other although some have died, of which not all know yet.
  if (std::uncaught_exceptions() == 0) {
    try {
      my.team->barrier();
    } catch (const std::exception& error) {
      base::log(base::LogLevel::debug, fmt::format("at the end: {}", error.what()));
    }
  }
  my.team.reset();
  my.report_survivors();
  if (my.offered) base::remove_idle_work(my);
  for (auto& server : my.servers) server.request_stop();
  for (auto& device : my.devices) device->port().ring_self();
  my.servers.clear();
  my.report_leftovers();
  my.job.on_peer_death(nullptr);
  if (std::uncaught_exceptions() == 0 && my.deaths.load() == 0) {
    try {
      my.job.fence();
    } catch (const std::exception& error) {
      base::log(base::LogLevel::warn, fmt::format("at the end: {}", error.what()));
    }
  }
  base::drop_kept_buffers();
}

/// Objects that outlive their runtime crash when they end, without a word.
void Runtime::Impl::report_survivors() const {
  for (uint32_t i = 0; i < endpoints_made.load(std::memory_order_relaxed); ++i) {
    const Endpoint::Impl* endpoint = endpoints[i].load(std::memory_order_acquire);
    if (endpoint == nullptr) continue;
    base::log(base::LogLevel::error,
              fmt::format("the runtime ends before endpoint {} (or the Team it is of), which must "
                          "not be used any more, nor ended",
                          endpoint->number));
  }
}

void Runtime::Impl::report_leftovers() const {
  const uint32_t left = operations->live();
  const uint32_t messages = unreceived();
  if (left + messages != 0) {
    base::log(base::LogLevel::warn,
              fmt::format("ended with work pending: {} operations under way, {} messages never "
                          "received",
                          left, messages));
  }
}

// --- Progress ----------------------------------------------------------------------------------

namespace {

/// What the thread asked for: of one runtime (tests have several in a process).
struct AskedFor {
  uint64_t runtime = 0;  ///< its serial number; 0: nothing
  uint32_t device = 0;
};
thread_local constinit AskedFor asked_for;

}  // namespace

Device& Runtime::this_device() const noexcept { return impl_->this_device(); }

void Runtime::use_device(std::optional<uint32_t> number) {
  if (!base::this_parker().may_poll())
    throw Error(Errc::bad_argument, "use_device in a task, which uses its worker's device");
  if (number && *number >= device_count())
    throw Error(Errc::bad_argument,
                fmt::format("use_device: device {} of {}", *number, device_count()));
  asked_for = number ? AskedFor{impl_->serial, *number} : AskedFor{};
}

void Runtime::prefer_device(const Device* device) noexcept {
  if (!base::this_parker().may_poll()) return;
  asked_for = device != nullptr ? AskedFor{impl_->serial, device->number()} : AskedFor{};
}

uint64_t Runtime::Impl::next_serial() noexcept {
  static std::atomic<uint64_t> made{0};
  return made.fetch_add(1, std::memory_order_relaxed) + 1;  // relaxed: only unlike
}

Device& Runtime::Impl::one_of_many_devices() const noexcept {
  // Dedicated: a thread's slot is its own while it lives and is reused when it ended, and with it
  // the device (002 Alg. 1). Round-robin: from there on, a step a call.
  // A task keeps its home's, also where it was stolen: what it sends stays in order.
  if (asked_for.runtime == serial && base::this_parker().may_poll()) [[unlikely]]
    return *devices[asked_for.device];
  uint32_t number = base::this_share_number();
  if (settings.assignment == Assignment::round_robin) {
    thread_local uint32_t turn = 0;
    number += turn++;
  }
  return *devices[number % devices.size()];
}

uint32_t Runtime::progress() { return impl_->progress(impl_->this_device()); }

uint32_t Runtime::progress_for_asker() { return impl_->progress_for_asker(impl_->this_device()); }

uint32_t Runtime::Impl::progress(Device& own, bool lingers) {
  uint32_t served = own.try_progress(lingers);
  if (only_device != nullptr) return served;
  // A stream on one's own device does not keep one from the others.
  thread_local uint32_t turn = 0;
  if (served == 0 || ++turn % kTurnsBetweenOthers == 0) served += progress_others(own);
  return served;
}

/// 002 Alg. 2: the others in turn, by try-lock, until one yields, or `most` of them did not;
/// `until_own`: or it is `own`'s turn. Where each thread has a core, not those that another keeps.
uint32_t Runtime::Impl::progress_others(Device& own, uint32_t most, bool until_own) {
  thread_local uint32_t turn = 0;
  const auto count = static_cast<uint32_t>(devices.size());
  const bool crowded = is_crowded();
  for (uint32_t looks = std::min(most, count - 1); looks != 0; --looks) {
    if (turn >= count - 1) turn = 0;
    // Each thread begins behind its own device: they do not meet at one.
    const uint32_t number = (own.number() + 1 + turn++) % count;
    if (crowded || !keepers->is_anothers(number))
      if (const uint32_t served = devices[number]->try_progress(false); served != 0) return served;
    if (until_own && turn == count - 1) break;
  }
  return 0;
}

/// A device's messages may not end: those of the others, in turn, or else begins a row of its own.
uint32_t Runtime::Impl::progress_before_row(Device& own) {
  const uint32_t served = progress_others(own, kAllOthers, true);
  if (served != 0) {
    own.others_had_some();
  } else {
    own.begin_row();
  }
  return served;
}

/// Looks at its own device, up to `looks` times and lingering, or kOneGlance.
uint32_t Runtime::Impl::progress_own(Device& own, Wants wants, uint32_t looks) {
  if (wants == Wants::any && own.row_is_over()) [[unlikely]]
    if (const uint32_t served = progress_before_row(own); served != 0) return served;
  const uint32_t served =
      looks == kOneGlance ? own.try_progress(false) : own.try_progress_often(looks);
  if (wants == Wants::any) own.count_in_row(served);
  return served;
}

/// As `progress`, for somebody who waits.
uint32_t Runtime::Impl::progress_for(Device& own, Wants wants, bool lingers) {
  const uint32_t served = progress_own(own, wants, lingers ? 1 : kOneGlance);
  return served != 0 || only_device != nullptr ? served : progress_others(own);
}

void Runtime::relax() { impl_->relax(Impl::Relaxes::for_itself); }
void Runtime::relax_refused() { impl_->relax(Impl::Relaxes::refused); }

void Runtime::Impl::progress_now_and_then() {
  thread_local uint8_t calls = 0;
  if (++calls == 0 && !comm::UsersCode::is_running()) self.progress();
}

void Runtime::Impl::relax(Relaxes why, comm::RefusedCall* call) {
  thread_local uint32_t fruitless = 0;
  if (self.progress() != 0) {
    fruitless = 0;
    return;
  }
  comm::UsersCode::check_may_wait();
  if (++fruitless % 1024 != 0) {
    base::this_parker().yield();
    return;
  }
  // The peer does not take anything for long: it computes, sleeps or is stopped. Sleep too.
  if (call != nullptr) {
    report_refused(*call);
  } else {
    report_if_quiet(false, why);
  }
  constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 200'000};
  ::nanosleep(&kNap, nullptr);
}

// --- Posting helpers ---------------------------------------------------------------------------

bool Runtime::Impl::may_request(Rank peer) noexcept {
  std::atomic<uint32_t>& under_way = requests[static_cast<std::size_t>(peer.value)];
  if (under_way.fetch_add(1, std::memory_order_relaxed) < most_requests) return true;
  under_way.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

comm::Operation* Runtime::Impl::allocate_request(Rank to) noexcept {
  if (!may_request(to)) return nullptr;
  comm::Operation* const op = operations->allocate();
  if (op == nullptr) {
    end_request(to);
  } else {
    op->counted = true;
  }
  return op;
}

Post Runtime::Impl::posted_unless_refused(comm::Operation& op, Rank to, uint16_t device,
                                          Post answer) {
  if (answer == Post::retry) {
    // Refused, unless its peer died meanwhile and a sweep has ended it.
    if (!comm::OperationTable::claim(op)) return Post::posted;
    withdraw_offer(op, false);
    if (op.counted) end_request(to);
    operations->release_post(op);
    return Post::retry;
  }
  // seq_cst: expected first, then a look at the dead; peer_down says so first, then sweeps. What a
  // sweep came too early for is ended here; the record may be another's by now, but if that one
  // waits for the dead, too, it is over all the same.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (is_dead(to) && comm::OperationTable::claim_from(op, to, device)) [[unlikely]]
    end_later(op, Errc::peer_died);
  return Post::posted;
}

/// What the peer shall know of a large message or put; its buffer may be read over the network.
comm::RendezvousBody Runtime::Impl::announcement_of(comm::Operation& op, Device& device) noexcept {
  comm::RendezvousBody body{operations->handle_of(op), reinterpret_cast<uintptr_t>(op.buffer),
                            op.bytes, fabric::ReadOffer::kNone};
  const auto offer = device.port().offer(op.peer, {op.buffer, op.bytes});
  if (offer.handle != nullptr) {
    op.offered = true;
    op.offer = offer.handle;
    body.address = offer.address;
    body.key = offer.key;
  }
  return body;
}

/// Before its record, or its buffer, is anybody else's. `cuts`: as in Port::withdraw_offer.
void Runtime::Impl::withdraw_offer(comm::Operation& op, bool cuts) noexcept {
  if (std::exchange(op.offered, false)) devices[op.device]->port().withdraw_offer(op.offer, cuts);
}

void Runtime::Impl::end_later(comm::Operation& op, Errc error) {
  op.error = error;
  op.bytes = 0;
  op.work = comm::Work::finish;
  devices[op.device]->enqueue(op);
}

/// Returns only if the rank is there after all (a job with ranks out of reach).
void Runtime::Impl::refuse_rank(Rank rank) const {
  if (rank.value < 0 || rank.value >= job.size()) {
    throw Error(Errc::no_such_peer,
                fmt::format("there is no rank {} in a job of {}", rank.value, job.size()));
  }
  if (transport->reaches(rank)) return;
  throw Error(Errc::no_such_peer,
              fmt::format("rank {} runs on another node, and the {} transport ends at this one",
                          rank.value, transport->name()));
}

namespace comm {

void gather(std::span<const std::span<const std::byte>> pieces, std::byte* into) noexcept {
  for (const auto& piece : pieces) {
    base::copy_bytes(into, piece.data(), piece.size());
    into += piece.size();
  }
}

}  // namespace comm

// --- Deaths ------------------------------------------------------------------------------------

/// From a thread of the launcher's: every device looks at it under its own lock.
void Runtime::Impl::report_death(Rank rank, const std::string& cause) {
  const std::string sentence = fmt::format("rank {} {}", rank.value, cause);
  {
    const std::lock_guard lock(death_lock);
    death_reports.emplace_back(rank, sentence);
  }
  transport->peer_died(rank, sentence);
  for (auto& device : devices) device->note_death();
}

std::vector<std::pair<Rank, std::string>> Runtime::Impl::reported_deaths() {
  const std::lock_guard lock(death_lock);
  return death_reports;
}

/// All but the first `count`.
std::vector<Rank> Runtime::Impl::dead_since(std::size_t count) {
  const std::lock_guard lock(death_lock);
  return {dead_in_order.begin() + static_cast<std::ptrdiff_t>(count), dead_in_order.end()};
}

/// `device` has offered all that it had of the peer. True: so have all now, and this one was the
/// last: it counts as dead.
bool Runtime::Impl::heard_of_death(Rank peer, uint16_t device, std::string_view cause) {
  const std::lock_guard lock(death_lock);
  if (causes.contains(peer.value)) return false;
  auto& [heard, left] = dying
                            .try_emplace(peer.value, Dying{std::vector<bool>(devices.size()),
                                                           static_cast<uint32_t>(devices.size())})
                            .first->second;
  if (heard[device]) return false;
  heard[device] = true;
  if (--left != 0) return false;
  dying.erase(peer.value);
  causes[peer.value] = cause;
  return true;
}

/// Once a peer. What waits for it ends; what waits for its answers, each device ends by itself.
void Runtime::Impl::peer_down(Rank peer, std::string_view cause) {
  // release: pairs with is_dead; who sees it finds the cause.
  dead[static_cast<std::size_t>(peer.value)].store(true, std::memory_order_release);
  {
    const std::lock_guard lock(death_lock);
    dead_in_order.push_back(peer);
  }
  // seq_cst: count first, then look at the tables; recv inserts first, then looks at the count.
  deaths.fetch_add(1, std::memory_order_seq_cst);
  base::log(base::LogLevel::warn, fmt::format("a peer died: {}", cause));
  // seq_cst: one that is not counted yet looks at the count of deaths when it opens.
  const uint32_t made = endpoints_made.load(std::memory_order_seq_cst);
  for (uint32_t i = 0; i < made; ++i) {
    // seq_cst: see deliver_early, which opens an endpoint first, then looks at the count.
    Endpoint::Impl* endpoint = endpoints[i].load(std::memory_order_seq_cst);
    if (endpoint == nullptr && openings.load(std::memory_order_relaxed) != 0) [[unlikely]]
      endpoint = opening_without(i, peer);
    if (endpoint != nullptr) tell_of_death(*endpoint, peer);
  }
  for (auto& device : devices) device->note_death();
}

/// To an endpoint that was offered all that the peer sent; again is no harm. (a device's lock)
void Runtime::Impl::tell_of_death(Endpoint::Impl& endpoint, Rank peer) {
  if (endpoint.spec.matcher != nullptr) {
    bool is_news = false;
    {
      const std::lock_guard lock(death_lock);
      is_news = endpoint.dead.insert(peer.value).second;
    }
    if (is_news) endpoint.spec.matcher->peer_down(peer);
  }
  if (endpoint.table == nullptr || endpoint.spec.match_on == MatchOn::tag) return;
  // Everything behind these keys waits for the dead rank: end the oldest as often as it was seen.
  const auto keys = endpoint.table->keys_where(comm::Side::receive, [peer](uint64_t key) {
    return key >> 32 == static_cast<uint32_t>(peer.value);
  });
  for (const uint64_t key : keys) {
    if (const uint64_t value = endpoint.table->take(key, comm::Side::arrival); value != 0) {
      end_later(*reinterpret_cast<comm::Operation*>(value), Errc::peer_died);
    }
  }
}

bool Runtime::is_dead(Rank rank) const {
  if (static_cast<uint32_t>(rank.value) >= static_cast<uint32_t>(impl_->job.size())) [[unlikely]]
    impl_->refuse_rank(rank);
  return impl_->is_dead(rank);
}

std::string Runtime::cause_of_death(Rank rank) const {
  const std::lock_guard lock(impl_->death_lock);
  const auto found = impl_->causes.find(rank.value);
  return found == impl_->causes.end() ? std::string() : found->second;
}

// --- Facts -------------------------------------------------------------------------------------

Rank Runtime::rank() const noexcept { return impl_->job.rank(); }
int Runtime::size() const noexcept { return impl_->job.size(); }
fabric::Job& Runtime::job() const noexcept { return impl_->job; }
uint32_t Runtime::device_count() const noexcept {
  return static_cast<uint32_t>(impl_->devices.size());
}
Device& Runtime::device(uint32_t number) const {
  if (number >= impl_->devices.size()) [[unlikely]]
    throw Error(Errc::bad_argument, fmt::format("device {} of {}", number, device_count()));
  return *impl_->devices[number];
}
DeviceCounts Runtime::device_counts(uint32_t number) const {
  const Device& device = this->device(number);
  return {.frames = device.counters().read(Device::frames_in),
          .far_frames = device.far_frames(),
          .polls = device.counters().read(Device::polls),
          .empty_polls = device.counters().read(Device::empty_polls),
          .held = device.counters().read(Device::held),
          .refusals = device.counted(Device::refusals),
          .parks = device.counted(Device::parks),
          .sleeps = device.sleeps(),
          .unrung = device.unrung()};
}
std::size_t Runtime::shared_bytes() const noexcept {
  return std::size_t{comm::MessagePackets::kMost} * impl_->packet_bytes;
}
std::size_t Runtime::eager_bytes() const noexcept { return impl_->settings.eager_bytes; }
std::size_t Runtime::eager_bytes(Rank to) const noexcept { return impl_->eager_bytes(to); }
std::size_t Runtime::inline_bytes() const noexcept {
  return impl_->inline_bytes(impl_->devices[0]->port().max_inline());
}
std::size_t Runtime::inline_bytes(Rank to) const noexcept { return impl_->inline_bytes(to); }
std::span<std::byte> Runtime::allocate_shared(std::size_t bytes) {
  return impl_->transport->allocate_shared(bytes);
}
void Runtime::release_shared(std::span<std::byte> memory) {
  if (memory.data() == nullptr || impl_->transport->release_shared(memory)) return;
  throw Error(Errc::bad_argument,
              fmt::format("release_shared of {}, where no memory of allocate_shared begins that is "
                          "not released yet",
                          static_cast<void*>(memory.data())));
}
fabric::MemoryKey Runtime::expose_shared(std::span<std::byte> memory) {
  const fabric::MemoryKey key = impl_->transport->expose(memory);
  if (key.segment != 0) return key;
  impl_->transport->withdraw(key);
  throw Error(Errc::bad_argument,
              fmt::format("expose_shared of {} bytes at {}, which do not lie within one memory of "
                          "allocate_shared (a Region takes any)",
                          memory.size(), static_cast<void*>(memory.data())));
}
std::optional<std::span<std::byte>> Runtime::map_shared(const fabric::MemoryKey& name) noexcept {
  return impl_->transport->map_peer(name);
}
void Runtime::barrier() { impl_->team->barrier(); }

}  // namespace weft
