// Messages taken from a queue: where their bytes lie, and how they are given back.
#include "weft/comm/message.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

#include "comm/endpoint_impl.hpp"
#include "comm/runtime_impl.hpp"

namespace weft {

namespace {

class HeapAllocator final : public Allocator {
 public:
  std::byte* allocate(std::size_t bytes) noexcept override {
    return static_cast<std::byte*>(std::malloc(bytes == 0 ? 1 : bytes));
  }
  void release(std::byte* memory, std::size_t /*bytes*/) noexcept override { std::free(memory); }
};

}  // namespace

Allocator& heap_allocator() noexcept {
  static HeapAllocator heap;
  return heap;
}

void Message::take(Message& other) noexcept {
  // Plain data throughout; the other one no longer owns anything.
  std::memcpy(static_cast<void*>(this), static_cast<const void*>(&other), sizeof *this);
  other.holds_ = Holds::nothing;
  other.transfer_ = nullptr;
  other.runtime_ = nullptr;
}

void Message::give_back() noexcept {
  // A forked child's copy: the bytes are the parent's, who gives them back.
  if (base::forks_so_far() != runtime_->impl().forks) [[unlikely]] {
    transfer_ = nullptr;
    return;
  }
  switch (holds_) {
    case Holds::packet:
      runtime_->impl().devices[0]->port().give_back(
          {.owner = loan_owner_, .port = loan_port_, .index = packet_index_});
      break;
    case Holds::kept:
      runtime_->impl().kept->release(packet_index_);
      break;
    case Holds::announced:
    case Holds::allocated:
      runtime_->wait(*this);
      transfer_->allocator.release(transfer_->buffer, bytes_);
      delete transfer_;
      break;
    case Holds::inlined:
    case Holds::nothing:
      break;
  }
  transfer_ = nullptr;
}

void Message::announce(const comm::Announced& what) noexcept {
  std::memcpy(inlined_, &what, sizeof what);
}

/// Begins what was announced, if there are memory and records for it now.
void Message::start_transfer() noexcept {
  Runtime::Impl& runtime = runtime_->impl();
  comm::Announced announced;
  std::memcpy(&announced, inlined_, sizeof announced);
  if (transfer_ == nullptr)
    transfer_ = new (std::nothrow) comm::MessageTransfer(*announced.allocator);
  if (transfer_ == nullptr) return;
  if (transfer_->buffer == nullptr) {
    transfer_->buffer = transfer_->allocator.allocate(bytes_);
    if (transfer_->buffer == nullptr) return;
  }
  comm::Operation* op = runtime.operations->allocate_for_fetch();
  if (op == nullptr) return;
  holds_ = Holds::allocated;
  op->buffer = transfer_->buffer;
  op->capacity = bytes_;
  op->completion = &transfer_->done;
  op->context = nullptr;
  op->endpoint = static_cast<uint16_t>(packet_index_);
  Device& device = device_ != nullptr ? *device_ : runtime.this_device();
  comm::begin_transfer(runtime, device, *op, source_, tag_, loan_port_, announced.body);
}

bool Message::transfer_ready() noexcept {
  if (holds_ == Holds::announced) start_transfer();
  return holds_ != Holds::announced && transfer_->done.ready();
}

Errc Message::transfer_error() const noexcept { return transfer_->done.event().error; }

const std::byte* Message::place() const noexcept {
  return holds_ == Holds::allocated ? transfer_->buffer : place_;
}

void Runtime::wait(Message& message) {
  while (!message.ready() && message.holds_ == Message::Holds::announced) relax();
  if (message.holds_ == Message::Holds::allocated) wait(message.transfer_->done);
}

}  // namespace weft
