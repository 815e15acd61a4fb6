// Answers to peers that cost no transfer: that what they asked for is over, or cannot be; and what
// they are told of messages that nobody can take any more.
#include <fmt/format.h>

#include <optional>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/log.hpp"

namespace weft {

using comm::Handle;
using comm::Header;
using comm::Operation;
using comm::PacketType;
using fabric::Taken;

namespace comm {

Operation* make_answer(Runtime::Impl& runtime, Rank to, uint16_t reply_port, Handle theirs,
                       Errc error) noexcept {
  Operation* op = runtime.operations->allocate_for_request();
  if (op == nullptr) return nullptr;
  op->peer = to;
  op->reply_port = reply_port;
  op->remote = theirs;
  op->error = error;
  op->answers = true;
  op->completion = nullptr;
  op->work = Work::answer;
  return op;
}

}  // namespace comm

namespace {

/// Which operation of its sender's waits for an answer to this frame.
std::optional<Handle> asker_of(const Header& header, std::span<const std::byte> rest) noexcept {
  comm::RendezvousBody large;
  comm::PutBody put;
  switch (header.type) {
    case PacketType::ready_to_send:
    case PacketType::announced:
    case PacketType::put_large:
    case PacketType::get:
      if (comm::take(rest, large)) return large.operation;
      break;
    case PacketType::put:
      if (comm::take(rest, put) && put.operation.index != comm::kNoAnswer) return put.operation;
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

/// Without a record where the control ring has room.
bool Device::answer(Rank to, uint16_t reply_port, Handle theirs, Errc error) noexcept {
  if (!owed_.any_to(to, reply_port) && send_finished(to, reply_port, theirs, error)) return true;
  Operation* const op = comm::make_answer(runtime_, to, reply_port, theirs, error);
  if (op == nullptr) return false;
  if (answer_in_order(*op)) return true;
  runtime_.operations->release(*op);
  return false;
}

bool Device::answer_in_order(Operation& op) noexcept {
  op.device = number_;
  return (!owed_.any_to(op.peer, op.reply_port) && pay(op)) || owed_.add(op);
}

/// True: it was answered. What its end may still wait for holds no other answer up.
bool Device::pay(Operation& op) noexcept {
  if (op.answers && !send_finished(op.peer, op.reply_port, op.remote, op.error)) return false;
  op.answers = false;
  if (!finish(op)) enqueue_locked(op);
  return true;
}

Taken Device::refuse(const fabric::Frame& frame, Errc why) noexcept {
  Header header;
  std::span<const std::byte> rest = frame.head;
  if (!comm::take(rest, header)) return Taken::yes;
  const auto asker = asker_of(header, rest);
  return !asker || answer(frame.source, header.reply_port, *asker, why) ? Taken::yes : Taken::hold;
}

void Device::note_refused(const Endpoint::Impl& endpoint, Rank source) {
  if (counters_.read(malformed) == 0) {
    base::log(
        base::LogLevel::warn,
        fmt::format("dropped a message from rank {} for endpoint {}, which takes none: it was "
                    "made otherwise there (further ones are counted)",
                    source.value, endpoint.number));
  }
  count(malformed);
}

void Runtime::Impl::answer_soon(Rank to, uint16_t reply_port, Handle theirs, Errc error) {
  for (;;) {
    Device& device = this_device();
    bool answered = false;
    device.with_lock([&] { answered = device.answer(to, reply_port, theirs, error); });
    if (device.busy()) device.wake_sleeper();
    if (answered) return;
    self.relax();
  }
}

/// A receive that met nothing when its endpoint ended, which waits until it was told. Not until
/// there is room in a CompletionQueue: whoever empties it may be the one who waits.
static bool end_cancelled(Operation& over) {
  auto& owner = *reinterpret_cast<Endpoint::Impl*>(over.remote_address);
  over.end = nullptr;
  const bool told = over.completion == nullptr || over.completion->try_complete(over.event());
  owner.end_inbound();
  return told;
}

/// What was never received gives its packets back, and senders that wait are told; receives that
/// never met end as cancelled.
void Runtime::Impl::drop_unreceived(Endpoint::Impl& endpoint) {
  comm::Unexpected* announced = nullptr;  // a list: there may be no memory for another
  uint64_t dropped = 0;
  if (endpoint.table != nullptr) {
    endpoint.table->drain([&](uint64_t, comm::Side side, uint64_t value) {
      if (side == comm::Side::receive) {
        auto& op = *reinterpret_cast<Operation*>(value);
        op.remote_address = reinterpret_cast<uintptr_t>(&endpoint);
        op.end = end_cancelled;
        endpoint.inbound.fetch_add(1, std::memory_order_relaxed);  // waited for by this thread
        end_later(op, Errc::cancelled);
        return;
      }
      auto& record = *reinterpret_cast<comm::Unexpected*>(value);
      ++dropped;
      if (record.holds == comm::Unexpected::Holds::rendezvous)
        record.next = std::exchange(announced, &record);
      else
        comm::release_unexpected(*this, record);
    });
  }
  if (endpoint.queue != nullptr) {
    using Holds = comm::QueueEntry::Holds;
    comm::QueueEntry entry;
    while (endpoint.queue->try_pop(entry)) {
      ++dropped;
      if (entry.holds == Holds::kept) kept->release(entry.kept);
      if (entry.holds == Holds::loan) devices[0]->port().give_back(entry.lent.loan);
      if (entry.holds == Holds::rendezvous)
        answer_soon(entry.source, entry.reply_port, entry.rendezvous.operation, Errc::cancelled);
    }
  }
  while (announced != nullptr) {
    comm::Unexpected& record = *std::exchange(announced, announced->next);
    answer_soon(record.source, record.reply_port, record.rendezvous.operation, Errc::cancelled);
    comm::release_unexpected(*this, record);
  }
  // After a death much is never received.
  if (dropped != 0 && deaths.load(std::memory_order_relaxed) == 0) {
    base::log(base::LogLevel::warn,
              fmt::format("endpoint {} ended with {} messages that were never received",
                          endpoint.number, dropped));
  }
  // relaxed: nobody delivers to it any more. The first was told when it came.
  if (const uint64_t lost = endpoint.signals_lost.load(std::memory_order_relaxed); lost > 1) {
    base::log(base::LogLevel::warn,
              fmt::format("endpoint {}, made without at_target, dropped the signals of {} puts",
                          endpoint.number, lost));
  }
}

}  // namespace weft
