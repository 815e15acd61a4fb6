// A channel: one plane of one communicator, where receives and messages meet in MPI's order.
//
// The engines behind this interface are interchangeable (configuration `mpi.matching`) and differ
// in their locks and in what a search costs: keyed (the default), hash, list, per-source, bins, and
// the tail queues over each of the last three and over lists with a bin of the first 50.
// docs/design/mpi-matching.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/entry.hpp"
#include "mpi/matching/channel_counts.hpp"
#include "weft/base/cache_line.hpp"

namespace weft::mpi {

struct Transfer;
struct Arrived;
struct SourceOrder;

/// Owner and lifetime: the message engine's, by context and plane; made by whoever opens the
/// communicator or gets its first message, kept for the next one with this context.
/// Who may call: any thread. Messages of one source are offered in their order, at the same time
/// from several sources. Matching: a message meets the receive posted first of those that it fits;
/// a receive meets, of the messages of each source that it fits, the one that came first (MPI 3.5).
class Channel {
 public:
  virtual ~Channel() = default;
  Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Posts a receive: the message that it meets, taken out; nullptr: it waits.
  virtual Arrived* post(Transfer& receive) = 0;
  /// The receive that a message of this key meets, taken out; nullptr: none now.
  virtual Transfer* take_receive(Rank source, int tag) = 0;
  /// The receives that several such messages meet, one after the other, at most `into.size()`: how
  /// many there are now.
  virtual uint32_t take_receives_of(Rank source, int tag, std::span<Transfer*> into);
  /// As take_receive, and if there is none the message waits.
  virtual Transfer* arrive(Arrived& message) = 0;
  /// Takes a posted receive out; false: it was matched.
  virtual bool withdraw(Transfer& receive) = 0;
  /// Calls `look(argument, message)` for the message that a receive would meet, in place. False:
  /// none.
  virtual bool find(Rank source, int tag, void (*look)(void*, const Arrived&), void* argument) = 0;
  /// The message that a receive would meet, taken out.
  virtual Arrived* extract(Rank source, int tag) = 0;
  /// The message of this key for which `is_it(argument, message)` answers true, taken out, wherever
  /// among its like it lies: its sender has it back. nullptr: none. Slow.
  virtual Arrived* recall(Rank source, int tag, bool (*is_it)(void*, const Arrived&),
                          void* argument) = 0;
  /// Takes out all receives for which `wanted` answers true, and all messages: for the end, and for
  /// deaths. Slow.
  virtual void take_receives(bool (*wanted)(void*, const Transfer&), void* argument,
                             std::vector<Transfer*>& into) = 0;
  virtual void take_messages(std::vector<Arrived*>& into) = 0;
  /// From now on all receives and probes name sender and tag; false, while it is empty: no longer.
  virtual void promise_exact_keys(bool /*promised*/) noexcept {}
  /// That was promised, and is made use of.
  [[nodiscard]] virtual bool relies_on_exact_keys() const noexcept { return false; }

  /// Messages that wait: a hint.
  [[nodiscard]] uint64_t unexpected() const noexcept {
    return unexpected_.load(std::memory_order_relaxed);
  }

  // Set by open_channels:
  Group* group = nullptr;     ///< sources are told by their rank in it
  std::string name;           ///< of the communicator, where it has one
  bool may_overtake = false;  ///< hint: each thread sends by its own device, unnumbered
  // Set when it is made:
  uint16_t context = 0;
  Plane plane = Plane::program;
  std::atomic<SourceOrder*> orders{nullptr};  ///< by process, where devices race
  ChannelCounts counts;  ///< its user's; engines only count what their searches passed

 protected:
  /// Looked at `entries` that did not fit.
  void note_passed(uint64_t entries) noexcept {
    if (entries != 0) counts.add(ChannelCount::passed, entries);
  }

  alignas(base::kCacheLine) std::atomic<uint64_t> unexpected_{0};  ///< others only read the above
};

/// The engines' names; the first is the default.
inline constexpr std::string_view kEngines[] = {"keyed",    "hash", "list",    "per-source",
                                                "bins",     "tail", "tail-50", "tail-per-source",
                                                "tail-bins"};
/// What engines but "keyed" and "hash" lock with: whoever runs takes it, or first come, first
/// served, as in 003.
enum class MatchingLock : uint8_t { spin, mcs };
/// A channel of the engine of that name (`mpi.matching`); "keyed" for one that is not known.
std::unique_ptr<Channel> make_channel(std::string_view engine,
                                      MatchingLock lock = MatchingLock::spin);

}  // namespace weft::mpi
