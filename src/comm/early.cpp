// Frames for endpoints that are not made yet: kept in order, delivered when the endpoint opens.
//
// Invariants: (1) `endpoints[n]` is set only when no early frame for n is left; until then every
// frame for n joins the list, so that order is kept. (2) The list and `opening` are touched under
// `early_lock`; frames are delivered outside it, under the lock of the device that they came by.
#include <fmt/format.h>

#include <vector>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/copy.hpp"

namespace weft {

using comm::Header;
using comm::Unexpected;
using fabric::Taken;

Taken Runtime::Impl::keep_early(Device& device, const fabric::Frame& frame, const Header& header) {
  early_lock.lock();
  Endpoint::Impl* endpoint = endpoints[header.endpoint].load(std::memory_order_acquire);
  const bool ended = endpoint == nullptr && opening_of(header.endpoint) == nullptr &&
                     header.endpoint < endpoints_made.load(std::memory_order_relaxed);
  if (endpoint != nullptr || ended) {
    early_lock.unlock();
    if (!ended) return device.on_frame(frame);
    if (device.refuse(frame, Errc::cancelled) == Taken::hold) return Taken::hold;
    device.count(Device::late);
    device.give_back(frame);
    return Taken::yes;
  }
  Unexpected* record = unexpected->allocate();
  const uint32_t place = record != nullptr ? kept->allocate() : comm::KeptBytes::kNone;
  const bool wide = frame.open != nullptr && frame.open->count > 1;
  const std::size_t bytes = frame.head.size() + (wide ? sizeof *frame.open : 0);
  if (place == comm::KeptBytes::kNone || bytes > kept->bytes()) {
    if (place != comm::KeptBytes::kNone) kept->release(place);
    if (record != nullptr) unexpected->release(*record);
    early_lock.unlock();
    return Taken::hold;
  }
  std::byte* const copy = (*kept)[place];
  base::copy_bytes(copy, frame.head.data(), frame.head.size());
  if (wide) base::copy_bytes(copy + frame.head.size(), frame.open, sizeof *frame.open);
  record->source = frame.source;
  record->endpoint = header.endpoint;
  record->reply_port = device.number();  // here: the device it came by
  record->bytes = static_cast<uint32_t>(frame.head.size());
  record->kept = place;
  record->wide = wide;  // what it says of its packets lies behind the frame
  record->lent = {frame.packet.data(), frame.loan};
  record->tag = Tag{static_cast<uint32_t>(frame.packet.size())};  // here: the packet's bytes
  record->next = nullptr;
  *early_end = record;
  early_end = &record->next;
  early_lock.unlock();
  return Taken::yes;
}

/// (early_lock)
Endpoint::Impl* Runtime::Impl::opening_of(uint32_t number) const noexcept {
  for (Endpoint::Impl* endpoint : opening)
    if (endpoint->number == number) return endpoint;
  return nullptr;
}

Endpoint::Impl* Runtime::Impl::opening_without(uint32_t number, Rank source) noexcept {
  early_lock.lock();
  Endpoint::Impl* endpoint = opening_of(number);
  for (const Unexpected* at = early; at != nullptr && endpoint != nullptr; at = at->next) {
    if (at->endpoint == number && at->source == source) endpoint = nullptr;
  }
  early_lock.unlock();
  return endpoint;
}

Unexpected* Device::allocate_unexpected() noexcept {
  Unexpected* const record = runtime_.unexpected->allocate();
  return record != nullptr || !delivers_early_ ? record : std::exchange(spares_.record, nullptr);
}

uint32_t Device::allocate_kept() noexcept {
  const uint32_t place = runtime_.kept->allocate();
  return place != comm::KeptBytes::kNone || !delivers_early_
             ? place
             : std::exchange(spares_.place, comm::KeptBytes::kNone);
}

void Device::release_unexpected(Unexpected& record) noexcept {
  if (spares_.record == nullptr) [[unlikely]]
    spares_.record = &record;
  else
    runtime_.unexpected->release(record);
}

void Device::release_kept(uint32_t place) noexcept {
  if (spares_.place == comm::KeptBytes::kNone) [[unlikely]]
    spares_.place = place;
  else
    runtime_.kept->release(place);
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

/// The frame that `record` keeps. `open`: room for what it says of several packets.
fabric::Frame Runtime::Impl::early_frame(const Unexpected& record, fabric::OpenLoan& open) {
  const std::byte* const copy = (*kept)[record.kept];
  fabric::Frame frame{
      record.source, {copy, record.bytes}, {record.lent.place, record.tag.value}, record.lent.loan};
  if (record.wide) {
    std::memcpy(&open, copy + record.bytes, sizeof open);
    frame.open = &open;
  }
  return frame;
}

/// Delivers what came early over `device` for `endpoint` (device's lock held). True once nothing
/// is left for it and it is open.
bool Runtime::Impl::deliver_early(Endpoint::Impl& endpoint, Device& device) {
  for (;;) {
    early_lock.lock();
    bool others = false;
    Unexpected* record = next_early(endpoint, device, others);
    if (record == nullptr) {
      const bool opens = !others && std::erase(opening, &endpoint) != 0;
      if (opens) {
        openings.fetch_sub(1, std::memory_order_relaxed);
        // release: pairs with on_frame's acquire. seq_cst: then a look at the deaths; peer_down
        // counts one first, then looks at the endpoints that are open.
        endpoints[endpoint.number].store(&endpoint, std::memory_order_seq_cst);
      }
      early_lock.unlock();
      // What the dead had sent before was delivered by now.
      if (opens && deaths.load(std::memory_order_seq_cst) != 0) [[unlikely]] {
        for (const Rank rank : dead_since(0)) tell_of_death(endpoint, rank);
      }
      return !others;
    }
    early_lock.unlock();  // only this device's lock holder takes this record out
    fabric::OpenLoan open;
    const fabric::Frame frame = early_frame(*record, open);
    Header header;
    std::span<const std::byte> rest = frame.head;
    WEFT_CHECK(comm::take(rest, header), "an early frame lost its header");
    const Taken taken = device.dispatch_early(endpoint, header, rest, frame);
    if (taken == Taken::hold) {
      tell_of_deaths_while_opening(endpoint);
      device.note_early_held(record->source, endpoint.number);
      return false;
    }
    device.note_early();
    release_early(*record, &device);
  }
}

/// Others' messages are left for it: of those of whom nothing is, it hears now. (device's lock)
void Runtime::Impl::tell_of_deaths_while_opening(Endpoint::Impl& endpoint) {
  if (deaths.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  for (const Rank rank : dead_since(0)) {
    if (opening_without(endpoint.number, rank) == &endpoint) tell_of_death(endpoint, rank);
  }
}

/// `device`: it was delivered there (lock), and what it took of the spares it replaces.
void Runtime::Impl::release_early(Unexpected& record, Device* device) {
  early_lock.lock();
  Unexpected** at = &early;
  while (*at != &record) at = &(*at)->next;
  *at = record.next;
  if (early_end == &record.next) early_end = at;
  early_lock.unlock();
  if (device != nullptr) {
    device->release_kept(record.kept);
    device->release_unexpected(record);
  } else {
    kept->release(record.kept);
    unexpected->release(record);
  }
}

/// What came before `endpoint` was made, which has ended before it was delivered.
void Runtime::Impl::drop_early(const Endpoint::Impl& endpoint) {
  for (auto& device : devices) {
    for (;;) {
      early_lock.lock();
      bool others = false;
      Unexpected* const record = next_early(endpoint, *device, others);
      early_lock.unlock();
      if (record == nullptr) break;
      fabric::OpenLoan open;
      const fabric::Frame frame = early_frame(*record, open);
      Taken taken = Taken::hold;
      device->with_lock([&] {
        taken = device->refuse(frame, Errc::cancelled);
        if (taken == Taken::yes) device->give_back(frame);
      });
      if (device->busy()) device->wake_sleeper();  // an answer that found no room
      if (taken == Taken::yes) {
        release_early(*record);
      } else {
        self.relax();
      }
    }
  }
}

void Runtime::Impl::deliver_early(Device& device) {
  // The last first: who opens leaves the list, and nobody before it moves.
  for (std::size_t left = openings.load(std::memory_order_relaxed); left-- > 0;) {
    early_lock.lock();
    Endpoint::Impl* endpoint = left < opening.size() ? opening[left] : nullptr;
    early_lock.unlock();
    if (endpoint != nullptr) deliver_early(*endpoint, device);
  }
}

void Runtime::Impl::publish(Endpoint::Impl& endpoint) {
  early_lock.lock();
  const uint32_t number = endpoints_made.load(std::memory_order_relaxed);
  if (number == kMaxEndpoints) {
    early_lock.unlock();
    throw Error(Errc::no_memory,
                fmt::format("too many endpoints were made: at most {} a runtime", kMaxEndpoints));
  }
  try {
    opening.push_back(&endpoint);
  } catch (...) {
    early_lock.unlock();
    throw;
  }
  endpoint.number = static_cast<uint16_t>(number);
  endpoint.find_short_way();  // before anybody else can meet the endpoint
  openings.fetch_add(1, std::memory_order_relaxed);
  endpoints_made.store(number + 1, std::memory_order_seq_cst);  // see peer_down
  early_lock.unlock();
  try {
    for (auto& device : devices) {
      device->with_lock([&] { deliver_early(endpoint, *device); });
      if (device->busy()) device->wake_sleeper();  // what found no room
    }
  } catch (...) {  // nobody shall find it: its maker takes it away
    retire(endpoint);
    throw;
  }
  endpoints_open.fetch_add(1, std::memory_order_relaxed);  // see is_quiet
}

void Runtime::Impl::unpublish(Endpoint::Impl& endpoint) {
  early_lock.lock();
  if (std::erase(opening, &endpoint) != 0) openings.fetch_sub(1, std::memory_order_relaxed);
  endpoints[endpoint.number].store(nullptr, std::memory_order_release);
  early_lock.unlock();
  // Whoever was delivering to it holds a device's lock: wait until each was free once.
  for (auto& device : devices) {
    device->with_lock([&] { device->forget(endpoint.queue_waiters); });
  }
  turns.left.forget(endpoint.left);
  drop_early(endpoint);
  drop_unreceived(endpoint);
}

void Runtime::Impl::retire(Endpoint::Impl& endpoint) {
  unpublish(endpoint);
  // What was coming in when nothing more could: told in its turn.
  endpoint.ending.store(true, std::memory_order_relaxed);
  // acquire: pairs with end_inbound's release.
  while (endpoint.inbound.load(std::memory_order_acquire) != 0) self.relax();
}

}  // namespace weft
