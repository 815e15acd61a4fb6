// Nonblocking exchanges: one request for a send and a receive.
#include <atomic>
#include <optional>

#include "mpi/abi/calls.hpp"
#include "mpi/messages.hpp"
#include "mpi/requests/packed_copy.hpp"
#include "mpi/requests/posting.hpp"

namespace weft::mpi {

namespace {

/// Ends its request when both transfers have.
///
/// Owner and lifetime: the request's. The last of three to count down (both transfers, and the
/// caller once both are posted) ends the request; it touches nothing afterwards.
class Exchange final : public RequestWork, private Waiter {
 public:
  ~Exchange() override {
    // Only where posting the send threw: otherwise both have ended.
    if (!receive_.ended() && !cancel_recv(receive_)) wait(receive_);
  }
  /// Copies what is to be sent, where it is received into the same buffer.
  Piece copy(const Piece& piece) { return copy_.emplace(piece).piece(); }

  /// The receive first, so that an exchange with oneself meets it.
  void start_receive(Comm& comm, void* buffer, const Piece& piece, int from, int tag) {
    receives_ = true;
    hold(receive_type_, piece.type);
    start_recv(receive_, comm, Plane::program, from, tag, buffer, piece.count, piece.type);
  }
  void start_sending(Comm& comm, const Piece& piece, int to, int tag) {
    hold(send_type_, piece.type);
    start_send(send_, comm, Plane::program, to, tag, piece.buffer, piece.count, piece.type,
               receives_ ? SendMode::exchange : SendMode::standard);
  }
  bool wind_up(bool receives) override {
    finish(send_);
    if (receives && !cancel_recv(receive_)) finish(receive_);
    return true;
  }
  /// Both have been posted, as far as there are any: the request may end.
  void go(Request& request) noexcept {
    request_ = &request;
    // relaxed: others see it by way of set_waiter and count_down.
    request.transfer.state.store(Transfer::kPending, std::memory_order_relaxed);
    if (!receive_.set_waiter(*this)) count_down();
    if (!send_.set_waiter(*this)) count_down();
    count_down();
  }

 private:
  void on_end(Transfer& transfer) noexcept override {
    (void)transfer;
    count_down();
  }
  void count_down() noexcept {
    // acq_rel: the last one sees what the others' transfers came to.
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Transfer& both = request_->transfer;
    both.outcome = receives_ ? receive_.outcome : kNoProcess;
    both.process = receive_.process;
    if (both.outcome.error == MPI_SUCCESS && send_.outcome.error != MPI_SUCCESS) {
      both.outcome.error = send_.outcome.error;
      both.process = send_.process;
    }
    both.end();
  }
  /// Returns when one of both has ended.
  void finish(Transfer& one) {
    if (!one.withdraw_waiter(*this)) return;  // it has, or just does
    wait(one);
    count_down();
  }
  static void hold(Held<Datatype>& held, const Datatype& type) {
    if (!type.predefined()) held = Held<Datatype>(const_cast<Datatype*>(&type));
  }

  Request* request_ = nullptr;
  Transfer send_;
  Transfer receive_;
  bool receives_ = false;
  std::atomic<int> left_{3};
  Held<Datatype> send_type_;
  Held<Datatype> receive_type_;
  std::optional<PackedCopy> copy_;
};

/// A request with an exchange that is retired again if posting throws.
class NewExchange {
 public:
  explicit NewExchange(Comm& comm) : request_(make_request()) {
    // relaxed: see keep().
    request_.borrowed.store(&comm, std::memory_order_relaxed);
    request_.work = exchange_ = new Exchange;
  }
  ~NewExchange() {
    if (!went_) retire(request_);
  }
  NewExchange(const NewExchange&) = delete;
  NewExchange& operator=(const NewExchange&) = delete;
  Exchange* operator->() noexcept { return exchange_; }
  MPI_Request go() noexcept {
    went_ = true;
    const MPI_Request handle = handle_of(request_);
    exchange_->go(request_);
    return handle;
  }

 private:
  Request& request_;
  Exchange* exchange_ = nullptr;
  bool went_ = false;
};

}  // namespace

namespace calls {

void Isendrecv(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
               int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,
               int recvtag, MPI_Comm comm, MPI_Request* request) {
  Comm& on = mpi::comm(comm);
  const Piece out{sendbuf, sendcount, mpi::datatype(sendtype)};
  const Piece in{recvbuf, recvcount, mpi::datatype(recvtype)};
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  const bool sends = may_send(on, out, dest, sendtag);
  const bool receives = may_recv(on, in, source, recvtag);
  NewExchange exchange(on);
  if (receives) exchange->start_receive(on, recvbuf, in, source, recvtag);
  if (sends) exchange->start_sending(on, out, dest, sendtag);
  *request = exchange.go();
}

void Isendrecv_replace(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                       int source, int recvtag, MPI_Comm comm, MPI_Request* request) {
  Comm& on = mpi::comm(comm);
  const Piece piece{buf, count, mpi::datatype(datatype)};
  require(request != nullptr, MPI_ERR_ARG, "no place for the request");
  const bool sends = may_send(on, piece, dest, sendtag);
  const bool receives = may_recv(on, piece, source, recvtag);
  NewExchange exchange(on);
  const Piece out = sends ? exchange->copy(piece) : piece;
  if (receives) exchange->start_receive(on, buf, piece, source, recvtag);
  if (sends) exchange->start_sending(on, out, dest, sendtag);
  *request = exchange.go();
}

}  // namespace calls

}  // namespace weft::mpi
