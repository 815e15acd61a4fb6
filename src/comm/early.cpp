// Frames for endpoints that are not made yet: kept in order, delivered when the endpoint opens.
//
// Invariants: (1) `endpoints[n]` is set only when no early frame for n is left; until then every
// frame for n joins the list, so that order is kept. (2) The list and `opening` are touched under
// `early_lock`; frames are delivered outside it, under the lock of the device that they came by.
#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"

namespace weft {

using comm::Header;
using comm::Unexpected;
using fabric::Taken;

Taken Runtime::Impl::keep_early(Device& device, const fabric::Frame& frame, const Header& header) {
  early_lock.lock();
  Endpoint::Impl* endpoint = endpoints[header.endpoint].load(std::memory_order_acquire);
  const bool ended = endpoint == nullptr && opening[header.endpoint] == nullptr &&
                     header.endpoint < endpoints_made.load(std::memory_order_relaxed);
  if (endpoint != nullptr || ended) {
    early_lock.unlock();
    if (!ended) return device.on_frame(frame);
    device.count(Device::late);
    device.give_back(frame);
    return Taken::yes;
  }
  Unexpected* record = unexpected->allocate();
  const uint32_t copy = record != nullptr ? packets->alloc() : base::SlotPool::kNone;
  const bool wide = frame.open != nullptr && frame.open->count > 1;
  const std::size_t kept = frame.head.size() + (wide ? sizeof *frame.open : 0);
  if (copy == base::SlotPool::kNone || kept > packet_bytes) {
    if (copy != base::SlotPool::kNone) packets->free(copy);
    if (record != nullptr) unexpected->release(*record);
    early_lock.unlock();
    return Taken::hold;
  }
  std::memcpy(packet(copy), frame.head.data(), frame.head.size());
  if (wide) std::memcpy(packet(copy) + frame.head.size(), frame.open, sizeof *frame.open);
  record->source = frame.source;
  record->endpoint = header.endpoint;
  record->reply_port = device.number();  // here: the device it came by
  record->bytes = static_cast<uint32_t>(frame.head.size());
  record->packet = copy;
  record->wide = wide;  // what it says of its packets lies behind the frame
  record->lent = {frame.packet.data(), frame.loan};
  record->tag = Tag{static_cast<uint32_t>(frame.packet.size())};  // here: the packet's bytes
  record->next = nullptr;
  *early_end = record;
  early_end = &record->next;
  early_lock.unlock();
  return Taken::yes;
}

Unexpected* Runtime::Impl::next_early(const Endpoint::Impl& endpoint, const Device& device,
                                      bool& others) {
  for (Unexpected** at = &early; *at != nullptr; at = &(*at)->next) {
    Unexpected* record = *at;
    if (record->endpoint != endpoint.number) continue;
    if (record->reply_port != device.number()) {
      others = true;
      continue;
    }
    return record;
  }
  return nullptr;
}

/// Delivers what came early over `device` for `endpoint` (device's lock held). True once nothing
/// is left for it and it is open.
bool Runtime::Impl::deliver_early(Endpoint::Impl& endpoint, Device& device) {
  for (;;) {
    early_lock.lock();
    bool others = false;
    Unexpected* record = next_early(endpoint, device, others);
    if (record == nullptr) {
      if (!others && opening[endpoint.number] == &endpoint) {
        opening[endpoint.number] = nullptr;
        openings.fetch_sub(1, std::memory_order_relaxed);
        // release: pairs with on_frame's acquire.
        endpoints[endpoint.number].store(&endpoint, std::memory_order_release);
      }
      early_lock.unlock();
      return !others;
    }
    early_lock.unlock();  // only this device's lock holder takes this record out
    fabric::Frame frame{record->source,
                        {packet(record->packet), record->bytes},
                        {record->lent.place, record->tag.value},
                        record->lent.loan};
    fabric::OpenLoan open;
    if (record->wide) {
      std::memcpy(&open, packet(record->packet) + record->bytes, sizeof open);
      frame.open = &open;
    }
    Header header;
    std::span<const std::byte> rest = frame.head;
    WEFT_CHECK(comm::take(rest, header), "an early frame lost its header");
    if (device.dispatch(endpoint, header, rest, frame) == Taken::hold) return false;
    device.note_early();
    early_lock.lock();
    Unexpected** at = &early;
    while (*at != record) at = &(*at)->next;
    *at = record->next;
    if (early_end == &record->next) early_end = at;
    early_lock.unlock();
    packets->free(record->packet);
    unexpected->release(*record);
  }
}

void Runtime::Impl::deliver_early(Device& device) {
  for (uint32_t i = 0; i < kMaxEndpoints; ++i) {
    early_lock.lock();
    Endpoint::Impl* endpoint = opening[i];
    early_lock.unlock();
    if (endpoint != nullptr) deliver_early(*endpoint, device);
  }
}

void Runtime::Impl::publish(Endpoint::Impl& endpoint) {
  early_lock.lock();
  const uint32_t number = endpoints_made.load(std::memory_order_relaxed);
  if (number == kMaxEndpoints) {
    early_lock.unlock();
    throw Error(Errc::no_memory, "too many endpoints were made: at most 1024 a runtime");
  }
  endpoint.number = static_cast<uint16_t>(number);
  endpoint.find_short_way();  // before anybody else can meet the endpoint
  opening[number] = &endpoint;
  openings.fetch_add(1, std::memory_order_relaxed);
  endpoints_made.store(number + 1, std::memory_order_relaxed);
  early_lock.unlock();
  for (auto& device : devices) {
    device->with_lock([&] { deliver_early(endpoint, *device); });
  }
}

void Runtime::Impl::unpublish(Endpoint::Impl& endpoint) {
  early_lock.lock();
  if (opening[endpoint.number] == &endpoint) {
    opening[endpoint.number] = nullptr;
    openings.fetch_sub(1, std::memory_order_relaxed);
  }
  endpoints[endpoint.number].store(nullptr, std::memory_order_release);
  early_lock.unlock();
  // Whoever was delivering to it holds a device's lock: wait until each was free once.
  for (auto& device : devices) {
    device->with_lock([&] { device->forget(endpoint.queue_waiters); });
  }
  drop_unreceived(endpoint);
}

/// What was never received gives its packets back; receives that never met end as cancelled.
void Runtime::Impl::drop_unreceived(Endpoint::Impl& endpoint) {
  if (endpoint.table != nullptr) {
    endpoint.table->drain([this](uint64_t, comm::Side side, uint64_t value) {
      if (side == comm::Side::arrival) {
        comm::release_unexpected(*this, *reinterpret_cast<Unexpected*>(value));
      } else {
        end_later(*reinterpret_cast<comm::Operation*>(value), Errc::cancelled);
      }
    });
  }
  if (endpoint.queue != nullptr) {
    using Holds = comm::QueueEntry::Holds;
    comm::QueueEntry entry;
    while (endpoint.queue->try_pop(entry)) {
      if (entry.holds == Holds::own_packet) packets->free(entry.packet);
      if (entry.holds == Holds::loan) devices[0]->port().give_back(entry.lent.loan);
    }
  }
}

}  // namespace weft
