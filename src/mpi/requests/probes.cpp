// Probes, and receives of probed messages.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/messages/under_way.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/requests/arguments.hpp"
#include "mpi/requests/ends.hpp"
#include "mpi/requests/matched.hpp"
#include "mpi/requests/posting.hpp"

namespace weft::mpi {

namespace {

/// Two looks, with progress in between.
bool look_for(Comm& comm, int from, int tag, Outcome& found) {
  if (probe(comm, from, tag, found)) return true;
  progress_for_asker();
  return probe(comm, from, tag, found) || is_there_after_death(comm, from, tag, found);
}

Extracted* take_out(Comm& comm, int from, int tag, Outcome& found) {
  Extracted* message = extract(comm, from, tag, found);
  if (message == nullptr) {
    progress_for_asker();
    message = extract(comm, from, tag, found);
    if (message == nullptr && is_there_after_death(comm, from, tag, found))
      message = extract(comm, from, tag, found);
  }
  return message;
}

/// Gives a message its handle.
MPI_Message name(Extracted& message, Comm& comm) {
  auto matched = std::make_unique<MatchedMessage>();
  matched->message = &message;
  matched->comm = Held<Comm>(&comm);
  const MPI_Message handle = matched_messages().add(matched.get());
  (void)matched.release();
  return handle;
}

/// What a receive of a probed message is given.
struct ReceiveBuffer {
  void* buffer;
  MPI_Count count;
  MPI_Datatype type;
};

/// The message behind a handle; MPI_MESSAGE_NO_PROC: nullptr. Throws for wrong arguments, with the
/// communicator that the message came on; then the message can still be received.
MatchedMessage* checked(const MPI_Message* handle, const ReceiveBuffer& place) {
  require(handle != nullptr, MPI_ERR_ARG, "no message: a null pointer");
  MatchedMessage* matched =
      *handle == MPI_MESSAGE_NO_PROC ? nullptr : matched_messages().find(*handle);
  if (matched == nullptr && *handle != MPI_MESSAGE_NO_PROC)
    fail(MPI_ERR_REQUEST, "not a message: null, received already, or never probed");
  try {
    const Datatype& type = mpi::datatype(place.type);
    require_count(place.count, type);
    require(!lacks_buffer({place.buffer, place.count, type}), MPI_ERR_BUFFER,
            "the buffer is a null pointer");
  } catch (Failure& failure) {
    if (matched != nullptr) failure.about(matched->comm.get());
    throw;
  }
  return matched;
}

/// Ends the handle: its message is about to be received.
std::unique_ptr<MatchedMessage> claim(MPI_Message* handle) {
  std::unique_ptr<MatchedMessage> matched(
      matched_messages().remove(std::exchange(*handle, MPI_MESSAGE_NULL)));
  if (!matched) fail(MPI_ERR_REQUEST, "another thread receives this message");
  return matched;
}

}  // namespace

HandleTable<MatchedMessage, MPI_Message>& matched_messages() noexcept {
  static auto& table = never_destroyed<HandleTable<MatchedMessage, MPI_Message>>();
  return table;
}

void end_leaked_messages() {
  std::vector<MPI_Message> handles;
  std::vector<std::string> which;
  matched_messages().for_each(
      [&](MPI_Message handle, const MatchedMessage* leaked, const void* call) {
        handles.push_back(handle);
        which.push_back(fmt::format("context {}{}", leaked->comm->context, made_at(call)));
      });
  tell_leaks("messages that were probed and never received,", which);
  for (const MPI_Message handle : handles) {
    const std::unique_ptr<MatchedMessage> leaked(matched_messages().remove(handle));
    if (leaked) discard(*leaked->message);
  }
}

namespace calls {

void Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  require(flag != nullptr, MPI_ERR_ARG, "no place for the flag");
  Outcome found = kNoProcess;
  *flag = 0;
  if (may_match(on, source, tag) && !look_for(on, source, tag, found)) return;
  *flag = 1;
  fill(status, found);
}

void Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  Outcome found = kNoProcess;
  if (may_match(on, source, tag)) {
    const UnderWay call(on);
    while (!look_for(on, source, tag, found)) wait_for_arrival(on, source, tag, found);
  }
  fill(status, found);
}

void Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
             MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  require(flag != nullptr && message != nullptr, MPI_ERR_ARG,
          "no place for the flag or the message");
  Outcome found = kNoProcess;
  *flag = 0;
  *message = MPI_MESSAGE_NO_PROC;
  if (may_match(on, source, tag)) {
    *message = MPI_MESSAGE_NULL;
    Extracted* taken = take_out(on, source, tag, found);
    if (taken == nullptr) return;
    *message = name(*taken, on);
  }
  *flag = 1;
  fill(status, found);
}

void Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  Comm& on = mpi::comm(comm);
  require(message != nullptr, MPI_ERR_ARG, "no place for the message");
  Outcome found = kNoProcess;
  *message = MPI_MESSAGE_NO_PROC;
  if (may_match(on, source, tag)) {
    const UnderWay call(on);
    *message = MPI_MESSAGE_NULL;
    Extracted* taken = take_out(on, source, tag, found);
    for (; taken == nullptr; taken = take_out(on, source, tag, found))
      wait_for_arrival(on, source, tag, found);
    *message = name(*taken, on);
  }
  fill(status, found);
}

void Mrecv(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
           MPI_Status* status) {
  if (checked(message, {buf, count, datatype}) == nullptr) {
    *message = MPI_MESSAGE_NULL;
    fill(status, kNoProcess);
    return;
  }
  const auto matched = claim(message);
  const Datatype& type = mpi::datatype(datatype);
  const Held<Datatype> kept = held(type);
  Transfer transfer;
  start_recv_extracted(transfer, *matched->message, buf, count, type);
  wait(transfer);
  report(transfer, *matched->comm, status);
}

void Imrecv(void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
            MPI_Request* request) {
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  if (checked(message, {buf, count, datatype}) == nullptr) {
    *message = MPI_MESSAGE_NULL;
    *request = request_pool().done_with_no_process();
    return;
  }
  const Datatype& type = mpi::datatype(datatype);
  Request& receive = make_request();  // before the message is claimed: there may be too many
  receive.receives = true;
  if (!type.predefined()) receive.type = Held<Datatype>(const_cast<Datatype*>(&type));
  try {
    const auto matched = claim(message);
    receive.comm = std::move(matched->comm);
    receive.borrowed.store(receive.comm.get(), std::memory_order_relaxed);  // see is_pending
    start_recv_extracted(receive.transfer, *matched->message, buf, count, type);
  } catch (...) {
    retire(receive);
    throw;
  }
  *request = handle_of(receive);
}

}  // namespace calls

}  // namespace weft::mpi
