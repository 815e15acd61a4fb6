// MPI_Session_*: sessions and their process sets.
#include "mpi/comms/session.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string>
#include <utility>

#include "mpi/abi/calls.hpp"
#include "mpi/comms/group_sets.hpp"
#include "mpi/comms/hints.hpp"
#include "mpi/comms/new_comm.hpp"
#include "mpi/info.hpp"
#include "mpi/process.hpp"
#include "mpi/process/process_life.hpp"
#include "mpi/requests/send_buffer.hpp"
#include "weft/fabric/job.hpp"

namespace weft::mpi {

namespace {

constexpr std::array<const char*, 3> kProcessSets{"mpi://WORLD", "mpi://SELF", "mpi://NODE"};

struct Level {
  const char* name;
  int level;
};
constexpr std::array<Level, 4> kLevels{{{"MPI_THREAD_SINGLE", MPI_THREAD_SINGLE},
                                        {"MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED},
                                        {"MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED},
                                        {"MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE}}};

int level_asked(const Info* info) {
  const auto asked = info == nullptr ? std::nullopt : info->get("thread_level");
  if (!asked) return MPI_THREAD_MULTIPLE;
  for (const Level& level : kLevels) {
    if (*asked == level.name) return level.level;
  }
  fail(MPI_ERR_INFO_VALUE, "thread_level is none of MPI's: " + *asked);
}

bool equal_but_for_case(std::string_view one, std::string_view other) {
  return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  });
}

Held<Group> node_group() {
  const fabric::Job& job = runtime().job();
  const int node = job.node_of(runtime().rank());
  std::vector<int32_t> members;
  for (int i = 0; i < job.size(); ++i) {
    if (job.node_of(Rank{i}) == node) members.push_back(i);
  }
  return Group::of(std::move(members));
}

MPI_Info handle_for(Held<Info> info) {
  const MPI_Info handle = infos().add(info.get());
  (void)info.release();
  return handle;
}

Held<Session> new_session(Errhandler& errhandler, int level) {
  auto made = Held<Session>::adopt(new Session);
  made->errhandler = Held<Errhandler>(&errhandler);
  made->thread_level = level;
  return made;
}

}  // namespace

HandleTable<Session, MPI_Session>& sessions() noexcept {
  static HandleTable<Session, MPI_Session>& table =
      never_destroyed<HandleTable<Session, MPI_Session>>();
  return table;
}

Session& session(MPI_Session handle) {
  Session* found = sessions().find(handle);
  if (found == nullptr) [[unlikely]]
    fail(MPI_ERR_SESSION, "not a session: null, finalized, or never made");
  return *found;
}

Held<Group> process_set(std::string_view name) {
  if (equal_but_for_case(name, kProcessSets[0])) return Group::run(0, runtime().size());
  if (equal_but_for_case(name, kProcessSets[1])) return Group::run(runtime().rank().value, 1);
  if (equal_but_for_case(name, kProcessSets[2])) return node_group();
  fail(MPI_ERR_ARG, "no process set has the name " + std::string(name));
}

namespace calls {

void Session_init(MPI_Info info, MPI_Errhandler errhandler, MPI_Session* session) {
  const Info* wishes = info_or_null(info);
  const Held<Errhandler> handler =
      usable_errhandler(errhandler, Errhandler::Kind::session_function);
  require_output(session);
  const int level = acquire_process(level_asked(wishes), false);
  try {
    Held<Session> made = new_session(*handler, level);
    made->handle = *session = sessions().add(made.get());
    (void)made.release();
  } catch (...) {
    release_process(false);
    throw;
  }
}

void Session_finalize(MPI_Session* session) {
  require_output(session);
  (void)mpi::session(*session);
  detach_buffer_of(*session);
  if (Session* ended = sessions().remove(*session)) ended->drop();
  *session = MPI_SESSION_NULL;
  release_process(false);
}

void Session_get_info(MPI_Session session, MPI_Info* info_used) {
  const Session& object = mpi::session(session);
  require_output(info_used);
  auto used = Held<Info>::adopt(new Info);
  for (const Level& level : kLevels) {
    if (level.level == object.thread_level) used->set("thread_level", level.name);
  }
  used->set(kMemoryKindsKey, kMemoryKinds);
  *info_used = handle_for(std::move(used));
}

void Session_get_num_psets(MPI_Session session, MPI_Info info, int* npset_names) {
  (void)mpi::session(session);
  (void)info_or_null(info);
  require_output(npset_names);
  *npset_names = static_cast<int>(kProcessSets.size());
}

void Session_get_nth_pset(MPI_Session session, MPI_Info info, int n, int* pset_len,
                          char* pset_name) {
  (void)mpi::session(session);
  (void)info_or_null(info);
  require_output(pset_len);
  if (n < 0 || static_cast<std::size_t>(n) >= kProcessSets.size())
    fail(MPI_ERR_ARG, "there are not so many process sets");
  const std::string_view name = kProcessSets[static_cast<std::size_t>(n)];
  if (*pset_len > 0) {
    require_output(pset_name);
    const std::size_t room = static_cast<std::size_t>(*pset_len) - 1;
    const std::size_t copied = std::min(room, name.size());
    std::memcpy(pset_name, name.data(), copied);
    pset_name[copied] = '\0';
  }
  *pset_len = static_cast<int>(name.size()) + 1;
}

void Session_get_pset_info(MPI_Session session, const char* pset_name, MPI_Info* info) {
  (void)mpi::session(session);
  require(pset_name != nullptr, MPI_ERR_ARG, "a null pointer for a name");
  require_output(info);
  auto made = Held<Info>::adopt(new Info);
  made->set("mpi_size", std::to_string(process_set(pset_name)->size()));
  *info = handle_for(std::move(made));
}

void Group_from_session_pset(MPI_Session session, const char* pset_name, MPI_Group* newgroup) {
  (void)mpi::session(session);
  require(pset_name != nullptr, MPI_ERR_ARG, "a null pointer for a name");
  require_output(newgroup);
  Held<Group> made = process_set(pset_name);
  made->session = session;
  *newgroup = mpi::handle_for(std::move(made));
}

}  // namespace calls
}  // namespace weft::mpi
