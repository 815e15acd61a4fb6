#include "graph/exchange.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "weft/base/error.hpp"

namespace weft::graph {
namespace {

/// Packets larger than this gain nothing: the copy costs more than the message.
constexpr std::size_t kLargestPacket = 16384;
/// Looks in vain before a helping thread leaves the waiting to its master.
constexpr int kVainLooks = 64;

}  // namespace

void Outbox::make_room(int to) {
  Packet& packet = packets_[static_cast<std::size_t>(to)];
  if (!packet.bytes) packet.bytes = std::make_unique<std::byte[]>(exchange_.packet_bytes_);
  send(to);
}

void Outbox::send(int to) {
  Packet& packet = packets_[static_cast<std::size_t>(to)];
  if (packet.used > 0) exchange_.send_packet(thread_, to, {packet.bytes.get(), packet.used});
  packet.used = 0;
  packet.room = packet.bytes ? exchange_.packet_bytes_ : 0;
}

void Outbox::push_run(int to, uint32_t sequence, uint64_t first, std::size_t value_bytes,
                      std::span<const std::byte> values) {
  Packet& packet = packets_[static_cast<std::size_t>(to)];
  const std::size_t most =
      (exchange_.packet_bytes_ - sizeof(RunHeader)) / value_bytes * value_bytes;
  while (!values.empty()) {
    const auto part = values.first(std::min(most, values.size()));
    make_room(to);
    const RunHeader header{first, sequence, static_cast<uint32_t>(part.size())};
    std::memcpy(packet.bytes.get(), &header, sizeof(header));
    std::memcpy(packet.bytes.get() + sizeof(header), part.data(), part.size());
    packet.used = sizeof(header) + part.size();
    send(to);
    first += part.size() / value_bytes;
    values = values.subspan(part.size());
  }
}

Exchange::Exchange(Runtime& runtime, ThreadTeam& team)
    : runtime_(runtime),
      team_(team),
      rank_(runtime.rank().value),
      size_(runtime.size()),
      packet_bytes_(std::min(runtime.eager_bytes(), kLargestPacket)),
      endpoint_(runtime, EndpointSpec{.arrival = Arrival::queue}),
      marks_(static_cast<std::size_t>(size_)),
      sent_packets_(std::make_unique<std::atomic<uint32_t>[]>(static_cast<std::size_t>(size_))) {
  for (int thread = 0; thread < team.size(); ++thread) outboxes_.push_back({*this, thread, size_});
}

RoundTotals Exchange::run(RoundWork& work, bool parallel) {
  parallel = parallel && team_.size() > 1;
  start(work, parallel ? team_.size() : 1);
  if (parallel) {
    team_.run([this](int thread) {
      take_part(thread);
      help_receive(thread);
    });
  } else {
    take_part(0);
  }
  // Alone from here: nobody else takes packets, so while the round is not over one must come.
  while (!is_over()) accept(0, endpoint_.dequeue_wait());
  return totals();
}

void Exchange::start(RoundWork& work, int threads) {
  work_ = &work;
  ++round_;
  // relaxed, all of them: no other thread of this rank is in a round; the team's fork publishes.
  for (int to = 0; to < size_; ++to)
    sent_packets_[static_cast<std::size_t>(to)].store(0, std::memory_order_relaxed);
  sent_bytes_.store(0, std::memory_order_relaxed);
  scattered_.store(0, std::memory_order_relaxed);
  promised_.store(0, std::memory_order_relaxed);
  marks_taken_.store(0, std::memory_order_relaxed);
  gathering_.store(threads, std::memory_order_relaxed);
  for (const Early& early : std::exchange(early_, {})) {
    take(0, early.source, early.tag, early.copy.empty() ? early.message.data() : early.copy);
  }
}

void Exchange::take_part(int thread) {
  Outbox& out = outboxes_[static_cast<std::size_t>(thread)];
  work_->gather(thread, out);
  for (int to = 0; to < size_; ++to) out.send(to);
  // acq_rel: the last thread sees the counts and whatever else the others gathered.
  if (gathering_.fetch_sub(1, std::memory_order_acq_rel) == 1) send_end_marks(thread);
}

void Exchange::help_receive(int thread) {
  for (int vain = 0; vain < kVainLooks && !is_over(); ++vain) {
    if (receive(thread)) {
      vain = 0;
    } else {
      runtime_.relax();
    }
  }
}

void Exchange::send_end_marks(int thread) {
  EndMark mark{0, 0, 0, work_->contribution()};
  const auto others = static_cast<uint32_t>(size_ - 1);
  mark.messages = others;
  // relaxed: made visible by the last fetch_sub of gathering_.
  mark.bytes = sent_bytes_.load(std::memory_order_relaxed) + others * sizeof(EndMark);
  for (int to = 0; to < size_; ++to) {
    mark.messages += sent_packets_[static_cast<std::size_t>(to)].load(std::memory_order_relaxed);
  }
  marks_[static_cast<std::size_t>(rank_)] = mark;
  for (int step = 1; step < size_; ++step) {  // each rank begins with another one
    const int to = (rank_ + step) % size_;
    mark.packets_to_you =
        sent_packets_[static_cast<std::size_t>(to)].load(std::memory_order_relaxed);
    post(thread, to, true, std::as_bytes(std::span(&mark, 1)));
  }
}

void Exchange::send_packet(int thread, int to, std::span<const std::byte> packet) {
  // relaxed: counts only; published by this thread's fetch_sub of gathering_.
  sent_packets_[static_cast<std::size_t>(to)].fetch_add(1, std::memory_order_relaxed);
  sent_bytes_.fetch_add(packet.size(), std::memory_order_relaxed);
  post(thread, to, false, packet);
}

void Exchange::post(int thread, int to, bool end_mark, std::span<const std::byte> bytes) {
  const Tag tag{round_ << 1 | static_cast<uint32_t>(end_mark)};
  for (;;) {
    const Post answer = endpoint_.send(Rank{to}, tag, bytes);
    WEFT_CHECK(answer != Post::posted, "a packet within the eager limit is sent at once");
    if (answer == Post::done) return;
    if (!receive(thread)) runtime_.relax();
  }
}

bool Exchange::receive(int thread) {
  Message message;
  if (!endpoint_.dequeue(message)) return false;
  accept(thread, std::move(message));
  return true;
}

void Exchange::accept(int thread, Message message) {
  const uint32_t of_round = message.tag().value >> 1;
  if (of_round != (round_ & ~(1U << 31))) return keep(std::move(message));
  take(thread, message.source(), message.tag(), message.data());
}

void Exchange::keep(Message message) {
  Early early{message.source(), message.tag(), {}, {}};
  if (const auto bytes = message.data(); bytes.size() <= runtime_.inline_bytes(message.source())) {
    early.copy.assign(bytes.begin(), bytes.end());
  } else {
    early.message = std::move(message);
  }
  const std::lock_guard guard(early_lock_);
  early_.push_back(std::move(early));
}

void Exchange::take(int thread, Rank source, Tag tag, std::span<const std::byte> bytes) {
  if ((tag.value & 1) == 0) {
    work_->scatter(thread, source.value, bytes);
    // release: pairs with is_over's acquire; who sees the round over sees what was scattered.
    scattered_.fetch_add(1, std::memory_order_release);
    return;
  }
  WEFT_CHECK(bytes.size() == sizeof(EndMark), "an end mark has its size");
  EndMark& mark = marks_[static_cast<std::size_t>(source.value)];
  std::memcpy(&mark, bytes.data(), sizeof(EndMark));
  // relaxed: ordered before the count of marks, which is what is_over looks at first.
  promised_.fetch_add(mark.packets_to_you, std::memory_order_relaxed);
  // release: pairs with is_over's acquire; the mark and its promise are seen with it.
  marks_taken_.fetch_add(1, std::memory_order_release);
}

bool Exchange::is_over() const noexcept {
  // acquire: pairs with the releases in accept. Once all marks are in, the promise is final.
  return marks_taken_.load(std::memory_order_acquire) == size_ - 1 &&
         scattered_.load(std::memory_order_acquire) == promised_.load(std::memory_order_relaxed);
}

RoundTotals Exchange::totals() const {
  RoundTotals totals;
  for (const EndMark& mark : marks_) {
    totals.messages += mark.messages;
    totals.bytes += mark.bytes;
    totals.sum.active += mark.mine.active;
    for (std::size_t i = 0; i < mark.mine.values.size(); ++i) {
      totals.sum.values[i] += mark.mine.values[i];
    }
  }
  return totals;
}

}  // namespace weft::graph
