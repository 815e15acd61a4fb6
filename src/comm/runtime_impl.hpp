// What a runtime is made of: the job, the transport, the tables, the devices, and who waits.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/forks.hpp"
#include "comm/copy_ways.hpp"
#include "comm/device.hpp"
#include "comm/kept_bytes.hpp"
#include "comm/open_packet.hpp"
#include "comm/operation.hpp"
#include "comm/probes.hpp"
#include "comm/shared_copy.hpp"
#include "comm/shared_packets.hpp"
#include "comm/turns.hpp"
#include "comm/unexpected.hpp"
#include "comm/waiting.hpp"
#include "comm/wire.hpp"
#include "weft/base/idle_work.hpp"
#include "weft/base/locks.hpp"
#include "weft/base/long_yields.hpp"
#include "weft/base/records.hpp"
#include "weft/base/slot_pool.hpp"
#include "weft/comm/collectives.hpp"
#include "weft/comm/runtime.hpp"
#include "weft/fabric/job.hpp"
#include "weft/fabric/transport.hpp"

namespace weft {

namespace comm {
[[noreturn]] inline void refuse(const char* why) { throw Error(Errc::bad_argument, why); }

/// A blocking call, for whoever asks what stands still; in two registers.
struct NamedCall {
  const char* name = nullptr;  ///< as it stands before "rank 3"
  Rank peer{};
  uint16_t endpoint = 0;
};
/// One that is answered retry, again and again.
struct RefusedCall {
  NamedCall call{};
  uint64_t since = 0;  ///< the first look at the clock
  bool told = false;
};
/// Of who looks now and then whether something came (quiet.cpp).
struct QuietSpan {
  uint64_t runtime = 0;  ///< its serial number
  uint64_t polls = 0;    ///< that brought something, so far
  uint64_t since = 0;    ///< there were no more
  uint64_t looked = 0;   ///< last
  bool told = false;
};

/// Frees what calloc(3) gave: zero pages until they are written to.
struct Freed {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
}  // namespace comm

/// Which packets are lent before they are written (comm/open_packet.hpp).
enum class OpenPackets : uint8_t { automatic, always, never };

/// The room's configuration, read once per runtime.
struct RuntimeSettings {
  uint32_t devices;
  Progress progress;
  bool serial_progress;
  Assignment assignment;
  std::size_t eager_bytes;
  std::size_t far_eager_bytes;
  uint32_t operations;
  uint32_t unexpected;
  std::size_t copy_chunk_bytes;
  OpenPackets open_packets;
  comm::Nontemporal nontemporal;
  std::size_t share_bytes;
  uint64_t report_quiet_ns;
  std::function<std::string(bool)> what_waits;  ///< above
  bool report_rings;
  uint64_t spin_ns;
  uint32_t cores;
  uint64_t turn_ns;
};
RuntimeSettings read_settings(const RuntimeOptions& options);

struct Runtime::Impl final : base::IdleWork {
  static constexpr uint32_t kMaxEndpoints = 65536;  ///< what a header's number can tell apart
  static constexpr std::size_t kMaxInlineBytes = 1024;
  /// Where the rings take it, whatever goes eagerly else: four cells, less what is in front.
  static constexpr std::size_t kAlwaysInlineBytes = 232;
  /// Of peers' requests: records for all, if that many are enough, and what a peer has at least and
  /// at most. All ranks decide the same, whatever devices they have.
  static constexpr uint32_t kRequestRecords = 65536;
  static constexpr uint32_t kLeastRequests = 16, kMostRequests = 1024;
  static constexpr uint32_t kRefusalRecords = 64;  ///< beside these
  static constexpr uint32_t kFetchRecords = 64;
  static constexpr double kYieldNs = 1000;
  static constexpr double kTurnNs = 5000;

  Runtime& self;
  pid_t process;                         ///< a forked child must not end what belongs to its parent
  uint32_t forks = base::count_forks();  ///< the same for those who ask often
  /// Of the runtimes that join the job themselves there is one at a time in a process.
  class OnlyOne {
   public:
    explicit OnlyOne(bool joins);
    ~OnlyOne();
    OnlyOne(const OnlyOne&) = delete;
    OnlyOne& operator=(const OnlyOne&) = delete;

   private:
    bool joins_;
  } only_one;
  std::unique_ptr<fabric::Job> owned_job;
  fabric::Job& job;
  RuntimeSettings settings;
  std::unique_ptr<fabric::Transport> transport;
  bool has_far_ranks = false;  ///< to which a network leads
  uint32_t ranks_limit = 0;    ///< ranks below are known to be reached: the job's size, or 0
  std::byte* packet_memory = nullptr;
  uint32_t packet_bytes = 0;

  std::unique_ptr<base::SlotPool> packets;
  std::unique_ptr<comm::PacketStates> packet_states;
  std::unique_ptr<comm::SharedPackets> shared_packets;
  std::unique_ptr<comm::CopyWays> copy_ways;  ///< into packets
  std::atomic<uint32_t> streaming_packets{0};
  /// Packets: half of all at most, so that small messages always find some; and a few MiB.
  uint32_t most_streaming = 0;
  uint64_t received_bytes = 0;   ///< of large messages that a cache keeps; see ReceivedRegions
  uint32_t go_around_bytes = 0;  ///< that are written before a packet's place is written again
  std::atomic<bool> round_is_there{false};  ///< the pages of packets that go around
  std::atomic<uint32_t> round_begun{0};     ///< bytes of long messages until then
  std::unique_ptr<comm::OperationTable> operations;
  uint32_t most_requests = 0;                         ///< to a peer: see may_request
  std::unique_ptr<std::atomic<uint32_t>[]> requests;  ///< by peer, of those under way
  comm::ClaimsTable claims;
  std::unique_ptr<base::Records<comm::Unexpected>> unexpected;
  /// As many places as there are such records, for what came in a ring and is longer than a record
  /// or a queue's entry holds. Of both there are `comm.unexpected`, and one more for each device
  /// (Device::Spares).
  std::unique_ptr<comm::KeptBytes> kept;

  /// (comm.serial_progress) Of whoever polls a device; taken before the device's own.
  std::recursive_mutex serial_lock;
  std::unique_ptr<comm::Keepers> keepers;  ///< if there are several devices
  /// By number, those that are open.
  std::unique_ptr<std::atomic<Endpoint::Impl*>[], comm::Freed> endpoints;
  std::vector<std::unique_ptr<Device>> devices;
  Device* only_device = nullptr;          ///< set if there is one
  const uint64_t serial = next_serial();  ///< no other runtime of the process has it, then or later
  std::atomic<uint32_t> endpoints_made{0};
  std::atomic<uint32_t> endpoints_open{0};  ///< so many of them took what had come early

  base::SpinLock early_lock;          // early.cpp
  comm::Unexpected* early = nullptr;  ///< frames for endpoints to come, oldest first
  comm::Unexpected** early_end = &early;
  std::vector<Endpoint::Impl*> opening;  ///< made, with early frames left
  std::atomic<uint32_t> openings{0};     ///< so many

  std::unique_ptr<std::atomic<bool>[]> dead;  ///< per rank
  std::atomic<uint32_t> deaths{0};
  std::mutex death_lock;
  std::vector<std::pair<Rank, std::string>> death_reports;  ///< the launcher's
  /// Ranks of whose death some devices have heard, but not all.
  struct Dying {
    std::vector<bool> heard;  ///< by device
    uint32_t left;
  };
  std::map<int32_t, Dying> dying;
  std::map<int32_t, std::string> causes;  ///< of all that are dead
  std::vector<Rank> dead_in_order;        ///< once `dead` says so

  // Waiting (waiting.hpp).
  uint32_t cores = 1;             ///< that this process may use
  uint32_t own_cores = 1;         ///< of these, where the node's ranks share them
  bool ranks_have_cores = false;  ///< each of the node's one, as far as is seen from here
  uint64_t yield_ticks = 0;       ///< without anything coming, before a server yields its core
  uint64_t spin_ticks = 0;        ///< the same, before it sleeps
  uint64_t turn_ticks = 0;        ///< allowed to each waiting thread for its turn on a shared core
  // Looked at by every wait, and changed seldom.
  alignas(base::kCacheLine) std::atomic<bool> sleeper{false};
  std::atomic<bool> refused{false};  ///< a worker may have parked because that role was taken
  std::atomic<bool> orphans{false};  ///< a list may have parked threads and no server
  std::atomic<bool> core_is_wanted{false};  ///< see yield_core
  /// With others than those that wait here, and it is not kept from them: a guess.
  std::atomic<bool> core_is_shared{false};
  base::LongYields long_yields;
  std::atomic<uint64_t> measures_until{0};  ///< ticks: see yield_core
  const uint64_t measured_ticks = base::to_ticks(100e6);
  std::atomic<uint32_t> asleep{0};  ///< threads on a doorbell, or about to be
  /// How much yielding pays (wait_yielding); negative: so many waits park at once.
  std::atomic<int32_t> yield_credit{kMostYieldCredit};
  /// Threads in `wait` that do not sleep. Where each has a core, those that came a moment ago do
  /// not count yet (Awake).
  alignas(base::kCacheLine) std::atomic<uint32_t> waiting{0};
  static constexpr int32_t kMostYieldCredit = 64;
  static constexpr int32_t kVainYield = 16;
  static constexpr int32_t kNoYields = -128;
  /// Yields, at least, before a wait for what any of many may have was in vain: whoever runs takes
  /// it, time slice by time slice in a stream, and to wake the others for it is dear.
  static constexpr uint32_t kTurnsForAny = 16;
  /// Waits that end at the first look before others have the core. With more of them in a row the
  /// least of 64 threads had less than half of what the most had.
  static constexpr uint32_t kMostAtOnce = 6;
  static constexpr uint32_t kYieldsBeforeSleep = 128;
  /// Looks with no more than so many yield times from end to end: nothing is done in between.
  static constexpr uint32_t kCloseLooks = 4;
  /// So many yield times of them before a task lets others of its worker run.
  static constexpr uint32_t kTaskLooks = 50;
  static constexpr uint32_t kShortTurn = 10;  ///< at most, in spin times
  bool takes_turns = false;  ///< the threads that wait do: the process has one core
  comm::Turns turns;
  comm::WaitSet watchers;  ///< of conditions that any progress may bring about
  int sleep_fd = -1;       ///< epoll set of all devices' doorbells

  uint64_t quiet_ticks = UINT64_MAX;  ///< comm.report_quiet

  std::vector<std::jthread> servers;  ///< Progress::server
  bool offered = false;               ///< to idle workers (Progress::workers)
  std::unique_ptr<Team> team;

  Impl(Runtime& the_runtime, const RuntimeOptions& options);
  ~Impl();

  [[nodiscard]] std::byte* packet(uint32_t index) const noexcept {
    return packet_memory + std::size_t{index} * packet_bytes;
  }
  /// Messages to `rank` up to this many bytes go eagerly: over a network an announcement and its
  /// answer cost more than a copy does.
  [[nodiscard]] std::size_t eager_bytes(Rank rank) const noexcept {
    return transport->is_far(rank) ? settings.far_eager_bytes : settings.eager_bytes;
  }
  /// Of a message whose frame may have so many bytes.
  [[nodiscard]] std::size_t inline_bytes(uint32_t max_frame) const noexcept {
    const std::size_t most = std::min(max_frame - sizeof(comm::Header), kMaxInlineBytes);
    return std::min(most, std::max(settings.eager_bytes, kAlwaysInlineBytes));
  }
  [[nodiscard]] std::size_t inline_bytes(Rank to) const noexcept {
    return inline_bytes(devices[0]->port().max_inline_to(to));
  }
  [[nodiscard]] bool goes_eagerly(Rank to, std::size_t bytes) const noexcept {
    return bytes <= settings.eager_bytes || bytes <= eager_bytes(to);
  }
  [[nodiscard]] bool is_dead(Rank rank) const noexcept {
    return dead[static_cast<std::size_t>(rank.value)].load(std::memory_order_acquire);
  }
  /// The same, at the price of one load as long as nobody has died. relaxed: it may be late.
  [[nodiscard]] bool is_known_dead(Rank rank) const noexcept {
    return deaths.load(std::memory_order_relaxed) != 0 && is_dead(rank);
  }
  void check_rank(Rank rank) const {
    if (static_cast<uint32_t>(rank.value) >= ranks_limit) [[unlikely]]
      refuse_rank(rank);
  }
  void refuse_rank(Rank rank) const;

  /// The calling thread's device, as the assignment says.
  [[nodiscard]] Device& this_device() const noexcept {
    return only_device != nullptr ? *only_device : one_of_many_devices();
  }
  [[nodiscard]] Device& one_of_many_devices() const noexcept;
  static uint64_t next_serial() noexcept;

  [[nodiscard]] bool opens(std::size_t bytes) const noexcept;
  [[nodiscard]] comm::Lent lends(std::size_t bytes, bool can_follow) const noexcept;
  /// Where to write so many bytes, a packet's at most; its number may be SlotPool::kNone.
  /// `far`: for a rank to which a network leads.
  [[nodiscard]] fabric::PacketPart take_packet(std::size_t bytes, bool far = false) noexcept;
  void prepare_round(uint32_t bytes) noexcept;
  /// Gathers `pieces` into a packet and lends it: done or retry.
  Post send_packet(Device& device, Rank to, std::span<const std::byte> header,
                   std::span<const std::span<const std::byte>> pieces);
  /// The same with one packet or several, of which the receiver learns how far they are written.
  /// For endpoints that copy messages where they arrive.
  Post send_in_packets(Device& device, Rank to, std::span<const std::byte> header,
                       std::span<const std::byte> data, comm::Lent lent);
  /// The same to several ranks of this node, with packets that are written once: those of `to` that
  /// it went to, by place.
  uint64_t send_shared(Device& device, std::span<const Rank> to, std::span<const std::byte> header,
                       std::span<const std::byte> data);
  /// As many as `bytes` fill, or none.
  [[nodiscard]] comm::MessagePackets take_packets(std::size_t bytes) noexcept;
  /// Writes `data` into them, for a rank or for several, and tells how far it is.
  void write_packets(const comm::MessagePackets& into, Rank next, std::span<const std::byte> data,
                     std::atomic<uint32_t>& written) noexcept;
  /// A record for what needs one at `to`, too, until it is over. nullptr: none now.
  comm::Operation* allocate_request(Rank to) noexcept;
  /// Whether one more may be asked of `peer` of what needs a record there until it is over; it
  /// counts then, until `end_request`. False: as many are under way as the peer has records for.
  /// Any thread.
  [[nodiscard]] bool may_request(Rank peer) noexcept;
  void end_request(Rank peer) noexcept {
    // relaxed, as in may_request: a budget. The peer's record is free, or about to be.
    requests[static_cast<std::size_t>(peer.value)].fetch_sub(1, std::memory_order_relaxed);
  }
  /// The answer for an operation that expects its peer's answer and whose frame got `answer`.
  Post posted_unless_refused(comm::Operation& op, Rank to, uint16_t device, Post answer);
  [[nodiscard]] comm::RendezvousBody announcement_of(comm::Operation& op, Device& device) noexcept;
  void withdraw_offer(comm::Operation& op, bool cuts) noexcept;
  /// Ends an operation with `error`; told by progress. Any thread.
  void end_later(comm::Operation& op, Errc error);
  /// Calls `post(completion, event)` until it is not refused, waits, and returns the event: what
  /// completed it or, where it was done at once, what `post` left in `event`.
  template <class Call>
  Event complete_now(comm::NamedCall name, Call post) {
    if (base::Parker& caller = base::this_parker(); !caller.may_poll() && others_progress()) {
      comm::BlockedTask done(caller);
      Event& now = done.event();
      if (until_posted_as(name, [&] { return post(done, now); }) == Post::done) return now;
      return done.wait();
    }
    return complete_in_thread(name, post);
  }
  /// The same for a plain thread. Apart, so that a waiting task's stack has only what it needs.
  template <class Call>
  [[gnu::noinline]] Event complete_in_thread(comm::NamedCall name, Call& post) {
    Synchronizer done;
    Event now;
    if (until_posted_as(name, [&] { return post(done, now); }) == Post::done) return now;
    self.wait(done);
    return done.event();
  }

  uint32_t progress(Device& own, bool lingers = true);
  /// Others that a look serves in vain: what it costs does not grow with their number. The next
  /// goes on behind them.
  static constexpr uint32_t kOthersAtOnce = 8;
  static constexpr uint32_t kAllOthers = ~0U;
  uint32_t progress_others(Device& own, uint32_t most = kOthersAtOnce, bool until_own = false);
  /// What a waiting thread wants: a completion, for which it looks at its own device first; or what
  /// any device may bring.
  enum class Wants : uint8_t { completion, any };
  static constexpr uint32_t kOneGlance = 0;  ///< as `looks`: one, without lingering
  uint32_t progress_before_row(Device& own);
  uint32_t progress_own(Device& own, Wants wants, uint32_t looks);
  uint32_t progress_for(Device& own, Wants wants, bool lingers = true);

  // early.cpp
  void publish(Endpoint::Impl& endpoint);
  void unpublish(Endpoint::Impl& endpoint);
  /// That, and returns when nothing comes in any more.
  void retire(Endpoint::Impl& endpoint);
  /// Keeps a frame whose endpoint is not made yet. (device's lock)
  fabric::Taken keep_early(Device& device, const fabric::Frame& frame, const comm::Header& header);
  /// The endpoint of that number, if it is being opened and nothing of `source` is left for it.
  Endpoint::Impl* opening_of(uint32_t number) const noexcept;
  Endpoint::Impl* opening_without(uint32_t number, Rank source) noexcept;
  comm::Unexpected* next_early(const Endpoint::Impl& endpoint, const Device& device, bool& others);
  bool deliver_early(Endpoint::Impl& endpoint, Device& device);
  void deliver_early(Device& device);
  fabric::Frame early_frame(const comm::Unexpected& record, fabric::OpenLoan& open);
  void release_early(comm::Unexpected& record, Device* device = nullptr);
  void tell_of_deaths_while_opening(Endpoint::Impl& endpoint);
  void drop_early(const Endpoint::Impl& endpoint);

  // answers.cpp
  void drop_unreceived(Endpoint::Impl& endpoint);
  /// Ends an operation of a peer's, as soon as there is room to tell. Not under a device's lock.
  void answer_soon(Rank to, uint16_t reply_port, comm::Handle theirs, Errc error);

  // waiting.cpp, sleeping.cpp
  static constexpr uint32_t kPollsPerTurn = 16;
  static constexpr uint32_t kTurnsBetweenOthers = 64;
  void wait(comm::Awaited& awaited, Wants wants = Wants::completion);
  /// Who waits need not poll itself.
  [[nodiscard]] bool others_progress() const noexcept {
    return offered || settings.progress == Progress::server;
  }
  void wait_as_task(Device& device, comm::Awaited& awaited, base::Parker& task, Wants wants);
  /// False: the deadline came first.
  bool wait_for(comm::WaitSet& set, bool (*ready)(void*), void* argument,
                uint64_t deadline_ns = base::kNoDeadline);
  /// Of the device's list, or whose wakes are owed. A hint.
  [[nodiscard]] bool leaves_others(const comm::WaitList& list) const noexcept {
    return list.parked.load(std::memory_order_relaxed) != 0 || !turns.owed.empty();
  }
  /// A thread that takes what `set` waits for need not wake others for what comes behind it: the
  /// process has one core. A task is woken for little, and may run while the thread does not.
  [[nodiscard]] bool leaves_queue(const comm::WaitSet& set) const noexcept {
    return takes_turns && set.has_threads_only() && base::this_parker().may_poll();
  }
  bool let_others(comm::WaitList& list, bool serving) noexcept;
  void end_wait(Device& device, bool serving) noexcept;
  void hand_on(Device& device, bool serving) noexcept;
  bool give_core_away(Device& device, comm::WaitNode& node, bool expects) noexcept;
  void serve_the_left() noexcept;
  base::Parker* one_left() noexcept;
  void wait_parked(Device& device, comm::Awaited& awaited);
  void yield_after_many_at_once() noexcept;
  /// Somebody wants this core: more threads are awake in waits than there are cores, or somebody
  /// ran when it was left last.
  [[nodiscard]] bool is_crowded() const noexcept {
    return waiting.load(std::memory_order_relaxed) > cores ||
           core_is_wanted.load(std::memory_order_relaxed);
  }
  /// Also if those that parked on this device's list were awake.
  [[nodiscard]] bool has_core_for_all(const comm::WaitList& list) const noexcept {
    return waiting.load(std::memory_order_relaxed) + list.parked.load(std::memory_order_relaxed) <=
               cores &&
           !core_is_wanted.load(std::memory_order_relaxed);
  }
  /// Who has waited in vain for so long does not yield: it would last a time slice of somebody who
  /// computes.
  [[nodiscard]] bool keeps_core(uint64_t now, uint64_t in_vain = 0) const noexcept {
    return long_yields.keeps_core(now) && in_vain <= spin_ticks &&
           (takes_turns || waiting.load(std::memory_order_relaxed) <= own_cores);
  }
  /// No thread of a rank can have had this core, as far as is seen from here.
  [[nodiscard]] bool has_core_alone() const noexcept;
  /// So many turns of others took so long: they only look, as we do. Where turns are long somebody
  /// computes; who sleeps comes before him when it is woken, and who yields after.
  [[nodiscard]] bool are_short(uint32_t times, uint64_t ticks) const noexcept {
    return ticks <= times * kShortTurn * spin_ticks;
  }
  /// A thread that waits, as others see it: awake, or not (yet, or asleep). Each wait has one.
  class Awake {
   public:
    explicit Awake(std::atomic<uint32_t>& waiting) noexcept : waiting_(waiting) {}
    ~Awake() { end(); }
    Awake(const Awake&) = delete;
    Awake& operator=(const Awake&) = delete;
    // relaxed: how many are awake decides about time only.
    void begin() noexcept {
      if (!std::exchange(counts_, true)) waiting_.fetch_add(1, std::memory_order_relaxed);
    }
    void end() noexcept {
      if (std::exchange(counts_, false)) waiting_.fetch_sub(1, std::memory_order_relaxed);
    }

    /// How many are besides the caller.
    [[nodiscard]] uint32_t others() const noexcept {
      return waiting_.load(std::memory_order_relaxed) - (counts_ ? 1 : 0);
    }

   private:
    std::atomic<uint32_t>& waiting_;
    bool counts_ = false;
  };
  void yield_core(uint64_t in_vain = 0) noexcept;
  uint32_t progress_for_asker(Device& own);
  /// How a wait's yielding ended.
  enum class Yielded : uint8_t { until_ready, until_serving, in_vain };
  Yielded wait_yielding(Device& device, comm::Awaited& awaited, Wants wants, Awake& awake);
  bool wait_elected(Device& device, comm::Awaited& awaited, Wants wants, Awake& awake,
                    bool serving);
  bool wait_as_server(Device& device, comm::Awaited& awaited, comm::WaitNode& node, Wants wants,
                      Awake& awake);
  bool step_down(Device& device, comm::WaitNode& node) noexcept;
  void sleep(Device& device, comm::Awaited& awaited, uint64_t deadline_ns = kNever);
  bool sleep_until(uint64_t deadline_ns) noexcept;
  void sleep_long(uint64_t deadline_ns) noexcept;
  void leave(Device& device) noexcept;
  bool serve_the_unserved() noexcept;
  void call_the_refused() noexcept;
  // Mode workers: what idle workers do.
  uint32_t poll(Poller poller) noexcept override;
  bool try_sleep(comm::Awaited& awaited, uint64_t deadline_ns) noexcept override;
  bool wants_sleeper() noexcept override { return !sleeper.load(std::memory_order_seq_cst); }
  void interrupt() noexcept override { devices.front()->bell().unpark(); }
  void serve(Device& device, const std::stop_token& stop);
  [[nodiscard]] bool any_busy() const noexcept {
    for (const auto& each : devices) {
      if (each->busy()) return true;
    }
    return false;
  }

  /// Whoever relaxes, or waits, may have been refused by a call.
  enum class Relaxes : uint8_t { for_itself, refused };
  // quiet.cpp: for who waits in vain for so long that a look at the clock costs nothing.
  bool is_quiet(comm::QuietSpan& span, bool continues) noexcept;
  static comm::QuietSpan& threads_quiet() noexcept;
  /// When nothing will have come for comm.report_quiet; kNever: never, or it was told.
  [[nodiscard]] uint64_t quiet_deadline() noexcept;
  /// Tells once, after that, if there is more to tell than that others have not sent.
  void report_if_quiet(bool continues, Relaxes why = Relaxes::for_itself) noexcept;
  /// Tells if the call is refused for so long, unless another tells then.
  void report_refused(comm::RefusedCall& call) noexcept;
  bool report_quiet(const comm::RefusedCall* call) noexcept;
  std::atomic<uint64_t> last_report_ns{0};  ///< of all threads and tasks
  comm::Probes probes{*this};
  [[nodiscard]] std::string what_stands_still(const comm::RefusedCall* call);
  /// For blocking calls that may be done at once, again and again: once in 256 it progresses.
  void progress_now_and_then();
  void relax(Relaxes why, comm::RefusedCall* call = nullptr);
  /// As until_posted, for a call that can be named.
  template <class Call>
  Post until_posted_as(comm::NamedCall name, Call post) {
    if (const Post answer = post(); answer != Post::retry) [[likely]]
      return answer;
    return try_again(name, post);
  }
  template <class Call>
  [[gnu::noinline]] Post try_again(comm::NamedCall name, Call& post) {
    comm::RefusedCall call{name};
    for (;;) {
      relax(Relaxes::refused, &call);
      if (const Post answer = post(); answer != Post::retry) return answer;
    }
  }

  bool heard_of_death(Rank peer, uint16_t device, std::string_view cause);
  void peer_down(Rank peer, std::string_view cause);
  void tell_of_death(Endpoint::Impl& endpoint, Rank peer);
  void report_death(Rank rank, const std::string& cause);
  std::vector<std::pair<Rank, std::string>> reported_deaths();
  std::vector<Rank> dead_since(std::size_t count);
  void report_leftovers() const;
  /// Messages that nobody has received yet, early ones among them; exact when nothing moves.
  [[nodiscard]] uint32_t unreceived() const noexcept {
    const uint32_t live = unexpected->live();
    return live - std::min(live, settings.devices);
  }
  void report_survivors() const;
};

}  // namespace weft
