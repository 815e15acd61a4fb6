// The gather-communicate-scatter engine: rounds of packets over a first-packet queue.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "graph/thread_team.hpp"
#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"
#include "weft/comm/endpoint.hpp"
#include "weft/comm/runtime.hpp"

namespace weft::graph {

class Exchange;

/// What a rank says to all others at the end of its part of a round; the round's result is the sum
/// over all ranks, added in rank order so that every rank holds the same bits.
struct Contribution {
  uint64_t active = 0;
  std::array<double, 2> values{};
};

/// What a round came to, over all ranks; the same on each.
struct RoundTotals {
  Contribution sum;
  uint64_t messages = 0;  ///< packets sent, end marks included
  uint64_t bytes = 0;     ///< in them
};

/// One thread's packets under construction, one per rank it has something for.
class Outbox {
 public:
  /// Appends `item` to the packet for `to`, which is sent when it is full. Plain data only; a
  /// packet holds whole items.
  template <class Item>
  void push(int to, const Item& item) {
    static_assert(std::is_trivially_copyable_v<Item>);
    Packet& packet = packets_[static_cast<std::size_t>(to)];
    if (packet.room < sizeof(Item)) [[unlikely]]
      make_room(to);
    std::memcpy(packet.bytes.get() + packet.used, &item, sizeof(Item));
    packet.used += sizeof(Item);
    packet.room -= sizeof(Item);
  }
  /// Sends `values` to `to`, each run of them in a packet of its own behind its RunHeader. The
  /// first of them is number `first` of sequence `sequence`, whatever these mean to the receiver.
  void push_run(int to, uint32_t sequence, uint64_t first, std::size_t value_bytes,
                std::span<const std::byte> values);

 private:
  friend class Exchange;
  struct Packet {
    std::unique_ptr<std::byte[]> bytes;  // made on first use
    std::size_t used = 0, room = 0;
  };
  Outbox(Exchange& exchange, int thread, int ranks)
      : exchange_(exchange), thread_(thread), packets_(static_cast<std::size_t>(ranks)) {}
  void make_room(int to);
  void send(int to);

  Exchange& exchange_;
  int thread_;
  std::vector<Packet> packets_;
};

struct RunHeader {
  uint64_t first;
  uint32_t sequence;
  uint32_t bytes;  ///< of the values that follow
};

/// What an algorithm does in a round.
class RoundWork {
 public:
  /// Fills `out`. Called once for each thread that takes part.
  virtual void gather(int thread, Outbox& out) = 0;
  /// Takes a packet of another rank. Any thread, several at once, also while gathering; packets
  /// come in any order. Must not send.
  virtual void scatter(int thread, int from, std::span<const std::byte> packet) = 0;
  /// This rank's contribution. Called once, when all threads have gathered.
  virtual Contribution contribution() { return {}; }

 protected:
  ~RoundWork() = default;
};

/// Calls use(item) for each item of a packet made by Outbox::push.
template <class Item, class Use>
void for_each_item(std::span<const std::byte> packet, Use use) {
  for (std::size_t at = 0; at + sizeof(Item) <= packet.size(); at += sizeof(Item)) {
    Item item;
    std::memcpy(&item, packet.data() + at, sizeof(Item));
    use(item);
  }
}

/// Rounds among all ranks of a runtime over one queue endpoint (000 §3.2–3.3).
///
/// A round: all threads gather and send packets as they fill; the last one that is done sends each
/// other rank an *end mark* that says how many packets it was sent and this rank's contribution;
/// everyone takes packets and scatters them until all that were promised have come. So a round
/// costs one small message per pair of ranks beyond its data, and no collective.
///
/// Owner: made collectively by each rank's master thread, which calls `run`.
/// Invariants: (1) a rank starts round k+1 only when it has everybody's end mark of round k, so
/// packets that arrive are of this round or the next; the tag says which. (2) Packets of the next
/// round are kept: long ones as they came, in their sender's packets, short ones
/// (runs, and the rest of a round) as copies, since as messages they hold places that all senders
/// share. So what may pile up is bounded by the senders' pools and by one round's short packets,
/// and a rank in the earliest round of all has none of its packets kept: somebody can always go on.
/// (3) The round is over when as many packets were *scattered* as the end marks promise. (4) A
/// sender that is told `retry` takes packets before it tries again, so two ranks that flood each
/// other both go on.
class Exchange {
 public:
  Exchange(Runtime& runtime, ThreadTeam& team);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] ThreadTeam& team() const noexcept { return team_; }

  /// One round; collective. `parallel` false: the master gathers and scatters alone, which is
  /// faster when there is less to do than waking a thread costs. Ranks need not agree on it.
  RoundTotals run(RoundWork& work, bool parallel = true);

 private:
  friend class Outbox;
  struct EndMark {  // small enough to travel inside a ring cell
    uint32_t packets_to_you;
    uint32_t messages;  // to all, end marks included
    uint64_t bytes;     // in them
    Contribution mine;
  };
  static_assert(sizeof(EndMark) == 40);
  /// What came too early: as it came, or a copy of a short one.
  struct Early {
    Rank source;
    Tag tag;
    std::vector<std::byte> copy;
    Message message;
  };

  void start(RoundWork& work, int threads);
  void take_part(int thread);
  void help_receive(int thread);
  void send_end_marks(int thread);
  void send_packet(int thread, int to, std::span<const std::byte> packet);
  void post(int thread, int to, bool end_mark, std::span<const std::byte> bytes);
  bool receive(int thread);
  void accept(int thread, Message message);
  void keep(Message message);
  void take(int thread, Rank source, Tag tag, std::span<const std::byte> bytes);
  [[nodiscard]] bool is_over() const noexcept;
  [[nodiscard]] RoundTotals totals() const;

  Runtime& runtime_;
  ThreadTeam& team_;
  const int rank_, size_;
  const std::size_t packet_bytes_;
  Endpoint endpoint_;
  std::vector<Outbox> outboxes_;

  // Changed only by the master between rounds.
  RoundWork* work_ = nullptr;
  uint32_t round_ = 0;

  std::vector<EndMark> marks_;  // [rank], this round's; written by whoever takes the mark
  // Per destination; added to by all threads, read by the last that has gathered.
  std::unique_ptr<std::atomic<uint32_t>[]> sent_packets_;
  alignas(base::kCacheLine) std::atomic<uint64_t> sent_bytes_{0};
  std::atomic<int> gathering_{0};  // threads that have not gathered yet
  alignas(base::kCacheLine) std::atomic<uint64_t> scattered_{0};
  std::atomic<uint64_t> promised_{0};
  std::atomic<int> marks_taken_{0};

  base::SpinLock early_lock_;
  std::vector<Early> early_;  // of the next round
};

}  // namespace weft::graph
