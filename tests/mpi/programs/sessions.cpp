// Sessions without MPI_Init: process sets, communicators of groups, one session after another.
#include <mpi.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "comms_check.hpp"

namespace {

MPI_Group group_of(MPI_Session session, const char* name) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group_from_session_pset(session, name, &group);
  return group;
}

void check_sets(MPI_Session session) {
  int count = 0;
  MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count);
  WEFT_EXPECT(count >= 2);
  bool world = false;
  bool self = false;
  for (int i = 0; i < count; ++i) {
    int length = 0;
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, nullptr);
    std::string name(static_cast<std::size_t>(length), '?');
    MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name.data());
    WEFT_EXPECT(static_cast<int>(std::strlen(name.c_str())) + 1 == length);
    name.resize(name.size() - 1);
    world = world || name == "mpi://WORLD";
    self = self || name == "mpi://SELF";
    MPI_Info info;
    MPI_Session_get_pset_info(session, name.c_str(), &info);
    char value[32] = "";
    int room = sizeof value;
    int flag = 0;
    MPI_Info_get_string(info, "mpi_size", &room, value, &flag);
    MPI_Group group = group_of(session, name.c_str());
    int members = -1;
    MPI_Group_size(group, &members);
    WEFT_EXPECT(flag != 0 && std::to_string(members) == value);
    MPI_Group_free(&group);
    MPI_Info_free(&info);
  }
  WEFT_EXPECT(world && self);
}

MPI_Comm comm_of(MPI_Group group, const char* name) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  return comm;
}

void check_comms(MPI_Session session) {
  MPI_Group all = group_of(session, "mpi://WORLD");
  MPI_Group self = group_of(session, "mpi://SELF");
  MPI_Comm world = comm_of(all, "all of them");
  MPI_Comm alone = comm_of(self, "alone");
  MPI_Comm again = comm_of(all, "all of them");
  int result = -1;
  MPI_Comm_compare(world, again, &result);
  WEFT_EXPECT(result == MPI_CONGRUENT);
  WEFT_EXPECT(check::goes_round(world, 1));
  WEFT_EXPECT(check::goes_round(alone, 2));
  WEFT_EXPECT(check::goes_round(again, 3));
  MPI_Comm none = world;
  WEFT_EXPECT(check::class_of(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "nobody", MPI_INFO_NULL,
                                                         MPI_ERRORS_RETURN, nullptr)) ==
              MPI_ERR_ARG);
  MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "nobody", MPI_INFO_NULL, MPI_ERRORS_RETURN, &none);
  WEFT_EXPECT(none == MPI_COMM_NULL);
  // Several threads, each with a name of its own.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, all] {
      const std::string name = "thread " + std::to_string(t);
      for (int round = 0; round < 10; ++round) {
        MPI_Comm comm = comm_of(all, name.c_str());
        WEFT_EXPECT(check::goes_round(comm, 100 * t + round));
        MPI_Comm_free(&comm);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MPI_Comm_free(&again);
  MPI_Comm_free(&alone);
  MPI_Comm_free(&world);
  MPI_Group_free(&self);
  MPI_Group_free(&all);
}

void check_intercomm(MPI_Session session) {
  MPI_Group all = group_of(session, "mpi://WORLD");
  int size = 0;
  int rank = 0;
  MPI_Group_size(all, &size);
  MPI_Group_rank(all, &rank);
  if (size > 1) {
    const int mine = rank % 2;
    int ranges[2][1][3] = {{{0, size - 1, 2}}, {{1, size - 1, 2}}};
    MPI_Group sides[2];
    for (int i = 0; i < 2; ++i) MPI_Group_range_incl(all, 1, ranges[i], &sides[i]);
    MPI_Comm inter = MPI_COMM_NULL;
    MPI_Intercomm_create_from_groups(sides[mine], 0, sides[1 - mine], 0, "two sides", MPI_INFO_NULL,
                                     MPI_ERRORS_RETURN, &inter);
    int remote = 0;
    MPI_Comm_remote_size(inter, &remote);
    WEFT_EXPECT(remote == (mine == 0 ? size / 2 : size - size / 2));
    const int one = 1;
    int sum = 0;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter);
    WEFT_EXPECT(sum == remote);
    MPI_Comm_free(&inter);
    for (MPI_Group& side : sides) MPI_Group_free(&side);
  }
  MPI_Group_free(&all);
}

/// Freed exchanges of which nothing comes keep no session from its end; what they send comes.
void leave_exchange(MPI_Session session) {
  MPI_Group all = group_of(session, "mpi://WORLD");
  MPI_Comm world = comm_of(all, "exchange");
  const int size = check::size_of(world);
  const int rank = check::rank_in(world);
  const int to = (rank + 1) % size;
  const int from = (rank + size - 1) % size;
  static std::vector<int> out(100000);
  static int never = 0;
  out.assign(out.size(), rank);
  MPI_Request request;
  MPI_Isendrecv(out.data(), static_cast<int>(out.size()), MPI_INT, to, 1, &never, 1, MPI_INT, from,
                2, world, &request);
  MPI_Request_free(&request);
  std::vector<int> in(out.size());
  MPI_Recv(in.data(), static_cast<int>(in.size()), MPI_INT, from, 1, world, MPI_STATUS_IGNORE);
  WEFT_EXPECT(in.front() == from && in.back() == from);
  MPI_Comm_free(&world);
  MPI_Group_free(&all);
}

bool has(MPI_Info info, const char* key, const char* wanted) {
  char value[64] = "";
  int room = sizeof value;
  int flag = 0;
  MPI_Info_get_string(info, key, &room, value, &flag);
  return flag != 0 && std::strcmp(value, wanted) == 0;
}

int level_now() {
  int level = -1;
  MPI_Query_thread(&level);
  return level;
}

/// MPI_Query_thread answers what MPI_Init_thread provided, whatever sessions ask for.
void check_level_beside() {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "thread_level", "MPI_THREAD_SERIALIZED");
  MPI_Session before;
  MPI_Session_init(info, MPI_ERRORS_RETURN, &before);
  MPI_Info_free(&info);
  int provided = -1;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  WEFT_EXPECT(provided == MPI_THREAD_SERIALIZED && level_now() == provided);
  MPI_Session later;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &later);
  WEFT_EXPECT(level_now() == provided);
  MPI_Session_finalize(&later);
  MPI_Session_finalize(&before);
  MPI_Finalize();
}

void check_errors(MPI_Session session) {
  MPI_Group group = MPI_GROUP_NULL;
  WEFT_EXPECT(check::class_of(MPI_Group_from_session_pset(session, "mpi://NOTHING", &group)) ==
              MPI_ERR_ARG);
  int length = 0;
  WEFT_EXPECT(check::class_of(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 1000, &length,
                                                       nullptr)) == MPI_ERR_ARG);
}

}  // namespace

int main() {
  int ranks = 0;
  for (int round = 0; round < 2; ++round) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Session first;
    MPI_Session second;
    MPI_Info_set(info, "thread_level", "MPI_THREAD_SEVERAL");
    WEFT_EXPECT(check::class_of(MPI_Session_init(info, MPI_ERRORS_RETURN, &first)) ==
                MPI_ERR_INFO_VALUE);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MPI_Session_init(info, MPI_ERRORS_RETURN, &first);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second);
    WEFT_EXPECT(first != second);
    WEFT_EXPECT(MPI_Session_fromint(MPI_Session_toint(first)) == first);
    MPI_Info used;
    MPI_Session_get_info(first, &used);
    WEFT_EXPECT(has(used, "thread_level", "MPI_THREAD_MULTIPLE"));
    WEFT_EXPECT(has(used, "mpi_memory_alloc_kinds", "mpi,system"));
    MPI_Info_free(&used);
    MPI_Info_free(&info);
    MPI_Group all = group_of(first, "mpi://WORLD");
    MPI_Group_size(all, &ranks);
    MPI_Group_free(&all);
    check_sets(first);
    check_errors(first);
    check_comms(first);
    MPI_Session_finalize(&first);
    WEFT_EXPECT(first == MPI_SESSION_NULL);
    check_comms(second);
    check_intercomm(second);
    leave_exchange(second);
    MPI_Session_finalize(&second);
  }
  // Of several ranks, the program is one of sessions alone.
  if (ranks == 1) check_level_beside();
  return check::failures == 0 ? 0 : 1;
}
