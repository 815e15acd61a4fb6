// What carries MPI's messages: the endpoint below, the channels in which they match, the peers.
//
// A message's way: start_send (sending.cpp) → Endpoint::send → (other process) Engine::arrive
// (arriving.cpp) → Channel::take_receive → deliver → Transfer::end; several at once by arrive_run.
// docs/design/mpi-matching.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi/comm.hpp"
#include "mpi/matching/arrived.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/messages.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/records.hpp"
#include "weft/base/thread_counters.hpp"
#include "weft/comm/endpoint.hpp"
#include "weft/comm/runtime.hpp"

namespace weft::mpi {

/// How sends choose their device; `hints`: by communicator, which keeps order without numbers, or
/// by thread where a communicator's messages may overtake each other.
enum class DeviceOf : uint8_t { thread, communicator, key, hints };

/// What an envelope's `kind` says; kAnnounce only while a send waits in the backlog;
/// kSequenced: it has a sequence number; else it may be matched as it comes: its sender has one
/// device, or one for a communicator, which keeps order by itself, or mpi_assert_allow_overtaking.
/// Ranks may have unlike numbers of devices.
enum MessageKind : uint8_t {
  kCollective = 1,
  kAnnounce = 2,
  kSequenced = 4,
  kVoid = 8,  ///< no message, only a number: it was taken back
  kStop = 0x80,
  kGo = 0x81,
  kRecall = 0x82  ///< for an announced message of this context and tag; its body a RecallBody
};

/// Which message its sender wants back.
struct RecallBody {
  uint32_t operation;
  uint32_t generation;
};

/// What this rank keeps of another; zero bytes are a peer that nothing was said to.
struct alignas(base::kCacheLine) Peer {
  std::atomic<bool> stopped;              ///< it told us to announce instead of sending eagerly
  std::atomic<uint32_t> waiting;          ///< sends in the backlog; they go first
  std::atomic<int64_t> unexpected_bytes;  ///< of its messages that wait here
  std::atomic<bool> told_to_stop;         ///< we told it
  std::atomic<Entry*> refused;  ///< sends that join the backlog, newest first (Entry::next)
  // Under Engine::stalled_lock_:
  Entry* backlog;  ///< sends that were answered retry, oldest first (Entry::next)
  Entry* backlog_last;
  bool owes_notice;  ///< it is to be told of `told_to_stop`
  bool stalled;      ///< in Engine::stalled_
};

/// The order in which one source's messages on one channel are offered, where devices race.
struct alignas(base::kCacheLine) SourceOrder {
  base::SpinLock lock;
  uint32_t expected;  ///< (lock) sequence number of the next
  Entry* early;       ///< (lock) those that came too early, in order
  std::atomic<uint32_t> next_sent;
};

/// Owner: open_messages. Thread-safe.
class Engine final : public Matcher {
 public:
  /// What belongs to no channel; the rest is counted there (ChannelCount).
  enum Count : uint8_t { waits, stops, kCounts };

  Engine(Runtime& runtime, DeviceOf device_of, bool sequenced);
  ~Engine();

  // Matcher (a device's lock)
  bool arrive(const Delivery& message) noexcept override;
  uint32_t arrive_run(const DeliveryRun& run) noexcept override;
  bool announced(const Envelope& envelope, const Announcement& message,
                 std::span<const std::byte> brought) noexcept override;
  Tried try_again() noexcept override;
  void peer_down(Rank peer) noexcept override;

  /// A context's channel is made by whoever needs it first, and kept for the next communicator that
  /// gets the context: its sequence numbers go on.
  [[nodiscard]] Channel& channel(uint16_t context, Plane plane) {
    // acquire: pairs with make's release.
    Channel* const made = place(context, plane).load(std::memory_order_acquire);
    return made != nullptr ? *made : make(context, plane);
  }
  void open(Channel& channel, Group* group, bool may_overtake, bool exact_keys);
  void close(Channel& channel);
  void name(Channel& channel, std::string_view name);
  /// What waits in the channels and in the backlog, for who asks why nothing comes. See what_waits.
  [[nodiscard]] std::string what_waits(bool all);
  /// Nothing is sent or tried any more. False: the core still has operations that will be told
  /// here, so this must stay.
  [[nodiscard]] bool shut() noexcept;
  [[nodiscard]] Runtime& runtime() noexcept { return runtime_; }
  [[nodiscard]] Peer& peer(Rank process) noexcept {
    return peers_[static_cast<std::size_t>(process.value)];
  }
  /// A peer has died, at some time.
  [[nodiscard]] bool deaths() const noexcept { return deaths_.load(std::memory_order_seq_cst); }

  // sending.cpp
  /// An eager send without a Transfer: false: it did not go now.
  bool send_at_once(Channel& channel, Rank to, int tag, std::span<const std::byte> data);
  uint64_t send_shared(Channel& channel, std::span<const Rank> to, int tag,
                       std::span<const std::byte> data);
  void send(Transfer& transfer, SendMode mode);
  /// Posts a receive: the message that it meets; nullptr: it waits.
  Arrived* post_receive(Transfer& transfer);
  /// Takes a posted receive back; false: it was matched.
  bool withdraw(Transfer& transfer);
  /// Takes a send back: it ends as cancelled, or, if its receive was there first, as ever. It may
  /// end later.
  void recall(Transfer& transfer);
  /// The message that a receive would meet, taken out; nullptr: none.
  Arrived* extract(Channel& channel, Rank source, int tag);
  // arriving.cpp
  /// A posted receive meets a waiting message: it ends, or its transfer begins.
  void receive(Transfer& transfer, Arrived& message);
  void begin_fetch(Transfer& transfer, const Announcement& message);
  void release(Arrived& message) noexcept;
  /// The same of a message that nobody will receive, which its sender is told.
  void drop(Arrived& message) noexcept;

  void count(Count what, uint64_t n = 1) noexcept { counters_.add(what, n); }
  [[nodiscard]] uint64_t counted(Count what) const noexcept { return counters_.read(what); }
  /// All channels that there are, now.
  [[nodiscard]] std::vector<Channel*> all_channels();
  /// The device for a message; nullptr: the calling thread's.
  [[nodiscard]] Device* via(const Channel& channel, int tag) const noexcept {
    return chooses_devices_ ? via_chosen(channel, tag) : nullptr;
  }
  /// The calling thread will wait for messages of this channel: it polls the device that they come
  /// by.
  void expect(const Channel& channel, int tag) const noexcept {
    if (chooses_devices_) [[unlikely]]
      runtime_.prefer_device(via_chosen(channel, tag));
  }

 private:
  static constexpr std::size_t kContexts = 1U << 16;

  [[nodiscard]] std::atomic<Channel*>& place(uint16_t context, Plane plane) noexcept {
    return channels_[std::size_t{context} * 2 + static_cast<std::size_t>(plane)];
  }
  Channel& make(uint16_t context, Plane plane);
  [[nodiscard]] Device* via_chosen(const Channel& channel, int tag) const noexcept;
  [[nodiscard]] SourceOrder& order(Channel& channel, Rank process);
  [[nodiscard]] Envelope envelope_of(const Channel& channel, const Transfer& transfer) const;

  [[nodiscard]] bool goes_eagerly(Rank to, std::size_t bytes) const noexcept {
    return bytes <= eager_bytes_ || bytes <= runtime_.eager_bytes(to);
  }
  enum class How : uint8_t { eager, written, announced, brought };
  Post post(Transfer& transfer, std::span<const std::byte> data, How how);
  bool send_wide(Transfer& transfer, std::span<const std::byte> data);
  void stall(Transfer& transfer, Peer& peer);
  void link_stalled(Peer& peer) noexcept;
  bool drain(Peer& peer, int& most, std::vector<Transfer*>& over);
  static void take_refused(Peer& peer) noexcept;

  bool accept(Channel& channel, const Delivery& message);
  bool accept_in_order(Channel& channel, const Delivery& message);
  bool accept(Channel& channel, const Envelope& envelope, const Announcement& message,
              std::span<const std::byte> brought);
  bool keep(Channel& channel, const Delivery& message);
  bool keep_early(SourceOrder& order, Channel& channel, const Envelope& envelope, Arrived* record);
  void offer_early(SourceOrder& order, Channel& channel);
  Arrived* record_of(Channel& channel, Rank source, const Envelope& envelope);
  Arrived* record_of(Channel& channel, const Delivery& message);
  Arrived* record_of(Channel& channel, const Envelope& envelope, const Announcement& message,
                     std::span<const std::byte> brought);
  void wait_in(Channel& channel, Arrived& message);
  /// A search of the channel, and with mpi.match_times its time.
  template <class Search>
  auto timed(Channel& channel, Search search) {
    if (!match_times_) [[likely]]
      return search();
    const uint64_t begun = base::now_ns();
    const auto found = search();
    channel.counts.add(ChannelCount::match_ns, base::now_ns() - begun);
    return found;
  }
  std::size_t put_down(Transfer& transfer, Rank source, int tag, const Payload& payload);
  void deliver(Transfer& transfer, Rank source, int tag, const Payload& payload, bool waited);
  void control(const Delivery& message) noexcept;

  // flow.cpp
  void charge(Rank source, int64_t bytes) noexcept;
  void discharge(Rank source, int64_t bytes) noexcept;
  void owe_notice(Peer& peer) noexcept;
  bool send_notice(Peer& peer);
  void let_go() noexcept;

  // what_waits.cpp
  static void tell_unreceived(const Channel& channel, const std::vector<Arrived*>& messages);
  [[nodiscard]] bool looks_wrong();
  [[nodiscard]] std::string what_waits_for_room();

  // recalls.cpp
  struct Recall {
    Rank to;
    Envelope envelope;
    AnnouncementName name;
  };
  bool ask_back(const Recall& recall);
  void give_back(const Delivery& message) noexcept;
  void turn_away(const Announcement& message);

  static void end_send(void* engine, const Event& event);
  static void end_fetch(void* engine, const Event& event);

  Runtime& runtime_;
  const DeviceOf device_of_;
  const bool chooses_devices_;     ///< there are several, and they are not by thread
  const bool sequenced_;           ///< our devices race: receivers have to make their order again
  const std::size_t eager_bytes_;  ///< to any rank
  const bool match_times_;
  const int64_t most_per_peer_;
  const int64_t most_;
  HandlerCompletion sent_done_;
  HandlerCompletion fetched_;
  base::Records<Arrived> records_;
  std::atomic<Channel*>* channels_;
  Peer* peers_;
  std::vector<Channel*> made_;  ///< (channels_lock_) all of `channels_`
  base::MappedThreadCounters<kCounts> counters_;
  std::atomic<bool> deaths_{false};
  std::atomic<bool> closing_{false};    ///< nothing is sent or tried any more
  std::atomic<uint32_t> under_way_{0};  ///< announcements and fetches whose end is to come
  std::atomic<bool> opened_{false};     ///< until then messages wait in their lanes
  std::atomic<int64_t> unexpected_bytes_{0};
  std::atomic<uint32_t> told_to_stop_{0};  ///< peers

  base::SpinLock stalled_lock_;
  std::vector<Peer*> stalled_;  ///< (stalled_lock_)
  /// (stalled_lock_) To be fetched, or, without a transfer, refused.
  std::deque<std::pair<Transfer*, Announcement>> unfetched_;
  std::deque<Recall> recalls_;          ///< (stalled_lock_) to be asked for
  base::SpinLock channels_lock_;        ///< making channels
  std::unique_ptr<Endpoint> endpoint_;  ///< last: gone first
};

/// The engine, between open_messages and close_messages.
inline constinit Engine* the_engine = nullptr;  // no smart pointer, which would end at exit
[[nodiscard]] inline Engine& engine() noexcept { return *the_engine; }

/// Of which what_waits tells from now on; nullptr: of none. Returns when no report looks at the one
/// before.
void report_of(Engine* engine);

/// A blocking probe of the calling thread, for what_waits, while this exists.
class Probing {
 public:
  Probing(const Comm& comm, int source, int wanted) noexcept;
  ~Probing();
  Probing(const Probing&) = delete;
  Probing& operator=(const Probing&) = delete;
  const Channel& channel;
  const int from, tag;

 private:
  const Probing* const before_;
};

/// A rank that has died, if for that reason nobody is left to send what is awaited from `from`: it
/// itself, or one of all others where that is MPI_ANY_SOURCE. Else negative.
[[nodiscard]] Rank whose_death_leaves_nobody(const Comm& comm, int from);

/// Registers what is counted (counters.hpp).
void register_counters();

/// The error class that a failed transfer tells.
[[nodiscard]] int error_class_of(Errc error) noexcept;

}  // namespace weft::mpi
