// Buffered sends: the memory that programs attach, and the messages that wait in it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mpi/comm.hpp"
#include "mpi/handle.hpp"
#include "mpi/request.hpp"
#include "mpi/requests/arguments.hpp"
#include "mpi/transfer.hpp"
#include "weft/base/locks.hpp"

namespace weft::mpi {

/// An attached buffer, or automatic buffering (MPI_BUFFER_AUTOMATIC: memory as it is needed).
///
/// Owner and lifetime: whoever attached it and who is sending or flushing. Blocks belong to it
/// until their send has ended; it must be flushed before it ends. Who may call: any thread.
/// Progress: the lock is held for a walk over the blocks at most; sends' ends take it too.
/// Layout: each message takes a block of MPI_BSEND_OVERHEAD bytes (in which its record lies,
/// aligned) and its packed size; blocks are linked in the order of their addresses, gaps are what
/// lies between. First fit, from the newest block on, then from the front.
/// Invariants:
///  1. a block is linked from before its send begins until that has ended;
///  2. whoever unlinks a block touches the buffer no more once it has let the lock go, so that
///     flush may be followed by the buffer's end.
class SendBuffer {
 public:
  /// `memory` may be MPI_BUFFER_AUTOMATIC.
  SendBuffer(void* memory, MPI_Count bytes) noexcept
      : memory_(static_cast<std::byte*>(memory)),
        bytes_(bytes),
        automatic_(memory == MPI_BUFFER_AUTOMATIC),
        made_at_(program_call()) {}
  ~SendBuffer() = default;
  SendBuffer(const SendBuffer&) = delete;
  SendBuffer& operator=(const SendBuffer&) = delete;

  [[nodiscard]] void* memory() const noexcept { return memory_; }
  [[nodiscard]] MPI_Count bytes() const noexcept { return automatic_ ? 0 : bytes_; }
  /// "64 bytes", or that it is automatic, and where it was attached.
  [[nodiscard]] std::string described() const;

  /// Copies the message, begins to send the copy. Throws MPI_ERR_BUFFER if there is no room.
  void send(Comm& comm, const Piece& piece, int to, int tag);

  /// Somebody who waits for the messages that were there when he came.
  struct Flush {
    Transfer* done;
    uint64_t before;  ///< blocks with a lower stamp
    uint64_t left;
    Flush* next;
  };
  /// Ends `done` when all messages that are there now have gone: it is pending on return, or has
  /// ended. `flush` is the caller's to keep until then.
  void flush(Flush& flush, Transfer& done) noexcept;
  [[nodiscard]] bool empty() const noexcept;
  /// Whether a message in it is of this communicator.
  [[nodiscard]] bool uses(const Comm& comm) const noexcept;

 private:
  struct Block;
  Block* allocate(int64_t bytes, Comm& comm);
  Block* find_gap(int64_t bytes) noexcept;
  Block* place(std::byte* begin, int64_t bytes, Block* before) noexcept;
  void release(Block& block) noexcept;
  [[noreturn]] void refuse(int64_t bytes);
  [[nodiscard]] int64_t largest_gap() const noexcept;

  std::byte* const memory_;
  const MPI_Count bytes_;
  const bool automatic_;
  const void* const made_at_;  ///< see program_call

  mutable base::SpinLock lock_;  ///< of what follows
  Block* first_ = nullptr;
  Block* newest_ = nullptr;
  uint64_t stamp_ = 0;
  uint64_t blocks_ = 0;
  Flush* flushes_ = nullptr;
};

/// Sends by way of the buffer of the communicator, its session, or the process. Throws
/// MPI_ERR_BUFFER if there is none, or no room.
void send_buffered(Comm& comm, const Piece& piece, int to, int tag);

/// Whether a message in any buffer is of this communicator.
bool is_in_buffers(const Comm& comm);
/// The communicator ends: waits for what is in its buffer, and lets that go.
void detach_buffer_of(Comm& comm);
void detach_buffer_of(MPI_Session session);
/// The same for all there are, at the end; with mpi.report_leaks, tells of them.
void detach_all_buffers();

}  // namespace weft::mpi
