// Waiting for the transfers of a step, and what becomes of them when one fails.
#include "mpi/collectives/posts.hpp"

#include <span>
#include <string>

#include "mpi/failure.hpp"
#include "mpi/process.hpp"

namespace weft::mpi {

bool Posts::ended() const noexcept {
  for (uint32_t i = 0; i < receives_; ++i) {
    if (!slots_[i].ended()) return false;
  }
  for (uint32_t i = 0; i < sends_; ++i) {
    if (!slots_[slots_count_ - 1 - i].ended()) return false;
  }
  return true;
}

void Posts::wait() noexcept {
  constexpr uint32_t kFew = 4;  // one after the other: most have ended when their turn comes
  constexpr uint32_t kAtOnce = 32;
  if (count() > kFew) {
    Transfer* waiting[kAtOnce];
    uint32_t used = 0;
    for_each([&](Transfer& transfer) {
      if (transfer.ended()) return;
      waiting[used++] = &transfer;
      if (used == kAtOnce) {
        wait_all({waiting, used});
        used = 0;
      }
    });
    if (used != 0) wait_all({waiting, used});
    return;
  }
  for_each([](Transfer& transfer) { mpi::wait(transfer); });
}

void Posts::give_up() noexcept {
  for (uint32_t i = 0; i < receives_; ++i) (void)cancel_recv(slots_[i]);
  wait();
}

void Posts::finish(Trouble& trouble) noexcept {
  for (uint32_t i = 0; i < receives_; ++i) {
    const Transfer& transfer = slots_[i];
    if (is_poison(transfer)) [[unlikely]] {
      note(transfer, MPI_ERR_PROC_ABORTED, trouble);
    } else if (transfer.outcome.error != MPI_SUCCESS) [[unlikely]] {
      note(transfer, transfer.outcome.error, trouble);
    }
  }
  for (uint32_t i = 0; i < sends_; ++i) {
    const Transfer& transfer = slots_[slots_count_ - 1 - i];
    if (transfer.outcome.error != MPI_SUCCESS) [[unlikely]]
      note(transfer, transfer.outcome.error, trouble);
  }
  receives_ = sends_ = 0;
}

void Posts::note(const Transfer& failed, int error, Trouble& trouble) const noexcept {
  trouble.note(error, failed.process);
  // relaxed: see post_send.
  if (error == MPI_ERR_PROC_ABORTED) died_->store(true, std::memory_order_relaxed);
}

void Posts::post_poison(const Team& team, int to, const Block& block) {
  static constexpr std::byte kPoison{};
  start_send(fresh(slots_count_ - 1 - sends_), *team.comm, Plane::collective, team.at(to), team.tag,
             &kPoison, block.bytes() == 0 ? 1 : 0, byte_type());
  ++sends_;
}

void fail_of(const Trouble& trouble) {
  switch (trouble.error) {
    case MPI_ERR_TRUNCATE:
      fail(
          trouble.error,
          "a collective's message is larger than its receiver's room: the ranks gave unlike counts "
          "or types");
    case MPI_ERR_PROC_ABORTED: {
      std::string cause = runtime().cause_of_death(trouble.process);
      if (cause.empty()) {
        cause =
            "another rank knows of it, or it called another collective "
            "(WEFT_MPI_CHECK_COLLECTIVES=1 tells)";
      }
      fail(trouble.error, "a rank of the communicator has died during a collective: " + cause);
    }
    default:
      fail(trouble.error, "a message of a collective failed");
  }
}

}  // namespace weft::mpi
