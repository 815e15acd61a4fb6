// Ranks that wait for each other in a ring, found by probes (comm.report_rings).
//
// Purpose: a rank that only waits to receive cannot know whether whoever shall send computes or
// waits as well. When nothing came to it for comm.report_quiet it asks: it sends a probe to each
// rank that one of its blocked receives names, and each of these, if it stands still in the same
// way, passes it on to those that it waits for. A probe that comes back has gone round a ring, and
// a rank that is ending its runtime answers one. Who computes does neither, and nothing is said.
// Source: 004, with the wait for long as the reason to ask and to pass on.
//
// Owner and lifetime: the runtime's. Who may call: `arrive` who progresses, under its device's
// lock; the rest any thread that holds none. Progress: a mutex, for looks at a list; sends are
// tried once, for the next probe comes with the next look.
//
// Invariants
//  1. A probe is dealt with only when its rank has looked at all devices and found nothing, and has
//     no work at hand: no message lies unseen that was sent before it.
//  2. It is believed at home only if no frame came between the asking and the return.
//  3. It is passed on only by a rank to which nothing came for comm.report_quiet, and only if it is
//     newer than what was passed on for the same asker: a ring that its asker is not in ends it,
//     and a rank sends few for each that asks.
//  4. A receive counts as blocked only while somebody waits for it alone: neither for others beside
//     it, nor for a time.
// Threads that compute, or wait for other things, are unseen: where another of the same rank is
// blocked it may be they who will send. So it is for those who look for a standstill, and off else.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "comm/wire.hpp"
#include "weft/comm/runtime.hpp"

namespace weft::comm {

/// The keys of a table, for readers; those beyond a few are counted (quiet.cpp).
std::string list_of(const std::vector<uint64_t>& keys, MatchOn match_on);

class Probes {
 public:
  explicit Probes(Runtime::Impl& runtime) noexcept : runtime_(runtime) {}

  /// Nothing came for long, and there is nothing else to tell.
  void ask();
  /// (device's lock) Keeps what came, to be dealt with.
  void arrive(Rank source, uint8_t flags, const ProbeBody& probe) noexcept;
  /// Deals with what came, if anything did: nothing else comes just now.
  void deal() noexcept {
    // relaxed: a hint; what is not seen now is at the next sleep.
    if (any_.load(std::memory_order_relaxed)) [[unlikely]]
      deal_now();
  }
  /// This rank ends its runtime, and waits for the others.
  void begin_end() noexcept { ending_.store(true, std::memory_order_relaxed); }

 private:
  /// Receives for which somebody blocks.
  struct Blocked {
    std::vector<Rank> ranks;  ///< whom they name, each once
    std::string text;         ///< for readers
  };
  struct Arrived {
    Rank source;
    uint8_t flags;
    ProbeBody probe;
  };
  [[nodiscard]] Blocked blocked();
  [[nodiscard]] uint64_t frames() const noexcept;
  void deal_now() noexcept;
  void send(Rank to, uint8_t flags, const ProbeBody& probe) noexcept;
  void tell(const Arrived& came, const Blocked& here);

  Runtime::Impl& runtime_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> any_{false};
  std::mutex lock_;
  std::map<int32_t, Arrived> arrived_;     ///< (lock) by who asked, the last of each
  std::map<int32_t, uint32_t> passed_on_;  ///< (lock) by who asked: the last one's sequence
  uint64_t quiet_at_ = ~uint64_t{0};       ///< (lock) frames that had come when it was quiet last
  uint64_t asked_ns_ = 0;                  ///< (lock)
  uint32_t sequence_ = 0;                  ///< (lock) of what this rank asked last
  uint64_t told_at_ = ~uint64_t{0};        ///< (lock) as quiet_at_, when a ring was told
};

}  // namespace weft::comm
