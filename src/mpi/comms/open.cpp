// The communicators that are there from the start, and what is left of others at the end.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "mpi/collectives/node_board.hpp"
#include "mpi/comms/carrier.hpp"
#include "mpi/comms/keyvals.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/comms/session.hpp"
#include "mpi/messages.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"

namespace weft::mpi {

namespace {

/// Set and reset while nobody else calls MPI.
struct Predefined {
  Held<Group> empty;
  Held<Comm> world;
  Held<Comm> self;
  Held<Comm> carrier;
};

Predefined& predefined() {
  static Predefined& one = *new Predefined;  // not destroyed: see release at exit, process.cpp
  return one;
}

Held<Comm> make_fixed(Held<Group> group, uint16_t context, MPI_Comm handle, const char* name) {
  Held<Comm> made = draft(std::move(group), nullptr);
  made->context = context;
  made->handle = handle;
  made->name = name;
  open_channels(*made);
  name_channels(*made);
  if (handle != MPI_COMM_NULL) comms().define(handle, made.get());
  return made;
}

/// Ends the handles that the program left, and says which.
template <class T, class Handle, class Describe>
void end_leaked(HandleTable<T, Handle>& table, const char* what, Describe describe) {
  std::vector<Handle> handles;
  std::vector<std::string> names;
  table.for_each([&](Handle handle, T* object, const void* call) {
    handles.push_back(handle);
    names.push_back(describe(*object) + made_at(call));
  });
  tell_leaks(what, names);
  for (const Handle handle : handles) table.remove(handle)->drop();
}

std::string describe_comm(const Comm& comm) {
  const std::string name = comm.name.empty() ? "no name" : '"' + comm.name + '"';
  return fmt::format("{} ({} processes, context {})", name, comm.size(), comm.context);
}

}  // namespace

Comm& carrier() noexcept { return *predefined().carrier; }

void open_comms() {
  context_ids().reset();
  (void)sessions();  // its table must outlast whatever is registered to run at exit
  Predefined& fixed = predefined();
  fixed.empty = Group::run(0, 0);
  groups().define(MPI_GROUP_EMPTY, fixed.empty.get());
  fixed.world = make_fixed(Group::run(0, runtime().size()), ContextIds::kWorld, MPI_COMM_WORLD,
                           "MPI_COMM_WORLD");
  fixed.self = make_fixed(Group::run(runtime().rank().value, 1), ContextIds::kSelf, MPI_COMM_SELF,
                          "MPI_COMM_SELF");
  fixed.carrier =
      make_fixed(Group::run(0, runtime().size()), ContextIds::kCarrier, MPI_COMM_NULL, "");
}

void close_comms() {
  Predefined& fixed = predefined();
  fixed.self->attributes.end_all(AttributeOf::comm, MPI_COMM_SELF);
  end_leaked(comms(), "communicators", describe_comm);
  end_leaked(groups(), "groups",
             [](const Group& group) { return fmt::format("{} processes", group.size()); });
  end_leaked(sessions(), "sessions", [](const Session&) { return std::string("a session"); });
  tell_leaks("key values", forget_keyvals());
  comms().define(MPI_COMM_WORLD, nullptr);
  comms().define(MPI_COMM_SELF, nullptr);
  groups().define(MPI_GROUP_EMPTY, nullptr);
  fixed = {};
  forget_boards();
}

}  // namespace weft::mpi
