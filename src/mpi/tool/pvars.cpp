// Performance variables of the tool interface: the counters.
//
// Sums and times count per handle, while they are started; levels and high-water marks are what
// they are, always. A variable of a communicator that was freed keeps its last value. A process
// that is made after MPI_Finalize counts from 0: sums go on from what was last read of the one
// before.
#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/comm.hpp"
#include "mpi/counters.hpp"
#include "mpi/handle.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/tool/tool.hpp"

namespace weft::mpi {
namespace tool {
namespace {

/// A sum or time can be started, stopped and set; other kinds run on their own.
bool countable(const CounterEntry& entry) noexcept {
  return entry.kind == CounterKind::sum || entry.kind == CounterKind::nanoseconds;
}

struct Variable {
  std::size_t index;  ///< in counters()
  MPI_Comm comm = MPI_COMM_NULL;
  bool running = false;
  uint64_t counted = 0;  ///< until it was last started
  uint64_t start = 0;    ///< what the counter showed then
  uint64_t last = 0;     ///< what it showed when it could last be read
  uint64_t process = 0;  ///< which one's counter that was
  const void* made_at = program_call();

  [[nodiscard]] const CounterEntry& entry() const { return counters()[index]; }
  uint64_t now() {
    if (!is_active()) return last;
    if (process != process_number()) {
      if (running) counted += last - start;
      start = last = 0;
      process = process_number();
    }
    if (!entry().per_comm) return last = entry().read(nullptr);
    const Held<Comm> held = comms().hold(comm);
    return held ? last = entry().read(held.get()) : last;
  }
  uint64_t value() {
    const uint64_t shown = now();  // first: it may be another process's
    if (!countable(entry())) return shown;
    return running ? counted + (shown - start) : counted;
  }
  void set(uint64_t value) {
    start = now();
    counted = value;
  }
};

struct Session {
  const void* made_at = program_call();
  std::set<std::unique_ptr<Variable>> variables;
};

std::set<Session*>& sessions() {
  static auto& one = *new std::set<Session*>;
  return one;
}

Session& session(MPI_T_pvar_session handle) {
  auto* found = reinterpret_cast<Session*>(handle);
  if (!sessions().contains(found)) fail(MPI_T_ERR_INVALID_SESSION, "not a session");
  return *found;
}

auto place_of(Session& session, MPI_T_pvar_handle handle) {
  auto* wanted = reinterpret_cast<Variable*>(handle);
  const auto found = std::find_if(session.variables.begin(), session.variables.end(),
                                  [&](const auto& held) { return held.get() == wanted; });
  if (found == session.variables.end())
    fail(MPI_T_ERR_INVALID_HANDLE, "not a handle of this session");
  return found;
}

Variable& variable(MPI_T_pvar_session in, MPI_T_pvar_handle handle) {
  return **place_of(session(in), handle);
}

/// Does `one` to a handle whose variable can be counted, or to all of a session that can.
template <class One>
void for_countable(MPI_T_pvar_session in, MPI_T_pvar_handle handle, int refusal, One one) {
  if (handle == MPI_T_PVAR_ALL_HANDLES) {
    for (const auto& held : session(in).variables)
      if (countable(held->entry())) one(*held);
    return;
  }
  Variable& found = variable(in, handle);
  if (!countable(found.entry())) fail(refusal, "the variable runs on its own");
  one(found);
}

int class_of(CounterKind kind) noexcept {
  switch (kind) {
    case CounterKind::sum:
      return MPI_T_PVAR_CLASS_COUNTER;
    case CounterKind::level:
      return MPI_T_PVAR_CLASS_LEVEL;
    case CounterKind::high_water:
      return MPI_T_PVAR_CLASS_HIGHWATERMARK;
    case CounterKind::nanoseconds:
      return MPI_T_PVAR_CLASS_TIMER;
  }
  return MPI_T_PVAR_CLASS_GENERIC;
}

void give(void* out, uint64_t value) {
  if (out == nullptr) fail(MPI_T_ERR_INVALID, "no buffer");
  const unsigned long long number = value;
  std::memcpy(out, &number, sizeof number);
}

}  // namespace

void tell_leaks_of_pvars() {
  std::vector<std::string> open, handles;
  {
    const std::scoped_lock guard(lock());
    for (const Session* session : sessions()) {
      open.push_back("one" + made_at(session->made_at));
      for (const auto& held : session->variables)
        handles.push_back(held->entry().name + made_at(held->made_at));
    }
  }
  tell_leaks("sessions of performance variables", open);
  tell_leaks("handles of performance variables", handles);
}

}  // namespace tool

namespace calls {

using namespace tool;  // NOLINT(google-build-using-namespace)
using tool::Session;

void T_pvar_get_num(int* num_pvar) {
  const Entered entered;
  put(num_pvar, static_cast<int>(counters().size()));
}

void T_pvar_get_info(int pvar_index, char* name, int* name_len, int* verbosity, int* var_class,
                     MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len,
                     int* bind, int* readonly, int* continuous, int* atomic) {
  const Entered entered;
  check_index(pvar_index, counters().size());
  const CounterEntry& entry = counters()[static_cast<std::size_t>(pvar_index)];
  const bool own_count = countable(entry);
  put_text(entry.name, name, name_len);
  put_text(entry.help, desc, desc_len);
  put(verbosity, MPI_T_VERBOSITY_TUNER_DETAIL);
  put(var_class, class_of(entry.kind));
  put(datatype, MPI_UNSIGNED_LONG_LONG);
  put(enumtype, MPI_T_ENUM_NULL);
  put(bind, entry.per_comm ? MPI_T_BIND_MPI_COMM : MPI_T_BIND_NO_OBJECT);
  put(readonly, own_count ? 0 : 1);
  put(continuous, own_count ? 0 : 1);
  put(atomic, own_count ? 1 : 0);
}

void T_pvar_get_index(const char* name, int var_class, int* pvar_index) {
  const Entered entered;
  if (name == nullptr) fail(MPI_T_ERR_INVALID_NAME, "no name");
  for (std::size_t i = 0; i < counters().size(); ++i) {
    const CounterEntry& entry = counters()[i];
    if (entry.name == name && class_of(entry.kind) == var_class)
      return put(pvar_index, static_cast<int>(i));
  }
  fail(MPI_T_ERR_INVALID_NAME, "no performance variable of that class has that name");
}

void T_pvar_session_create(MPI_T_pvar_session* session) {
  const Entered entered;
  if (session == nullptr) fail(MPI_T_ERR_INVALID, "no place for the session");
  auto* made = new Session;
  tool::sessions().insert(made);
  *session = reinterpret_cast<MPI_T_pvar_session>(made);
}

void T_pvar_session_free(MPI_T_pvar_session* handle) {
  const Entered entered;
  if (handle == nullptr) fail(MPI_T_ERR_INVALID_SESSION, "no session");
  Session* freed = &tool::session(*handle);
  tool::sessions().erase(freed);
  delete freed;
  *handle = MPI_T_PVAR_SESSION_NULL;
}

void T_pvar_handle_alloc(MPI_T_pvar_session in, int pvar_index, void* obj_handle,
                         MPI_T_pvar_handle* handle, int* count) {
  const Entered entered;
  Session& owner = tool::session(in);
  check_index(pvar_index, counters().size());
  if (handle == nullptr) fail(MPI_T_ERR_INVALID, "no place for the handle");
  auto made = std::make_unique<Variable>();
  made->index = static_cast<std::size_t>(pvar_index);
  if (made->entry().per_comm) {
    if (obj_handle == nullptr) fail(MPI_T_ERR_INVALID, "the variable is one of a communicator");
    made->comm = *static_cast<const MPI_Comm*>(obj_handle);
    if (!is_active() || comms().find(made->comm) == nullptr)
      fail(MPI_T_ERR_INVALID, "not a communicator");
  }
  *handle = reinterpret_cast<MPI_T_pvar_handle>(made.get());
  owner.variables.insert(std::move(made));
  put(count, 1);
}

void T_pvar_handle_free(MPI_T_pvar_session in, MPI_T_pvar_handle* handle) {
  const Entered entered;
  if (handle == nullptr) fail(MPI_T_ERR_INVALID_HANDLE, "no handle");
  Session& owner = tool::session(in);
  owner.variables.erase(place_of(owner, *handle));
  *handle = MPI_T_PVAR_HANDLE_NULL;
}

void T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  const Entered entered;
  for_countable(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, [](Variable& variable) {
    if (variable.running) return;
    variable.start = variable.now();
    variable.running = true;
  });
}

void T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  const Entered entered;
  for_countable(session, handle, MPI_T_ERR_PVAR_NO_STARTSTOP, [](Variable& variable) {
    variable.counted = variable.value();
    variable.running = false;
  });
}

void T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
  const Entered entered;
  give(buf, variable(session, handle).value());
}

void T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buf) {
  const Entered entered;
  if (buf == nullptr) fail(MPI_T_ERR_INVALID, "no buffer");
  Variable& found = variable(session, handle);
  if (!countable(found.entry())) fail(MPI_T_ERR_PVAR_NO_WRITE, "the variable runs on its own");
  unsigned long long number;
  std::memcpy(&number, buf, sizeof number);
  found.set(number);
}

void T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  const Entered entered;
  for_countable(session, handle, MPI_T_ERR_PVAR_NO_WRITE,
                [](Variable& variable) { variable.set(0); });
}

void T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buf) {
  const Entered entered;
  Variable& found = variable(session, handle);
  if (!countable(found.entry())) fail(MPI_T_ERR_PVAR_NO_ATOMIC, "the variable runs on its own");
  const uint64_t value = found.value();
  give(buf, value);
  // What came between the value and its reset is not lost.
  found.counted = 0;
  if (found.running) found.start = found.last;
}

}  // namespace calls
}  // namespace weft::mpi
