#include "comm/probes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/log.hpp"

namespace weft::comm {

namespace {

constexpr std::size_t kMostAsked = 16;  ///< ranks that a probe goes on to
constexpr uint32_t kMostLooks = 4;      ///< before a probe waits for the next sleep

/// "0 from 1, 1 from 2, 2 from 0".
std::string ring_of(const ProbeBody& probe) {
  std::string text;
  const auto known = std::min<std::size_t>(probe.hops, std::size(probe.path));
  for (std::size_t at = 0; at + 1 < known; ++at)
    text += fmt::format("{} from {}, ", probe.path[at], probe.path[at + 1]);
  if (probe.hops > known)
    return text + fmt::format("{} from another, of {} ranks", probe.path[known - 1], probe.hops);
  return text + fmt::format("{} from {}", probe.path[known - 1], probe.path[0]);
}

/// Adds a rank to the way that the probe came.
ProbeBody longer(ProbeBody probe, Rank by) noexcept {
  if (probe.hops < std::size(probe.path)) probe.path[probe.hops] = by.value;
  ++probe.hops;
  return probe;
}

/// Of two probes of one asker; the counts go round.
bool is_newer(uint32_t one, uint32_t than) noexcept { return static_cast<int32_t>(one - than) > 0; }

bool has(const std::vector<Rank>& ranks, Rank rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

}  // namespace

uint64_t Probes::frames() const noexcept {
  uint64_t sum = 0;
  for (const auto& device : runtime_.devices) sum += device->counters().read(Device::frames_in);
  return sum;
}

Probes::Blocked Probes::blocked() {
  Blocked found;
  const Rank self = runtime_.job.rank();
  // Under a device's lock no endpoint ends.
  runtime_.devices[0]->with_lock([&] {
    const uint32_t count = runtime_.endpoints_made.load(std::memory_order_relaxed);
    for (uint32_t number = 0; number < count; ++number) {
      const Endpoint::Impl* const endpoint =
          runtime_.endpoints[number].load(std::memory_order_acquire);
      if (endpoint == nullptr || endpoint->table == nullptr ||
          endpoint->spec.match_on == MatchOn::tag) {
        continue;  // a receive that names no rank may be met by any
      }
      std::vector<uint64_t> keys;
      keys.reserve(kMostAsked);  // no heap under a bucket's lock
      // While it is in the table its completion is there.
      endpoint->table->survey([&](uint64_t key, Side side, uint64_t value) {
        if (side != Side::receive || keys.size() == kMostAsked) return;
        const auto rank = [](uint64_t of) { return of >> 32; };
        if (std::any_of(keys.begin(), keys.end(), [&](uint64_t k) { return rank(k) == rank(key); }))
          return;
        const auto& op = *reinterpret_cast<const Operation*>(value);
        // Of this rank itself it is another thread that will send.
        if (static_cast<int32_t>(key >> 32) == self.value || op.completion == nullptr ||
            !op.completion->is_awaited()) {
          return;
        }
        keys.push_back(key);
      });
      if (keys.empty()) continue;
      found.text += fmt::format("; at endpoint {} receives wait for {}", number,
                                list_of(keys, endpoint->spec.match_on));
      for (const uint64_t key : keys) found.ranks.push_back({static_cast<int32_t>(key >> 32)});
    }
  });
  const auto less = [](Rank a, Rank b) { return a.value < b.value; };
  std::sort(found.ranks.begin(), found.ranks.end(), less);
  found.ranks.erase(std::unique(found.ranks.begin(), found.ranks.end()), found.ranks.end());
  if (found.ranks.size() > kMostAsked) found.ranks.resize(kMostAsked);
  return found;
}

void Probes::ask() {
  const uint64_t before = frames();  // whatever comes from here on ends the quiet
  const Blocked here = blocked();
  ProbeBody probe{};
  {
    const std::lock_guard hold(lock_);
    const uint64_t now = base::now_ns();
    const bool asked =
        quiet_at_ == before && now - asked_ns_ < runtime_.settings.report_quiet_ns / 2;
    // What was asked before that is not believed any more.
    if (std::exchange(quiet_at_, before) != before) ++sequence_;
    if (!arrived_.empty()) any_.store(true, std::memory_order_relaxed);
    if (here.ranks.empty() || asked || told_at_ == before) {
      probe.hops = 0;
    } else {
      asked_ns_ = now;
      probe.sequence = ++sequence_;
      probe = longer(probe, runtime_.job.rank());
    }
  }
  if (probe.hops != 0) {
    for (const Rank rank : here.ranks) send(rank, 0, probe);
  }
  if (!runtime_.any_busy() && !runtime_.self.has_deferred()) deal();
}

void Probes::send(Rank to, uint8_t flags, const ProbeBody& probe) noexcept {
  if (runtime_.is_known_dead(to)) return;
  Device& device = runtime_.this_device();
  (void)device.port().try_send(
      to, device.number(),
      Bytes(Header{.type = PacketType::probe, .flags = flags, .reply_port = device.number()}, probe)
          .span(),
      {});
}

void Probes::arrive(Rank source, uint8_t flags, const ProbeBody& probe) noexcept {
  const auto ranks = static_cast<uint32_t>(runtime_.job.size());
  const Rank asker{probe.path[0]};
  if (probe.hops == 0 || probe.hops > ranks || static_cast<uint32_t>(asker.value) >= ranks ||
      !runtime_.transport->reaches(asker)) {
    return;
  }
  try {
    const std::lock_guard hold(lock_);
    const auto [last, is_first] = arrived_.try_emplace(asker.value, Arrived{source, flags, probe});
    if (!is_first && is_newer(probe.sequence, last->second.probe.sequence))
      last->second = {source, flags, probe};
    any_.store(true, std::memory_order_relaxed);
  } catch (const std::bad_alloc&) {  // then not
  }
}

void Probes::deal_now() noexcept {
  // What was sent before a probe, perhaps over another device, counts first.
  uint32_t looks = 0;
  const auto look = [&] {
    uint32_t served = 0;
    for (const auto& device : runtime_.devices) served += device->look();
    return served;
  };
  while (look() != 0) {
    if (++looks == kMostLooks) return;
  }
  try {
    const Rank self = runtime_.job.rank();
    std::optional<Arrived> mine;
    std::map<int32_t, Arrived> news;
    bool is_quiet = false;
    {
      const std::lock_guard hold(lock_);
      is_quiet = quiet_at_ == frames();
      // Others' wait for this rank to be quiet for long, too; `ask` comes back to them.
      if (!is_quiet && !ending_.load(std::memory_order_relaxed)) {
        any_.store(false, std::memory_order_relaxed);
        return;
      }
      any_.store(false, std::memory_order_relaxed);
      for (const auto& [asker, each] : std::exchange(arrived_, {})) {
        if (asker == self.value) {
          mine = each;
          continue;
        }
        const auto [last, is_first] = passed_on_.try_emplace(asker, each.probe.sequence);
        if (!is_first && !is_newer(each.probe.sequence, last->second)) continue;
        last->second = each.probe.sequence;
        news.emplace(asker, each);
      }
    }
    if (!mine && news.empty()) return;
    const Blocked here = blocked();
    if (mine) tell(*mine, here);
    for (const auto& [asker, each] : news) {
      if (ending_.load(std::memory_order_relaxed)) {
        send(Rank{asker}, kIsEnding, longer(each.probe, self));
      }
      if (!is_quiet) continue;
      for (const Rank rank : here.ranks) send(rank, 0, longer(each.probe, self));
    }
  } catch (const std::bad_alloc&) {  // then not
  }
}

void Probes::tell(const Arrived& came, const Blocked& here) {
  const bool is_end = (came.flags & kIsEnding) != 0;
  const bool ends_here = ending_.load(std::memory_order_relaxed);
  // Whoever ends waits for those who do: nothing is wrong with that.
  if (is_end && ends_here) return;
  // It no longer waits as it did when it asked.
  if (came.probe.hops < 2 || !has(here.ranks, Rank{came.probe.path[1]})) return;
  {
    const std::lock_guard hold(lock_);
    const uint64_t now = frames();
    if (came.probe.sequence != sequence_ || quiet_at_ != now || told_at_ == now) return;
    told_at_ = now;
  }
  std::string what;
  if (is_end) {
    what = fmt::format("rank {} is ending its runtime", came.source.value);
    if (came.probe.hops > 2)
      what += fmt::format(", for which this one waits by way of rank {}", came.probe.path[1]);
  } else {
    what = fmt::format("ranks wait to receive from each other in a ring: {}", ring_of(came.probe));
  }
  if (ends_here) what += "; this one is ending its runtime";
  base::log(base::LogLevel::warn,
            fmt::format("waits in vain for {} ms: {}{} (comm.report_rings)",
                        runtime_.settings.report_quiet_ns / 1'000'000, what, here.text));
}

}  // namespace weft::comm
