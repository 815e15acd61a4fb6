// The calls of buffered sends, and which buffer serves them.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/comms/session.hpp"
#include "mpi/messages.hpp"
#include "mpi/process.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/requests/pool.hpp"
#include "mpi/requests/send_buffer.hpp"

namespace weft::mpi {

namespace {

using BufferPtr = std::shared_ptr<SendBuffer>;

/// Who has which buffer.
struct Attached {
  std::mutex lock;
  BufferPtr process;
  std::unordered_map<const Comm*, BufferPtr> comms;
  std::unordered_map<MPI_Session, BufferPtr> sessions;
};
Attached& attached() {
  static Attached& buffers = *new Attached;  // not destroyed: see release at exit, process.cpp
  return buffers;
}

/// The buffer that sends on `comm` use: its own, its session's, the process's (MPI 3.6).
BufferPtr buffer_for(const Comm& comm) {
  Attached& all = attached();
  const std::scoped_lock guard(all.lock);
  if (const auto found = all.comms.find(&comm); found != all.comms.end()) return found->second;
  if (const auto found = all.sessions.find(comm.session); found != all.sessions.end())
    return found->second;
  return all.process;
}

template <class Map>
BufferPtr look_up(Map& buffers, const typename Map::key_type& key) {
  const std::scoped_lock guard(attached().lock);
  const auto found = buffers.find(key);
  return found == buffers.end() ? nullptr : found->second;
}

BufferPtr of_process() {
  Attached& all = attached();
  const std::scoped_lock guard(all.lock);
  return all.process;
}

BufferPtr make_buffer(void* memory, MPI_Count size) {
  // That of automatic buffering says nothing (MPI 3.6).
  require(size >= 0 || memory == MPI_BUFFER_AUTOMATIC, MPI_ERR_ARG, "a buffer of negative size");
  require(memory != nullptr || size == 0, MPI_ERR_BUFFER, "the buffer is a null pointer");
  return std::make_shared<SendBuffer>(memory, size);
}

[[noreturn]] void refuse_second() {
  fail(MPI_ERR_BUFFER, "a buffer is attached already: detach it first");
}

template <class Map>
void attach(Map& buffers, const typename Map::key_type& key, void* memory, MPI_Count size) {
  BufferPtr made = make_buffer(memory, size);
  const std::scoped_lock guard(attached().lock);
  if (!buffers.try_emplace(key, std::move(made)).second) refuse_second();
}

/// Waits for the messages that are in it now.
void flush(const BufferPtr& buffer) {
  if (!buffer) return;
  Transfer done;
  SendBuffer::Flush flush;
  buffer->flush(flush, done);
  if (!done.ended()) wait(done);
}

/// Takes the process's buffer out, or that of a communicator or session, once it is empty: for as
/// long as messages are in it, it can be found (is_in_buffers).
BufferPtr detach_process() {
  for (;;) {
    flush(of_process());
    Attached& all = attached();
    const std::scoped_lock guard(all.lock);
    if (!all.process || all.process->empty()) return std::exchange(all.process, nullptr);
  }
}
template <class Map>
BufferPtr detach(Map& buffers, const typename Map::key_type& key) {
  for (;;) {
    flush(look_up(buffers, key));
    const std::scoped_lock guard(attached().lock);
    const auto found = buffers.find(key);
    if (found == buffers.end()) return nullptr;
    if (!found->second->empty()) continue;
    BufferPtr taken = std::move(found->second);
    buffers.erase(found);
    return taken;
  }
}

/// Whose each is, and what.
std::vector<std::string> all_attached() {
  Attached& all = attached();
  const std::scoped_lock guard(all.lock);
  std::vector<std::string> which;
  if (all.process) which.push_back("the process's, " + all.process->described());
  for (const auto& [session, buffer] : all.sessions)
    which.push_back("a session's, " + buffer->described());
  for (const auto& [comm, buffer] : all.comms) {
    const std::scoped_lock named(const_cast<Comm*>(comm)->lock);
    which.push_back(
        fmt::format("that of {}, {}",
                    comm->name.empty() ? fmt::format("context {}", comm->context) : comm->name,
                    buffer->described()));
  }
  return which;
}

/// Tells the program what it has back.
void tell(const BufferPtr& buffer, void* address, MPI_Count* size) {
  if (address != nullptr) *static_cast<void**>(address) = buffer ? buffer->memory() : nullptr;
  if (size != nullptr) *size = buffer ? buffer->bytes() : 0;
}

/// A flush in the background.
class Flushing final : public RequestWork {
 public:
  explicit Flushing(BufferPtr buffer) noexcept : buffer_(std::move(buffer)) {}
  void begin(Transfer& done) noexcept { buffer_->flush(flush_, done); }

 private:
  const BufferPtr buffer_;
  SendBuffer::Flush flush_{};
};

void iflush(BufferPtr buffer, MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  if (!buffer) {
    *request = request_pool().done();
    return;
  }
  auto work = std::make_unique<Flushing>(std::move(buffer));
  Request& made = make_request();
  made.transfer.outcome = kEmpty;
  Flushing& flushing = *work;
  made.work = work.release();
  flushing.begin(made.transfer);
  *request = handle_of(made);
}

/// Throws MPI_ERR_SESSION for what is none.
MPI_Session checked(MPI_Session handle) {
  (void)session(handle);
  return handle;
}

void buffered_send(const void* buffer, MPI_Count count, MPI_Datatype datatype, int to, int tag,
                   MPI_Comm handle) {
  Comm& comm = mpi::comm(handle);
  const Piece piece{buffer, count, mpi::datatype(datatype)};
  if (!may_send(comm, piece, to, tag)) return;
  send_buffered(comm, piece, to, tag);
}

}  // namespace

void send_buffered(Comm& comm, const Piece& piece, int to, int tag) {
  const BufferPtr buffer = buffer_for(comm);
  if (!buffer) {
    fail(MPI_ERR_BUFFER, "a buffered send, but no buffer is attached (MPI_Buffer_attach)");
  }
  buffer->send(comm, piece, to, tag);
}

bool is_in_buffers(const Comm& comm) {
  Attached& all = attached();
  const std::scoped_lock guard(all.lock);
  const auto uses = [&](const auto& entry) { return entry.second->uses(comm); };
  return (all.process && all.process->uses(comm)) ||
         std::any_of(all.comms.begin(), all.comms.end(), uses) ||
         std::any_of(all.sessions.begin(), all.sessions.end(), uses);
}

void detach_buffer_of(Comm& comm) { (void)detach(attached().comms, &comm); }

void detach_buffer_of(MPI_Session session) { (void)detach(attached().sessions, session); }

void detach_all_buffers() {
  if (settings().report_leaks) tell_left("attached buffers not detached", all_attached());
  (void)detach_process();
  Attached& all = attached();
  while (!all.comms.empty()) (void)detach(all.comms, all.comms.begin()->first);
  while (!all.sessions.empty()) (void)detach(all.sessions, all.sessions.begin()->first);
}

namespace calls {

void Bsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
           MPI_Comm comm) {
  buffered_send(buf, count, datatype, dest, tag, comm);
}

void Ibsend(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
            MPI_Comm comm, MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  buffered_send(buf, count, datatype, dest, tag, comm);
  *request = request_pool().done();
}

void Buffer_attach(void* buffer, MPI_Count size) {
  BufferPtr made = make_buffer(buffer, size);
  Attached& all = attached();
  const std::scoped_lock guard(all.lock);
  if (all.process) refuse_second();
  all.process = std::move(made);
}

void Buffer_detach(void* buffer_addr, MPI_Count* size) {
  tell(detach_process(), buffer_addr, size);
}

void Buffer_flush() { flush(of_process()); }

void Buffer_iflush(MPI_Request* request) { iflush(of_process(), request); }

void Comm_attach_buffer(MPI_Comm comm, void* buffer, MPI_Count size) {
  attach(attached().comms, &mpi::comm(comm), buffer, size);
}

void Comm_detach_buffer(MPI_Comm comm, void* buffer_addr, MPI_Count* size) {
  tell(detach(attached().comms, &mpi::comm(comm)), buffer_addr, size);
}

void Comm_flush_buffer(MPI_Comm comm) { flush(look_up(attached().comms, &mpi::comm(comm))); }

void Comm_iflush_buffer(MPI_Comm comm, MPI_Request* request) {
  iflush(look_up(attached().comms, &mpi::comm(comm)), request);
}

void Session_attach_buffer(MPI_Session session, void* buffer, MPI_Count size) {
  attach(attached().sessions, checked(session), buffer, size);
}

void Session_detach_buffer(MPI_Session session, void* buffer_addr, MPI_Count* size) {
  tell(detach(attached().sessions, checked(session)), buffer_addr, size);
}

void Session_flush_buffer(MPI_Session session) {
  flush(look_up(attached().sessions, checked(session)));
}

void Session_iflush_buffer(MPI_Session session, MPI_Request* request) {
  iflush(look_up(attached().sessions, checked(session)), request);
}

}  // namespace calls

}  // namespace weft::mpi
