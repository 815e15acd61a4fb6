// What stands still where nothing comes for long (comm.report_quiet): what is short, unanswered, or
// not received.
#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "fabric/cma.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/log.hpp"

namespace weft {

namespace comm {

std::string list_of(const std::vector<uint64_t>& keys, MatchOn match_on) {
  constexpr std::size_t kMostNamed = 4;
  std::map<uint64_t, std::size_t> times;
  for (const uint64_t key : keys) ++times[key];
  std::string text;
  std::size_t named = 0;
  for (const auto& [key, count] : times) {
    if (named++ == kMostNamed) break;
    if (!text.empty()) text += ", ";
    if (match_on != MatchOn::tag) text += fmt::format("rank {} ", static_cast<int32_t>(key >> 32));
    if (match_on != MatchOn::rank) text += fmt::format("tag {} ", static_cast<uint32_t>(key));
    text += fmt::format("({})", count);
  }
  if (times.size() > kMostNamed) text += fmt::format(" and {} more", times.size() - kMostNamed);
  return text;
}

}  // namespace comm

namespace {

/// Between two looks of one wait, where threads outnumber cores.
constexpr uint64_t kSlackNs = 10'000'000'000;

/// Of the buffers of operations under way, in one report.
constexpr std::size_t kMostLookedAt = std::size_t{64} << 20;

/// The runtime makes its team before anybody can make an endpoint.
constexpr uint16_t kOwnTeams = 0;

/// Messages and signals that an endpoint keeps, and receives that wait there; empty if it keeps
/// nothing.
std::string kept_by(const Endpoint::Impl& endpoint) {
  if (endpoint.queue != nullptr) {
    const std::size_t in_queue = endpoint.queue->size_hint();
    if (in_queue == 0) return {};
    return fmt::format("; the queue of endpoint {} holds {} of at most {} messages",
                       endpoint.number, in_queue, endpoint.queue->capacity());
  }
  // relaxed: a number to tell.
  if (const uint32_t untold = endpoint.untold.load(std::memory_order_relaxed); untold != 0) {
    return fmt::format(
        "; signals of puts wait until what endpoint {} tells them has room (at_target): {}",
        endpoint.number, untold);
  }
  if (endpoint.table == nullptr) return {};
  const auto every = [](uint64_t) { return true; };
  const auto messages = endpoint.table->keys_where(comm::Side::arrival, every);
  if (messages.empty()) return {};
  if (endpoint.number == kOwnTeams) {
    return fmt::format(
        "; in Runtime::barrier, or at the end of its runtime (MPI_Finalize), waits for this one: "
        "{}",
        comm::list_of(messages, MatchOn::rank));
  }
  const auto receives = endpoint.table->keys_where(comm::Side::receive, every);
  return fmt::format("; endpoint {} keeps messages that no receive asks for, of {}, and {}",
                     endpoint.number, comm::list_of(messages, endpoint.spec.match_on),
                     receives.empty() ? "no receive waits there"
                                      : "receives wait there for " +
                                            comm::list_of(receives, endpoint.spec.match_on));
}

}  // namespace

/// True once, when nothing came for so long. `continues`: the caller waited ever since its last
/// look; else, where that is long ago, a wait begins here.
bool Runtime::Impl::is_quiet(comm::QuietSpan& span, bool continues) noexcept {
  // What waited for an endpoint that was made since waits for something else now.
  uint64_t polls = endpoints_open.load(std::memory_order_relaxed);
  for (const auto& device : devices) {
    polls += device->counters().read(Device::polls) - device->counters().read(Device::empty_polls) -
             device->counters().read(Device::probe_polls);
  }
  // A poll that is under way counts for a moment as one that brought something: so only more than
  // ever counts.
  const uint64_t now = base::now_ns();
  if (span.runtime != serial || polls > span.polls ||
      (!continues && now - span.looked > settings.report_quiet_ns + kSlackNs)) {
    span = {.runtime = serial, .polls = polls, .since = now};
  }
  span.looked = now;
  if (span.told || now - span.since < settings.report_quiet_ns) return false;
  span.told = true;
  return true;
}

comm::QuietSpan& Runtime::Impl::threads_quiet() noexcept {
  thread_local comm::QuietSpan span;
  return span;
}

uint64_t Runtime::Impl::quiet_deadline() noexcept {
  if (settings.report_quiet_ns == 0) return kNever;
  report_if_quiet(false);
  const comm::QuietSpan& span = threads_quiet();
  return span.told ? kNever : span.since + settings.report_quiet_ns;
}

void Runtime::Impl::report_if_quiet(bool continues, Relaxes why) noexcept {
  if (settings.report_quiet_ns == 0) return;
  comm::QuietSpan& span = threads_quiet();
  if (!is_quiet(span, continues)) return;
  constexpr comm::RefusedCall kUnnamed{};
  if (report_quiet(why == Relaxes::refused ? &kUnnamed : nullptr)) return;
  // Another thread may begin something that nothing answers: to be looked at again.
  span.told = false;
  span.since = span.looked;
}

void Runtime::Impl::report_refused(comm::RefusedCall& call) noexcept {
  if (settings.report_quiet_ns == 0 || call.told) return;
  const uint64_t now = base::now_ns();
  if (call.since == 0) call.since = now;
  if (now - call.since < settings.report_quiet_ns) return;
  call.told = report_quiet(&call);
  call.since = now;
}

/// False: there is nothing to tell, or another told not long ago. Of thousands of tasks that stand
/// still for one reason each would tell it.
bool Runtime::Impl::report_quiet(const comm::RefusedCall* call) noexcept {
  // relaxed: only who may tell is decided.
  uint64_t last = last_report_ns.load(std::memory_order_relaxed);
  const uint64_t now = base::now_ns();
  if (last != 0 && now - last < settings.report_quiet_ns) return false;
  try {
    std::string what = what_stands_still(call);
    if (settings.what_waits) what = settings.what_waits(!what.empty()) + what;
    // Here may stand still what follows from that.
    if (settings.report_rings) probes.ask();
    if (what.empty()) return false;
    if (!last_report_ns.compare_exchange_strong(last, now, std::memory_order_relaxed)) return false;
    base::log(base::LogLevel::warn,
              fmt::format("waits in vain for {} ms: {} (comm.report_quiet)",
                          settings.report_quiet_ns / 1'000'000, what.substr(2)));
  } catch (const std::exception&) {  // no memory: then not
  }
  return true;
}

/// Each part begins with "; ". Empty: it only waits for what others have not sent; whether these
/// wait as well is found by asking (probes.hpp).
std::string Runtime::Impl::what_stands_still(const comm::RefusedCall* call) {
  std::string text;
  if (call != nullptr && call->call.name == nullptr) text += "; a posting call finds no room";
  if (call != nullptr && call->call.name != nullptr) {
    text += fmt::format("; a {} rank {} through endpoint {} finds no room", call->call.name,
                        call->call.peer.value, call->call.endpoint);
  }
  if (operations->posts_are_out()) {
    text += fmt::format("; all {} operations are under way (comm.operations)", settings.operations);
  }
  if (unreceived() >= settings.unexpected) {
    text += fmt::format("; {} messages wait for their receives, and no more can (comm.unexpected)",
                        settings.unexpected);
  }
  if (kept->are_out()) {
    text += fmt::format("; {} short messages wait to be taken, and no more can (comm.unexpected)",
                        settings.unexpected);
  }
  if (packets->available() == 0) text += "; all packets are in use (fabric.packets)";
  if (shared_packets->available() == 0)
    text += "; as many readers of messages to several ranks are awaited as can be";
  for (const auto& [rank, count] : operations->awaited_by_rank()) {
    text += fmt::format("; sends, puts and gets that wait for rank {}: {}", rank, count);
  }
  // Looked at without a lock, which may take long. The ends of long ones: what is freed goes whole.
  std::size_t left = kMostLookedAt;
  for (const auto& one : operations->snapshots()) {
    if (one.buffer.data() == nullptr || one.buffer.empty()) continue;
    const bool all = one.buffer.size() <= left;
    if (all) left -= one.buffer.size();
    const std::byte* missing = fabric::first_unreadable(all ? one.buffer : one.buffer.first(1));
    if (missing == nullptr && !all) missing = fabric::first_unreadable(one.buffer.last(1));
    if (missing == nullptr || !one.still()) continue;
    text += fmt::format(
        "; what is sent to, or fetched from, rank {} at {} ({} bytes) cannot be read from byte {} "
        "on: freed too early?",
        one.peer.value, fmt::ptr(one.buffer.data()), one.buffer.size(),
        missing - one.buffer.data());
  }
  // One that has yet to take all that came early is made, too.
  const auto made = [&](uint32_t number) -> const Endpoint::Impl* {
    if (const Endpoint::Impl* open = endpoints[number].load(std::memory_order_acquire);
        open != nullptr)
      return open;
    if (openings.load(std::memory_order_relaxed) == 0) return nullptr;
    early_lock.lock();
    const Endpoint::Impl* opens = opening_of(number);
    early_lock.unlock();
    return opens;
  };
  // Under a device's lock no endpoint ends.
  devices[0]->with_lock([&] {
    for (const auto& device : devices) {
      const auto held = device->held_now();
      if (!held) continue;
      const Endpoint::Impl* endpoint = made(held->endpoint);
      text += fmt::format("; messages of rank {} are left in its lane, the first for endpoint {}{}",
                          held->source.value, held->endpoint,
                          endpoint == nullptr          ? ", which is not made here"
                          : endpoint->queue != nullptr ? ", whose queue is full"
                                                       : ", which has no room for it");
    }
    std::string unreceived;
    for (uint32_t number = 0; number < endpoints_made.load(std::memory_order_relaxed); ++number) {
      const Endpoint::Impl* endpoint = made(number);
      if (endpoint != nullptr) unreceived += kept_by(*endpoint);
    }
    text += unreceived;
  });
  return text;
}

}  // namespace weft
