// Node-aware collectives: up a tree inside each node, across between leaders, down again
// (001 §6.3.3). Between nodes one message per pair of leaders and direction.
//
// A rank that meets a failure (a dead rank, mostly) does not leave the others waiting for its
// messages: it goes on to the end, and throws then what it met first. If something did not come,
// what it sends on is *poison*: messages a byte longer than what is awaited, whose receivers fail,
// too.
#include "weft/comm/collectives.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/node_map.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/copy.hpp"

namespace weft {

namespace {

using Room = std::span<std::byte>;
using Data = std::span<const std::byte>;

/// What is sent instead of data that did not come: bytes that take no memory of their own, in maps
/// that stay until the collective is over. Each is as large as all before it, so there are few.
class Poison {
 public:
  Poison() = default;
  Poison(const Poison&) = delete;
  Poison& operator=(const Poison&) = delete;
  ~Poison() { clear(); }
  void clear() noexcept {
    while (count_ != 0) {
      const Data map = maps_[--count_];
      ::munmap(const_cast<std::byte*>(map.data()), map.size());
    }
  }
  /// Where there is no map, either: a byte, or none, that is not as long as what is awaited.
  [[nodiscard]] Data instead_of(std::size_t bytes) noexcept {
    static constexpr std::byte kOne[1]{};
    const Data no_map = Data(kOne).first(bytes == 0 ? 1 : 0);
    if (count_ == 0 || maps_[count_ - 1].size() <= bytes) {
      constexpr std::size_t kLeast = 1 << 16;
      if (count_ == maps_.size()) return no_map;
      const std::size_t size =
          std::max({kLeast, bytes + 1, count_ == 0 ? 0 : 2 * maps_[count_ - 1].size()});
      void* const map =
          ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (map == MAP_FAILED) return no_map;
      maps_[count_++] = {static_cast<const std::byte*>(map), size};
    }
    return maps_[count_ - 1].first(bytes + 1);
  }

 private:
  std::array<Data, 48> maps_;
  std::size_t count_ = 0;
};

/// What a rank met in a collective; said when it is over, since words take memory.
struct Trouble {
  enum What : uint8_t {
    none,
    failure,
    of_another,
    lengths,
    own_lengths,
    no_room,
    no_memory,
    death
  };
  What what = none;
  Errc error = Errc::ok;
  Rank peer{};
  std::size_t bytes = 0, wanted = 0;
};

}  // namespace

struct Team::Impl {
  explicit Impl(Runtime& the_runtime)
      : runtime(the_runtime),
        endpoint(the_runtime, {.arrival = Arrival::matched, .device = &the_runtime.device(0)}),
        map(the_runtime.job()),
        me(the_runtime.rank().value),
        size(the_runtime.size()),
        all(map.in_blocks ? 0 : static_cast<std::size_t>(size)) {
    std::iota(all.begin(), all.end(), 0);
  }

  Runtime& runtime;
  Endpoint endpoint;
  comm::NodeMap map;
  int me;
  int size;
  std::vector<int> all;   ///< ranks, where these are interleaved over nodes
  uint32_t sequence = 0;  ///< of collectives: the upper part of every tag

  // --- Messages of one collective ----------------------------------------------------------------

  [[nodiscard]] Tag tag(uint32_t phase) const noexcept { return Tag{sequence << 4 | phase}; }

  // Of the collective under way:
  Trouble trouble;      ///< what it met first
  bool spoilt = false;  ///< something did not come
  Poison poison;

  const Error no_memory{Errc::no_memory, "a collective found no memory"};
  std::atomic<bool> busy{false};

  /// The collective under way; `end` is the last of it.
  class Collective {
   public:
    explicit Collective(Impl& team) : team_(team) {
      // acquire: pairs with the release of the one before, whose thread may have been another.
      if (team_.busy.exchange(true, std::memory_order_acquire)) [[unlikely]] {
        comm::refuse(
            "two threads or tasks are in collectives of one Team at once: make a Team for each");
      }
      ++team_.sequence;
      team_.trouble = {};
      team_.spoilt = false;
    }
    ~Collective() {
      team_.poison.clear();
      team_.busy.store(false, std::memory_order_release);
    }
    Collective(const Collective&) = delete;
    Collective& operator=(const Collective&) = delete;

   private:
    Impl& team_;
  };
  void end() {
    if (trouble.what == Trouble::none) return;
    std::optional<Error> said;
    try {
      said.emplace(error_of(trouble));
    } catch (const std::bad_alloc&) {
      throw Error(no_memory);  // made before; its copies share it
    }
    throw Error(*said);
  }
  [[nodiscard]] Error error_of(const Trouble& met) const {
    switch (met.what) {
      case Trouble::of_another:
        return {met.error, fmt::format("a collective failed: rank {} met a failure{}",
                                       met.peer.value, why_of_others())};
      case Trouble::lengths:
        return {Errc::bad_argument,
                fmt::format("a collective got {} bytes from rank {} and wanted {}: the ranks "
                            "called it with different sizes",
                            met.bytes, met.peer.value, met.wanted)};
      case Trouble::own_lengths:
        return {Errc::bad_argument, "alltoallv: the ranks called it with different sizes"};
      case Trouble::no_room:
        return {Errc::no_memory,
                fmt::format("a collective: another rank announced {} bytes", met.bytes)};
      case Trouble::no_memory:
        return no_memory;
      case Trouble::death:
        return {Errc::peer_died, "a collective failed: a rank died"};
      default:
        break;
    }
    const std::string cause = runtime.cause_of_death(met.peer);
    return {met.error, fmt::format("a collective failed with rank {}: {}{}{}", met.peer.value,
                                   to_string(met.error), cause.empty() ? "" : ": ", cause)};
  }

  void meet(const Trouble& now) noexcept {
    if (trouble.what == Trouble::none) trouble = now;
  }
  void note(const Event& event) noexcept {
    if (event.error == Errc::ok) return;
    meet({event.error == Errc::truncated ? Trouble::of_another : Trouble::failure, event.error,
          event.peer});
  }
  void note_length(const Event& event, std::size_t wanted) noexcept {
    if (event.error != Errc::ok || event.bytes == wanted) return;
    meet({Trouble::lengths, Errc::bad_argument, event.peer, event.bytes, wanted});
  }
  /// What another rank may have met, as far as this one knows.
  [[nodiscard]] std::string why_of_others() const {
    for (int rank = 0; rank < size; ++rank) {
      if (runtime.is_dead(Rank{rank})) return ": " + runtime.cause_of_death(Rank{rank});
    }
    return ", or called it with a larger size";
  }
  void send(int to, uint32_t phase, Data data) {
    if (spoilt) data = poison.instead_of(data.size());
    note(endpoint.send_wait(Rank{to}, tag(phase), data));
  }
  /// What `make` makes; nothing, and trouble, where there is no memory: the others are not left
  /// waiting for that.
  template <class Make>
  [[nodiscard]] auto or_spoilt(Make make) {
    try {
      return make();
    } catch (const std::exception&) {  // bad_alloc, length_error
      spoilt = true;
      meet({Trouble::no_memory});
      return decltype(make()){};
    }
  }
  /// False: it has failed.
  bool recv(int from, uint32_t phase, Room data) {
    const Event event = endpoint.recv_wait(Rank{from}, tag(phase), data);
    note(event);
    note_length(event, data.size());
    const bool came = event.error == Errc::ok && event.bytes == data.size();
    spoilt = spoilt || !came;
    return came;
  }

  // --- Trees over a list of ranks, rooted at its first member ----------------------------------

  [[nodiscard]] static std::size_t place_in(const std::vector<int>& list, int rank) {
    return static_cast<std::size_t>(std::find(list.begin(), list.end(), rank) - list.begin());
  }

  /// Combines everyone's `data` at list[0], in list order: member i takes i + 1, i + 2, i + 4 …
  void reduce_up(const std::vector<int>& list, uint32_t phase, Room data, ReduceFunction function) {
    const std::size_t mine = place_in(list, me);
    std::vector<std::byte> other;
    for (std::size_t step = 1; step < list.size(); step *= 2) {
      if ((mine & step) != 0) {
        send(list[mine - step], phase, data);
        return;
      }
      if (mine + step >= list.size()) continue;
      if (other.empty()) other = or_spoilt([&] { return std::vector<std::byte>(data.size()); });
      const bool came = recv(list[mine + step], phase, other);
      if (came && !spoilt && function != nullptr) {
        function(data.data(), other.data(), data.size());
      }
    }
  }

  /// Brings list[root]'s `data` to everyone of the list.
  void broadcast_down(const std::vector<int>& list, uint32_t phase, Room data,
                      std::size_t root = 0) {
    const std::size_t mine = (place_in(list, me) + list.size() - root) % list.size();
    const auto at = [&](std::size_t place) { return list[(place + root) % list.size()]; };
    std::size_t step = 1;
    while (step < list.size() && (mine & step) == 0) step *= 2;
    if (mine != 0) recv(at(mine - step), phase, data);
    while ((step /= 2) != 0) {
      if (mine + step < list.size()) send(at(mine + step), phase, data);
    }
  }

  [[nodiscard]] bool leads() const { return map.my_node().front() == me; }

  /// Everyone's contribution at the job's first leader.
  void reduce_to_first(Room data, ReduceFunction function) {
    if (!map.in_blocks && function != nullptr) {
      // Rank order matters and nodes are interleaved: one tree over all ranks.
      reduce_up(all, 0, data, function);
      return;
    }
    reduce_up(map.my_node(), 0, data, function);
    if (leads()) reduce_up(map.leaders, 1, data, function);
  }

  /// `data` of the leader `first` to everyone.
  void broadcast_from_leader(int first, Room data) {
    if (leads()) broadcast_down(map.leaders, 2, data, place_in(map.leaders, first));
    broadcast_down(map.my_node(), 3, data);
  }

  /// Leaders only: sends this node's blocks to every other leader, as one message, and takes
  /// theirs.
  template <class BlockOf>
  void exchange_node_blocks(std::size_t block, BlockOf block_of) {
    const std::vector<std::byte> packed = or_spoilt([&] {
      std::vector<std::byte> blocks;
      for (const int rank : map.my_node()) append(blocks, block_of(rank));
      return blocks;
    });
    const std::size_t not_mine = static_cast<std::size_t>(size) - map.my_node().size();
    std::vector<std::byte> others =
        or_spoilt([&] { return std::vector<std::byte>(not_mine * block); });
    Exchange exchange(*this);
    std::size_t at = 0;
    for (std::size_t n = 0; n < map.nodes.size(); ++n) {
      if (static_cast<int>(n) == map.mine) continue;
      const std::size_t bytes = others.empty() ? 0 : map.nodes[n].size() * block;
      exchange.recv(map.leaders[n], 1, Room(others).subspan(at, bytes));
      at += bytes;
    }
    for (std::size_t n = 0; n < map.nodes.size(); ++n) {
      if (static_cast<int>(n) == map.mine) continue;
      exchange.send(map.leaders[n], 1, packed, map.my_node().size() * block);
    }
    exchange.finish();
    if (spoilt) return;
    Data next = others;
    for (std::size_t n = 0; n < map.nodes.size(); ++n) {
      if (static_cast<int>(n) == map.mine) continue;
      for (const int rank : map.nodes[n]) {
        base::copy_bytes(block_of(rank).data(), next.data(), block);
        next = next.subspan(block);
      }
    }
  }

  /// Inside the node directly; to other nodes through the leaders, one message for each pair of
  /// nodes: a rank's bytes for other nodes go to its leader behind a table of their sizes.
  void alltoall_blocks(Data out, std::span<const std::size_t> out_bytes,
                       std::span<const std::size_t> out_at, Room in,
                       std::span<const std::size_t> in_bytes, std::span<const std::size_t> in_at) {
    const auto index = [](int rank) { return static_cast<std::size_t>(rank); };
    const auto out_block = [&](int to) {
      return out.subspan(out_at[index(to)], out_bytes[index(to)]);
    };
    const auto in_block = [&](int from) {
      return in.subspan(in_at[index(from)], in_bytes[index(from)]);
    };
    Exchange near(*this);
    for (const int rank : map.my_node()) {
      if (rank != me) near.recv(rank, 0, in_block(rank));
    }
    for (const int rank : map.my_node()) {
      if (rank != me) near.send(rank, 0, out_block(rank));
    }
    base::copy_bytes(in_block(me).data(), out_block(me).data(), out_block(me).size());
    if (map.nodes.size() > 1) alltoall_far(out_block, in_block);
    near.finish();
  }

  /// What one rank sends to the ranks of one other node: their sizes, then their bytes.
  template <class Block>
  [[nodiscard]] std::vector<std::byte> pack_for(const std::vector<int>& node, Block out_block) {
    std::vector<std::byte> packed;
    for (const int to : node) {
      const uint64_t bytes = out_block(to).size();
      append(packed, std::as_bytes(std::span(&bytes, 1)));
    }
    for (const int to : node) append(packed, out_block(to));
    return packed;
  }
  static bool append(std::vector<std::byte>& to, Data bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
    return true;
  }
  [[nodiscard]] static uint64_t number_at(Data from, std::size_t index) {
    uint64_t value = 0;
    std::memcpy(&value, from.data() + index * sizeof value, sizeof value);
    return value;
  }
  /// Poison has no second part.
  void send_sized(int to, uint32_t phase, Data data) {
    const uint64_t bytes = data.size();
    const bool whole = !spoilt;
    send(to, phase, std::as_bytes(std::span(&bytes, 1)));
    if (whole) send(to, phase, data);
  }
  /// For as much as another rank says that it sends; none, and trouble, if that cannot be.
  [[nodiscard]] std::vector<std::byte> room_for(uint64_t bytes) {
    try {
      return std::vector<std::byte>(bytes);
    } catch (const std::exception&) {  // bad_alloc, length_error
      spoilt = true;
      meet({Trouble::no_room, Errc::no_memory, {}, bytes});
      return {};
    }
  }
  [[nodiscard]] std::vector<std::byte> recv_sized(int from, uint32_t phase) {
    uint64_t bytes = 0;
    if (!recv(from, phase, std::as_writable_bytes(std::span(&bytes, 1)))) return {};
    std::vector<std::byte> data = room_for(bytes);
    recv(from, phase, data);
    return data;
  }

  template <class OutBlock, class InBlock>
  void alltoall_far(OutBlock out_block, InBlock in_block) {
    const auto& node = map.my_node();
    for (std::size_t step = 1; step < map.nodes.size(); ++step) {
      // Every node meets every other once: to the one `step` behind, from the one `step` before.
      const std::size_t count = map.nodes.size();
      const auto mine = static_cast<std::size_t>(map.mine);
      const auto& to = map.nodes[(mine + step) % count];
      const auto& from = map.nodes[(mine + count - step) % count];
      const std::vector<std::byte> packed = or_spoilt([&] { return pack_for(to, out_block); });
      std::vector<std::byte> arrived;
      if (leads()) {
        std::vector<std::byte> together = or_spoilt([&] { return std::vector(packed); });
        for (std::size_t i = 1; i < node.size(); ++i) {
          const std::vector<std::byte> part = recv_sized(node[i], 5);
          if (!or_spoilt([&] { return append(together, part); })) together = {};
        }
        arrived = exchange_sized(to.front(), together, from.front());
      } else {
        send_sized(node.front(), 5, packed);
      }
      deal(from, arrived, in_block);
    }
  }

  /// Sends to one leader while receiving from another.
  [[nodiscard]] std::vector<std::byte> exchange_sized(int to, Data data, int from) {
    uint64_t out_bytes = data.size();
    uint64_t in_bytes = 0;
    Exchange sizes(*this);
    sizes.recv(from, 6, std::as_writable_bytes(std::span(&in_bytes, 1)));
    sizes.send(to, 6, std::as_bytes(std::span(&out_bytes, 1)));
    sizes.finish();
    std::vector<std::byte> arrived = room_for(in_bytes);
    Exchange bytes(*this);
    bytes.recv(from, 7, arrived);
    bytes.send(to, 7, data);
    bytes.finish();
    return arrived;
  }

  /// The leader deals what came from node `from` (one packed part per rank of it) to its node, and
  /// says first whether it has it.
  template <class InBlock>
  void deal(const std::vector<int>& from, Data arrived, InBlock in_block) {
    const auto& node = map.my_node();
    std::byte word[1]{};
    if (!leads()) {
      if (!recv(node.front(), 9, word)) return;
      for (const int source : from) recv(node.front(), 8, in_block(source));
      return;
    }
    const bool has_it = !spoilt;
    for (std::size_t i = 1; i < node.size(); ++i) send(node[i], 9, word);
    if (!has_it) return;
    for (const int source : from) {
      // The lengths of its blocks, then these. Who says that there are more bytes than came is not
      // believed: such a block is cut, and its receiver finds it short.
      const Data lengths = arrived.first(std::min(node.size() * sizeof(uint64_t), arrived.size()));
      arrived = arrived.subspan(lengths.size());
      for (std::size_t i = 0; i < node.size(); ++i) {
        const uint64_t said =
            (i + 1) * sizeof(uint64_t) <= lengths.size() ? number_at(lengths, i) : 0;
        const Data block = arrived.first(std::min<uint64_t>(said, arrived.size()));
        arrived = arrived.subspan(block.size());
        if (node[i] != me) {
          send(node[i], 8, block);
        } else if (block.size() == in_block(source).size()) {
          base::copy_bytes(in_block(source).data(), block.data(), block.size());
        } else {
          spoilt = true;
          meet({Trouble::own_lengths});
        }
      }
    }
  }

  /// Receives of an exchange: counts them, and keeps of those that failed, or brought another
  /// length than their `context` says, the first.
  class Received final : public Completion {
   public:
    bool try_complete(const Event& event) noexcept override {
      if (event.error != Errc::ok || event.bytes != wanted(event)) [[unlikely]] {
        // relaxed: who reads it has seen the count.
        if (!failed_.exchange(true, std::memory_order_relaxed)) assign(first_failure_, event);
      }
      count_.fetch_add(1, std::memory_order_release);  // pairs with count
      return true;
    }
    [[nodiscard]] uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
    /// Once all were counted.
    [[nodiscard]] const Event* first_failure() const noexcept {
      return failed_.load(std::memory_order_relaxed) ? &first_failure_ : nullptr;
    }
    static void* as_context(std::size_t bytes) noexcept { return reinterpret_cast<void*>(bytes); }
    [[nodiscard]] static std::size_t wanted(const Event& event) noexcept {
      return reinterpret_cast<std::size_t>(event.context);
    }

   private:
    std::atomic<uint64_t> count_{0};
    std::atomic<bool> failed_{false};
    Event first_failure_{};
  };

  /// Several messages under way at once: all receives are posted, then all sends; `finish` waits.
  class Exchange {
   public:
    explicit Exchange(Impl& team) : team_(team) {}
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;
    /// Left by an exception: what was posted ends before its buffers and completions do.
    ~Exchange() { wait(); }
    void recv(int from, uint32_t phase, Room data) {
      Event now;
      const Post answer = until_posted(team_.runtime, [&] {
        return team_.endpoint.recv(Rank{from}, team_.tag(phase), data, &done_,
                                   Received::as_context(data.size()), &now);
      });
      if (answer == Post::done) (void)done_.try_complete(now);
      ++posted_;
    }
    void send(int to, uint32_t phase, Data data) { send(to, phase, data, data.size()); }
    /// `awaited`: bytes, where there was no memory for the data.
    void send(int to, uint32_t phase, Data data, std::size_t awaited) {
      if (team_.spoilt) data = team_.poison.instead_of(awaited);
      const Post answer = until_posted(team_.runtime, [&] {
        return team_.endpoint.send(Rank{to}, team_.tag(phase), data, &sent_);
      });
      if (answer == Post::posted) ++sends_;
    }
    void finish() {
      wait();
      if (const Event* failure = done_.first_failure()) {
        team_.note(*failure);
        team_.note_length(*failure, Received::wanted(*failure));
        team_.spoilt = true;
      }
      if (sent_.errors() != 0) team_.meet({Trouble::death});
    }

   private:
    [[nodiscard]] bool is_over() const noexcept {
      return done_.count() == posted_ && sent_.value() == sends_;
    }
    void wait() {
      if (!is_over()) team_.runtime.wait_until([this] { return is_over(); });
    }

    Impl& team_;
    Received done_;
    Counter sent_;
    uint64_t posted_ = 0;
    uint64_t sends_ = 0;
  };
};

Team::Team(Runtime& runtime) : impl_(std::make_unique<Impl>(runtime)) {}
Team::~Team() = default;
Rank Team::rank() const noexcept { return Rank{impl_->me}; }
int Team::size() const noexcept { return impl_->size; }

void Team::barrier() {
  Impl& my = *impl_;
  const Impl::Collective one(my);
  if (my.size == 1) return;
  std::byte nothing[1]{};
  my.reduce_to_first(nothing, nullptr);
  my.broadcast_from_leader(my.map.leaders[0], nothing);
  my.end();
}

void Team::broadcast(Rank root, std::span<std::byte> data) {
  Impl& my = *impl_;
  my.runtime.impl().check_rank(root);
  const Impl::Collective one(my);
  const int leader = my.map.leader_of(root.value);
  if (leader != root.value) {
    if (my.me == root.value) my.send(leader, 0, data);
    if (my.me == leader) my.recv(root.value, 0, data);
  }
  my.broadcast_from_leader(leader, data);
  my.end();
}

void Team::reduce(Rank root, std::span<std::byte> data, ReduceFunction function) {
  Impl& my = *impl_;
  my.runtime.impl().check_rank(root);
  if (function == nullptr) comm::refuse("reduce needs a function");
  std::vector<std::byte> partial(data.begin(), data.end());
  const Impl::Collective one(my);
  my.reduce_to_first(partial, function);
  const int first = my.map.in_blocks ? my.map.leaders[0] : 0;
  if (first != root.value) {
    if (my.me == first) my.send(root.value, 4, partial);
    if (my.me == root.value) my.recv(first, 4, partial);
  }
  if (my.me == root.value && !my.spoilt) base::copy_bytes(data.data(), partial.data(), data.size());
  my.end();
}

void Team::allreduce(std::span<std::byte> data, ReduceFunction function) {
  Impl& my = *impl_;
  if (function == nullptr) comm::refuse("allreduce needs a function");
  const Impl::Collective one(my);
  my.reduce_to_first(data, function);
  my.broadcast_from_leader(my.map.leaders[0], data);
  my.end();
}

void Team::allgather(std::span<const std::byte> mine, std::span<std::byte> all) {
  Impl& my = *impl_;
  const std::size_t block = mine.size();
  if (all.size() != block * static_cast<std::size_t>(my.size)) {
    comm::refuse("allgather: the result is size() blocks long");
  }
  const Impl::Collective one(my);
  const auto block_of = [&](int rank) {
    return all.subspan(static_cast<std::size_t>(rank) * block, block);
  };
  base::copy_bytes(block_of(my.me).data(), mine.data(), block);
  const auto& node = my.map.my_node();
  if (my.leads()) {
    for (std::size_t i = 1; i < node.size(); ++i) my.recv(node[i], 0, block_of(node[i]));
    my.exchange_node_blocks(block, block_of);
  } else {
    my.send(node.front(), 0, mine);
  }
  my.broadcast_down(node, 3, all);
  my.end();
}

void Team::alltoall(std::span<const std::byte> out, std::span<std::byte> in) {
  const auto ranks = static_cast<std::size_t>(impl_->size);
  if (out.size() != in.size() || out.size() % ranks != 0) {
    comm::refuse("alltoall: both buffers are size() equal blocks long");
  }
  const std::vector<std::size_t> sizes(ranks, out.size() / ranks);
  alltoallv(out, sizes, in, sizes);
}

void Team::alltoallv(std::span<const std::byte> out, std::span<const std::size_t> out_bytes,
                     std::span<std::byte> in, std::span<const std::size_t> in_bytes) {
  Impl& my = *impl_;
  const auto ranks = static_cast<std::size_t>(my.size);
  const auto total = [](std::span<const std::size_t> sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
  };
  if (out_bytes.size() != ranks || in_bytes.size() != ranks || total(out_bytes) != out.size() ||
      total(in_bytes) != in.size()) {
    comm::refuse("alltoallv: one size for each rank, adding up to the buffers");
  }
  if (const auto me = static_cast<std::size_t>(my.me); out_bytes[me] != in_bytes[me])
    comm::refuse("alltoallv: what a rank sends to itself is what it receives");
  const auto offsets = [](std::span<const std::size_t> sizes) {
    std::vector<std::size_t> at(sizes.size());
    std::exclusive_scan(sizes.begin(), sizes.end(), at.begin(), std::size_t{0});
    return at;
  };
  const auto out_at = offsets(out_bytes);
  const auto in_at = offsets(in_bytes);
  const Impl::Collective one(my);
  my.alltoall_blocks(out, out_bytes, out_at, in, in_bytes, in_at);
  my.end();
}

}  // namespace weft
