// Blocks in an attached buffer: found, filled, sent, given back.
#include "mpi/requests/send_buffer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <span>

#include "mpi/messages.hpp"
#include "mpi/process/caller.hpp"

namespace weft::mpi {

/// The record of one message, in its block's overhead.
struct SendBuffer::Block final : public Waiter {
  void on_end(Transfer& ended) noexcept override {
    (void)ended;
    owner->release(*this);
  }
  [[nodiscard]] std::byte* data() const noexcept { return begin + MPI_BSEND_OVERHEAD; }
  [[nodiscard]] std::byte* end() const noexcept { return data() + bytes; }

  Transfer transfer;
  SendBuffer* owner = nullptr;
  Block* previous = nullptr;
  Block* next = nullptr;
  std::byte* begin = nullptr;  ///< of the block; this record begins aligned, a little after
  int64_t bytes = 0;           ///< of data
  uint64_t stamp = 0;
  const Comm* comm = nullptr;  ///< not held: MPI_Comm_free looks for it here (is_in_buffers)
};

SendBuffer::Block* SendBuffer::place(std::byte* begin, int64_t bytes, Block* before) noexcept {
  static_assert(sizeof(Block) + alignof(Block) <= MPI_BSEND_OVERHEAD);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t aligned = (address + alignof(Block) - 1) & ~(alignof(Block) - 1);
  auto* block = new (begin + (aligned - address)) Block;
  block->owner = this;
  block->begin = begin;
  block->bytes = bytes;
  block->stamp = stamp_++;
  block->previous = before;
  block->next = before == nullptr ? first_ : before->next;
  (before == nullptr ? first_ : before->next) = block;
  if (block->next != nullptr) block->next->previous = block;
  newest_ = block;
  ++blocks_;
  return block;
}

SendBuffer::Block* SendBuffer::find_gap(int64_t bytes) noexcept {
  const int64_t needed = bytes + MPI_BSEND_OVERHEAD;
  // The gap after `before` (nullptr: at the front).
  const auto fits = [&](const Block* before) {
    std::byte* begin = before == nullptr ? memory_ : before->end();
    const Block* after = before == nullptr ? first_ : before->next;
    return (after == nullptr ? memory_ + bytes_ : after->begin) - begin >= needed;
  };
  const auto take = [&](Block* before) {
    return place(before == nullptr ? memory_ : before->end(), bytes, before);
  };
  for (Block* before = newest_; before != nullptr; before = before->next) {
    if (fits(before)) return take(before);
  }
  if (fits(nullptr)) return take(nullptr);
  for (Block* before = first_; before != nullptr && before != newest_; before = before->next) {
    if (fits(before)) return take(before);
  }
  return nullptr;
}

int64_t SendBuffer::largest_gap() const noexcept {
  int64_t largest = 0;
  const std::byte* begin = memory_;
  for (const Block* block = first_; block != nullptr; block = block->next) {
    largest = std::max<int64_t>(largest, block->begin - begin);
    begin = block->end();
  }
  return std::max<int64_t>(largest, memory_ + bytes_ - begin);
}

void SendBuffer::refuse(int64_t bytes) {
  int64_t available;
  uint64_t waiting;
  {
    const std::scoped_lock guard(lock_);
    available = largest_gap();
    waiting = blocks_;
  }
  fail(MPI_ERR_BUFFER,
       fmt::format("a buffered send needs {} bytes (of them {} MPI_BSEND_OVERHEAD); the attached "
                   "buffer has {}, of which {} in a row are free: {} messages wait in it",
                   bytes + MPI_BSEND_OVERHEAD, int{MPI_BSEND_OVERHEAD}, int64_t{bytes_}, available,
                   waiting));
}

SendBuffer::Block* SendBuffer::allocate(int64_t bytes, Comm& comm) {
  if (automatic_) {
    auto* memory =
        static_cast<std::byte*>(std::malloc(static_cast<std::size_t>(bytes) + MPI_BSEND_OVERHEAD));
    if (memory == nullptr) throw std::bad_alloc();
    const std::scoped_lock guard(lock_);
    Block* block = place(memory, bytes, nullptr);
    block->comm = &comm;
    return block;
  }
  // What has gone makes room when its end is seen.
  for (int look = 0; look < 3; ++look) {
    if (look != 0) progress();
    const std::scoped_lock guard(lock_);
    if (Block* block = find_gap(bytes); block != nullptr) {
      block->comm = &comm;
      return block;
    }
  }
  refuse(bytes);
}

void SendBuffer::release(Block& block) noexcept {
  std::byte* memory = automatic_ ? block.begin : nullptr;
  Flush* ended = nullptr;
  {
    const std::scoped_lock guard(lock_);
    (block.previous == nullptr ? first_ : block.previous->next) = block.next;
    if (block.next != nullptr) block.next->previous = block.previous;
    if (newest_ == &block) newest_ = block.previous;
    --blocks_;
    for (Flush** link = &flushes_; *link != nullptr;) {
      Flush* flush = *link;
      if (block.stamp < flush->before && --flush->left == 0) {
        *link = flush->next;
        flush->next = ended;
        ended = flush;
      } else {
        link = &flush->next;
      }
    }
    block.~Block();
  }
  std::free(memory);
  while (ended != nullptr) {
    Transfer* done = ended->done;
    ended = ended->next;  // the flush goes with its end
    done->end();
  }
}

void SendBuffer::send(Comm& comm, const Piece& piece, int to, int tag) {
  const int64_t bytes = piece.count * piece.type.size();
  Block* block = allocate(bytes, comm);
  try {
    if (bytes != 0) {
      piece.type.pack(piece.buffer, piece.count, 0,
                      std::span(block->data(), static_cast<std::size_t>(bytes)));
    }
    start_send(block->transfer, comm, Plane::program, to, tag, block->data(), bytes,
               datatype(MPI_PACKED));
  } catch (...) {
    release(*block);
    throw;
  }
  if (!block->transfer.set_waiter(*block)) {
    const int error = block->transfer.outcome.error;
    release(*block);
    if (error != MPI_SUCCESS) fail(error, "a buffered send could not begin");
  }
}

std::string SendBuffer::described() const {
  return (automatic_ ? std::string("automatic") : fmt::format("{} bytes", int64_t{bytes_})) +
         made_at(made_at_);
}

bool SendBuffer::empty() const noexcept {
  const std::scoped_lock guard(lock_);
  return blocks_ == 0;
}

bool SendBuffer::uses(const Comm& comm) const noexcept {
  const std::scoped_lock guard(lock_);
  for (const Block* block = first_; block != nullptr; block = block->next) {
    if (block->comm == &comm) return true;
  }
  return false;
}

void SendBuffer::flush(Flush& flush, Transfer& done) noexcept {
  const std::scoped_lock guard(lock_);
  if (blocks_ == 0) return;
  // relaxed: release() sees it by way of the lock.
  done.state.store(Transfer::kPending, std::memory_order_relaxed);
  flush = {.done = &done, .before = stamp_, .left = blocks_, .next = flushes_};
  flushes_ = &flush;
}

}  // namespace weft::mpi
