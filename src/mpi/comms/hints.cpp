// Info keys of communicators.
#include "mpi/comms/hints.hpp"

#include <array>
#include <atomic>

#include "mpi/abi/calls.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/matching/channel.hpp"
#include "mpi/messages.hpp"

namespace weft::mpi {

namespace {

struct Assertion {
  const char* key;
  std::atomic<bool> Hints::*hint;
};
constexpr std::array<Assertion, 4> kAssertions{{
    {"mpi_assert_no_any_tag", &Hints::no_any_tag},
    {"mpi_assert_no_any_source", &Hints::no_any_source},
    {"mpi_assert_exact_length", &Hints::exact_length},
    {"mpi_assert_allow_overtaking", &Hints::allow_overtaking},
}};

/// A change may come too late to be made: who may overtake is settled as the channels
/// open.
bool is_settled(const Comm& comm, const Assertion& assertion) {
  return comm.channels[0] != nullptr && assertion.hint == &Hints::allow_overtaking;
}

/// What matching relies on cannot be taken back: messages that wait have lost their order among
/// unlike keys. MPI lets such a change be ignored, and MPI_Comm_get_info shows it.
bool is_relied_on(const Comm& comm, const Assertion& assertion) {
  const Channel* const channel = comm.channels[0];
  return channel != nullptr && channel->relies_on_exact_keys() &&
         (assertion.hint == &Hints::no_any_tag || assertion.hint == &Hints::no_any_source);
}

}  // namespace

void take_hints(Comm& comm, const Info* info) {
  if (info == nullptr) return;
  bool changed = false;
  {
    const std::scoped_lock guard(comm.lock);
    for (const Assertion& assertion : kAssertions) {
      const auto value = info->get(assertion.key);
      if (value != "true" && value != "false") continue;
      const bool promised = value == "true";
      if (is_settled(comm, assertion) || (!promised && is_relied_on(comm, assertion))) continue;
      changed = (comm.hints.*assertion.hint).exchange(promised) != promised || changed;
    }
  }
  if (changed && comm.channels[0] != nullptr) hints_changed(comm);
}

Held<Info> hints_in_use(Comm& comm) {
  auto made = Held<Info>::adopt(new Info);
  made->set(kMemoryKindsKey, kMemoryKinds);
  const std::scoped_lock guard(comm.lock);
  for (const Assertion& assertion : kAssertions) {
    made->set(assertion.key, comm.hints.*assertion.hint ? "true" : "false");
  }
  if (comm.info) {
    for (const auto& [key, value] : comm.info->all()) made->set(key, value);
  }
  return made;
}

void note_hardware(Info* info, const char* kind) {
  if (info != nullptr) info->set(kHardwareKey, kind);
}

void note_hardware(Comm& comm, const char* kind) {
  auto made = Held<Info>::adopt(new Info);
  made->set(kHardwareKey, kind);
  const std::scoped_lock guard(comm.lock);
  comm.info = std::move(made);
}

namespace calls {

void Comm_set_info(MPI_Comm comm, MPI_Info info) {
  Comm& object = mpi::comm(comm);
  take_hints(object, info_or_null(info));
}

void Comm_get_info(MPI_Comm comm, MPI_Info* info_used) {
  Comm& object = mpi::comm(comm);
  require_output(info_used);
  Held<Info> used = hints_in_use(object);
  *info_used = infos().add(used.get());
  (void)used.release();
}

}  // namespace calls
}  // namespace weft::mpi
