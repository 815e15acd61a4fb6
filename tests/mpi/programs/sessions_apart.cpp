// Sessions of one rank that the other knows nothing of: sessions_apart WHAT, where the ranks' WHATs
// differ.
//   world        MPI_Init and MPI_Finalize alone
//   before_init  a session that has ended before MPI_Init
//   once, again  sessions alone: one, or several, one after the other
//   static       one that ends with the program's static objects
//   after_once, after_again  such sessions after MPI_Finalize
#include <mpi.h>

#include <cstring>

#include "comms_check.hpp"

namespace {

MPI_Session begin_session() {
  MPI_Session session = MPI_SESSION_NULL;
  WEFT_EXPECT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
  return session;
}

/// Ends after whatever MPI does at the end of the program.
struct StaticSession {
  MPI_Session session = MPI_SESSION_NULL;
  ~StaticSession() {
    if (session == MPI_SESSION_NULL) return;
    // What the machine is made of was read later than this object was made, and is there still.
    MPI_Info hardware;
    int nodes = 0;
    MPI_Get_hw_resource_info(&hardware);
    MPI_Info_get_nkeys(hardware, &nodes);
    if (nodes < 3) std::abort();
    MPI_Info_free(&hardware);
    MPI_Session_finalize(&session);
  }
} static_session;

void use_session() {
  MPI_Session session = begin_session();
  int sets = 0;
  WEFT_EXPECT(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &sets) == MPI_SUCCESS && sets >= 2);
  MPI_Group group;
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  int size = 0;
  MPI_Group_size(group, &size);
  WEFT_EXPECT(size == 2);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
}

void use_world(int* argc, char*** argv) {
  MPI_Init(argc, argv);
  WEFT_EXPECT(check::goes_round(MPI_COMM_WORLD, 1));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}

}  // namespace

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "world";
  const auto is = [what](const char* name) { return std::strcmp(what, name) == 0; };
  if (is("static")) static_session.session = begin_session();
  if (is("before_init")) use_session();
  if (is("before_init") || is("world") || is("after_once") || is("after_again"))
    use_world(&argc, &argv);
  for (int left = is("again") || is("after_again") ? 3
                  : is("once") || is("after_once") ? 1
                                                   : 0;
       left > 0; --left) {
    use_session();
  }
  return check::failures == 0 ? 0 : 1;
}
