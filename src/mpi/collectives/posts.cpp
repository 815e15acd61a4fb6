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
  bool failed = false;
  for_each([&](Transfer& transfer) {
    if (!transfer.ended()) mpi::wait(transfer);
    if (transfer.outcome.error != MPI_SUCCESS && !failed) [[unlikely]] {
      failed = true;
      cancel();
    }
  });
}

void Posts::cancel() noexcept {
  for (uint32_t i = 0; i < receives_; ++i) {
    if (!slots_[i].ended()) (void)cancel_recv(slots_[i]);
  }
}

void Posts::give_up() noexcept {
  cancel();
  wait();
}

void Posts::finish() {
  const Transfer* failed = nullptr;
  for_each([&](const Transfer& transfer) {
    if (transfer.outcome.error != MPI_SUCCESS && failed == nullptr) failed = &transfer;
  });
  receives_ = sends_ = 0;
  if (failed != nullptr) [[unlikely]]
    refuse(*failed);
}

void Posts::refuse(const Transfer& failed) {
  std::string why = "a message of a collective failed";
  if (failed.outcome.error == MPI_ERR_TRUNCATE) {
    why += ": it is larger than its receiver's room: the ranks gave unlike counts or types";
  } else if (failed.process.value >= 0) {
    const std::string cause = runtime().cause_of_death(failed.process);
    if (!cause.empty()) why += ": " + cause;
  }
  fail(failed.outcome.error, std::move(why));
}

}  // namespace weft::mpi
