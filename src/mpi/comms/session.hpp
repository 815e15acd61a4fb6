// Sessions: what MPI_Session names.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "mpi/abi/mpi.h"
#include "mpi/errhandler.hpp"
#include "mpi/group.hpp"
#include "mpi/handle.hpp"

namespace weft::mpi {

/// One MPI_Session_init; counted by the process (process_life.hpp) for as long as it lasts.
class Session final : public Counted {
 public:
  MPI_Session handle = MPI_SESSION_NULL;
  int thread_level = MPI_THREAD_MULTIPLE;  ///< as provided
  std::mutex lock;                         ///< of what follows
  Held<Errhandler> errhandler;             ///< never empty
};

HandleTable<Session, MPI_Session>& sessions() noexcept;
/// The object of a handle; throws MPI_ERR_SESSION.
Session& session(MPI_Session handle);

/// The processes of a set that every session has (mpi://WORLD …); throws MPI_ERR_ARG for others.
[[nodiscard]] Held<Group> process_set(std::string_view name);

}  // namespace weft::mpi
