// The tool interface: configuration and counters by number and by name.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "check.hpp"

namespace {

using Name = char[256];

void before_init() {
  int number = 0;
  WEFT_CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
  int provided = -1;
  WEFT_CHECK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided) == MPI_SUCCESS);
  WEFT_CHECK(provided == MPI_THREAD_MULTIPLE);
}

/// Every control variable can be read, by what its description says.
void read_all_variables() {
  int number = 0;
  WEFT_CHECK(MPI_T_cvar_get_num(&number) == MPI_SUCCESS && number > 10);
  for (int i = 0; i < number; ++i) {
    Name name;
    int length = sizeof name;
    int verbosity = 0;
    int bind = 0;
    int scope = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum names = MPI_T_ENUM_NULL;
    WEFT_CHECK(MPI_T_cvar_get_info(i, name, &length, &verbosity, &type, &names, nullptr, nullptr,
                                   &bind, &scope) == MPI_SUCCESS);
    WEFT_CHECK(length == static_cast<int>(std::strlen(name)) + 1 && bind == MPI_T_BIND_NO_OBJECT);
    int again = -1;
    WEFT_CHECK(MPI_T_cvar_get_index(name, &again) == MPI_SUCCESS && again == i);
    MPI_T_cvar_handle handle;
    int count = 0;
    WEFT_CHECK(MPI_T_cvar_handle_alloc(i, nullptr, &handle, &count) == MPI_SUCCESS);
    std::vector<long long> buffer(static_cast<std::size_t>(count));
    WEFT_CHECK(MPI_T_cvar_read(handle, buffer.data()) == MPI_SUCCESS);
    if (names != MPI_T_ENUM_NULL) {
      int items = 0;
      MPI_T_enum_get_info(names, &items, nullptr, nullptr);
      const int value = *reinterpret_cast<int*>(buffer.data());
      WEFT_CHECK(type == MPI_INT && value >= 0 && value < items);
      length = sizeof name;
      WEFT_CHECK(MPI_T_enum_get_item(names, value, &again, name, &length) == MPI_SUCCESS);
      WEFT_CHECK(again == value && length > 1);
    }
    WEFT_CHECK(MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS && handle == MPI_T_CVAR_HANDLE_NULL);
  }
  WEFT_CHECK(MPI_T_cvar_get_info(number, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                 nullptr, nullptr, nullptr) == MPI_T_ERR_INVALID_INDEX);
  int index = 0;
  WEFT_CHECK(MPI_T_cvar_get_index("no such thing", &index) == MPI_T_ERR_INVALID_NAME);
}

MPI_T_cvar_handle variable(const char* name) {
  int index = -1;
  int count = 0;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  WEFT_CHECK(MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS);
  WEFT_CHECK(MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS && count == 1);
  return handle;
}

void write_before(MPI_T_cvar_handle eager) {
  MPI_Count bytes = 4096;
  WEFT_CHECK(MPI_T_cvar_write(eager, &bytes) == MPI_SUCCESS);
  bytes = -1;
  WEFT_CHECK(MPI_T_cvar_write(eager, &bytes) == MPI_T_ERR_INVALID);
  WEFT_CHECK(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 4096);
}

void write_after(MPI_T_cvar_handle eager) {
  MPI_Count bytes = 8192;
  WEFT_CHECK(MPI_T_cvar_write(eager, &bytes) == MPI_T_ERR_CVAR_SET_NOT_NOW);
  WEFT_CHECK(MPI_T_cvar_read(eager, &bytes) == MPI_SUCCESS && bytes == 4096);
}

void categories() {
  int number = 0;
  WEFT_CHECK(MPI_T_category_get_num(&number) == MPI_SUCCESS && number > 1);
  int variables = 0;
  int all = 0;
  MPI_T_cvar_get_num(&all);
  for (int i = 0; i < number; ++i) {
    Name name;
    int length = sizeof name;
    int cvars = 0;
    int pvars = 0;
    int inner = -1;
    WEFT_CHECK(MPI_T_category_get_info(i, name, &length, nullptr, nullptr, &cvars, &pvars,
                                       &inner) == MPI_SUCCESS);
    WEFT_CHECK(inner == 0);
    int again = -1;
    WEFT_CHECK(MPI_T_category_get_index(name, &again) == MPI_SUCCESS && again == i);
    std::vector<int> indices(static_cast<std::size_t>(cvars), -1);
    WEFT_CHECK(MPI_T_category_get_cvars(i, cvars, indices.data()) == MPI_SUCCESS);
    for (const int index : indices) WEFT_CHECK(index >= 0 && index < all);
    variables += cvars;
    int events = -1;
    WEFT_CHECK(MPI_T_category_get_num_events(i, &events) == MPI_SUCCESS && events == 0);
    WEFT_CHECK(MPI_T_category_get_events(i, 0, &events) == MPI_SUCCESS);
    WEFT_CHECK(MPI_T_category_get_categories(i, 0, &inner) == MPI_SUCCESS);
    std::vector<int> counters(static_cast<std::size_t>(pvars) + 1, -1);
    WEFT_CHECK(MPI_T_category_get_pvars(i, pvars, counters.data()) == MPI_SUCCESS);
    int all_counters = 0;
    MPI_T_pvar_get_num(&all_counters);
    for (int at = 0; at < pvars; ++at) {
      const int index = counters[static_cast<std::size_t>(at)];
      WEFT_CHECK(index >= 0 && index < all_counters);
    }
    WEFT_CHECK(counters.back() == -1);
  }
  WEFT_CHECK(variables == all);
  int stamp = -1;
  WEFT_CHECK(MPI_T_category_changed(&stamp) == MPI_SUCCESS);
}

/// A message to oneself, and what it does to every counter.
void counters() {
  int number = 0;
  WEFT_CHECK(MPI_T_pvar_get_num(&number) == MPI_SUCCESS);
  MPI_T_pvar_session session;
  WEFT_CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
  std::vector<MPI_T_pvar_handle> handles;
  std::vector<bool> continuous;
  for (int i = 0; i < number; ++i) {
    Name name;
    int length = sizeof name;
    int kind = 0;
    int bind = 0;
    int runs = -1;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    WEFT_CHECK(MPI_T_pvar_get_info(i, name, &length, nullptr, &kind, &type, nullptr, nullptr,
                                   nullptr, &bind, nullptr, &runs, nullptr) == MPI_SUCCESS);
    WEFT_CHECK(type == MPI_UNSIGNED_LONG_LONG);
    int again = -1;
    WEFT_CHECK(MPI_T_pvar_get_index(name, kind, &again) == MPI_SUCCESS && again == i);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_T_pvar_handle handle;
    int count = 0;
    WEFT_CHECK(MPI_T_pvar_handle_alloc(session, i, bind == MPI_T_BIND_MPI_COMM ? &world : nullptr,
                                       &handle, &count) == MPI_SUCCESS);
    WEFT_CHECK(count == 1);
    if (runs == 0) WEFT_CHECK(MPI_T_pvar_start(session, handle) == MPI_SUCCESS);
    if (runs == 1) WEFT_CHECK(MPI_T_pvar_start(session, handle) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    handles.push_back(handle);
    continuous.push_back(runs == 1);
  }
  int word = 0;
  MPI_Sendrecv(&word, 1, MPI_INT, 0, 0, &word, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    unsigned long long value = 0;
    WEFT_CHECK(MPI_T_pvar_read(session, handles[i], &value) == MPI_SUCCESS);
    if (!continuous[i]) {
      WEFT_CHECK(MPI_T_pvar_stop(session, handles[i]) == MPI_SUCCESS);
      WEFT_CHECK(MPI_T_pvar_reset(session, handles[i]) == MPI_SUCCESS);
      WEFT_CHECK(MPI_T_pvar_read(session, handles[i], &value) == MPI_SUCCESS && value == 0);
      value = 7;
      WEFT_CHECK(MPI_T_pvar_write(session, handles[i], &value) == MPI_SUCCESS);
      WEFT_CHECK(MPI_T_pvar_readreset(session, handles[i], &value) == MPI_SUCCESS && value == 7);
    } else {
      WEFT_CHECK(MPI_T_pvar_reset(session, handles[i]) == MPI_T_ERR_PVAR_NO_WRITE);
    }
  }
  WEFT_CHECK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES) == MPI_SUCCESS);
  if (!handles.empty()) WEFT_CHECK(MPI_T_pvar_handle_free(session, &handles[0]) == MPI_SUCCESS);
  WEFT_CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
  WEFT_CHECK(session == MPI_T_PVAR_SESSION_NULL);
  WEFT_CHECK(MPI_T_pvar_session_free(&session) == MPI_T_ERR_INVALID_SESSION);
}

void events() {
  int number = -1;
  WEFT_CHECK(MPI_T_event_get_num(&number) == MPI_SUCCESS && number == 0);
  WEFT_CHECK(MPI_T_source_get_num(&number) == MPI_SUCCESS && number == 0);
  WEFT_CHECK(MPI_T_event_get_index("x", &number) == MPI_T_ERR_INVALID_NAME);
  MPI_Count stamp = 0;
  WEFT_CHECK(MPI_T_source_get_timestamp(0, &stamp) == MPI_T_ERR_INVALID_INDEX);
  MPI_T_source_order order;
  WEFT_CHECK(MPI_T_source_get_info(0, nullptr, nullptr, nullptr, nullptr, &order, &stamp, &stamp,
                                   nullptr) == MPI_T_ERR_INVALID_INDEX);
  WEFT_CHECK(MPI_T_event_get_info(0, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                  nullptr, nullptr, nullptr, nullptr) == MPI_T_ERR_INVALID_INDEX);
  MPI_T_event_registration handle = nullptr;
  WEFT_CHECK(MPI_T_event_handle_alloc(0, nullptr, MPI_INFO_NULL, &handle) ==
             MPI_T_ERR_INVALID_INDEX);
  // Without events there is no handle, and no instance, that would be one.
  MPI_Info info = MPI_INFO_NULL;
  const MPI_T_cb_safety safety = MPI_T_CB_REQUIRE_NONE;
  for (const int code :
       {MPI_T_event_handle_get_info(handle, &info), MPI_T_event_handle_set_info(handle, info),
        MPI_T_event_callback_get_info(handle, safety, &info),
        MPI_T_event_callback_set_info(handle, safety, info),
        MPI_T_event_register_callback(handle, safety, info, nullptr, nullptr),
        MPI_T_event_set_dropped_handler(handle, nullptr),
        MPI_T_event_handle_free(handle, nullptr, nullptr), MPI_T_event_copy(nullptr, &number),
        MPI_T_event_read(nullptr, 0, &number), MPI_T_event_get_source(nullptr, &number),
        MPI_T_event_get_timestamp(nullptr, &stamp)}) {
    WEFT_CHECK(code == MPI_T_ERR_INVALID_HANDLE);
  }
}

/// A thread that looks at the variables all the time, whatever becomes of MPI.
class Watcher {
 public:
  Watcher() : thread_([this] { watch(); }) {}
  ~Watcher() {
    over_ = true;
    thread_.join();
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void watch() {
    MPI_T_pvar_session session;
    WEFT_CHECK(MPI_T_pvar_session_create(&session) == MPI_SUCCESS);
    std::vector<MPI_T_pvar_handle> handles;
    int known = 0;
    while (!over_) {
      int number = 0;
      WEFT_CHECK(MPI_T_pvar_get_num(&number) == MPI_SUCCESS && number >= known);
      for (; known < number; ++known) {
        int bind = -1;
        WEFT_CHECK(MPI_T_pvar_get_info(known, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                       nullptr, nullptr, &bind, nullptr, nullptr,
                                       nullptr) == MPI_SUCCESS);
        MPI_T_pvar_handle handle;
        int count = 0;
        if (bind == MPI_T_BIND_NO_OBJECT &&
            MPI_T_pvar_handle_alloc(session, known, nullptr, &handle, &count) == MPI_SUCCESS) {
          handles.push_back(handle);
        }
      }
      MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
      for (const MPI_T_pvar_handle handle : handles) {
        unsigned long long value = 0;
        WEFT_CHECK(MPI_T_pvar_read(session, handle, &value) == MPI_SUCCESS);
      }
      std::this_thread::yield();
    }
    WEFT_CHECK(MPI_T_pvar_session_free(&session) == MPI_SUCCESS);
  }

  std::atomic<bool> over_{false};
  std::thread thread_;
};

/// Sets whether arguments are checked, yes and no, until MPI begins: what was taken last holds.
class Setter {
 public:
  Setter() {
    while (!begun_) std::this_thread::yield();
  }
  /// MPI has begun.
  void check() {
    thread_.join();
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    // A tag that nobody may send with.
    const int code = MPI_Send(nullptr, 0, MPI_INT, MPI_PROC_NULL, -5, MPI_COMM_WORLD);
    WEFT_CHECK((code != MPI_SUCCESS) == (taken_ != 0));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
  }

 private:
  void run() {
    const MPI_T_cvar_handle checks = variable("mpi.check_arguments");
    for (int next = 0;; next = 1 - next) {
      const int code = MPI_T_cvar_write(checks, &next);
      if (code != MPI_SUCCESS) {
        WEFT_CHECK(code == MPI_T_ERR_CVAR_SET_NOT_NOW);
        return;
      }
      taken_ = next;
      begun_ = true;
    }
  }

  int taken_ = 1;
  std::atomic<bool> begun_{false};
  std::thread thread_{[this] { run(); }};
};

/// A sum that is started in one life of MPI, and what it shows in the next.
class OverLives {
 public:
  OverLives() {
    int index = -1;
    int count = 0;
    WEFT_CHECK(MPI_T_pvar_get_index("messages_sent", MPI_T_PVAR_CLASS_COUNTER, &index) ==
               MPI_SUCCESS);
    WEFT_CHECK(MPI_T_pvar_session_create(&session_) == MPI_SUCCESS);
    WEFT_CHECK(MPI_T_pvar_handle_alloc(session_, index, nullptr, &sent_, &count) == MPI_SUCCESS);
    send(MPI_COMM_SELF);
    WEFT_CHECK(MPI_T_pvar_start(session_, sent_) == MPI_SUCCESS);
    send(MPI_COMM_SELF);
    WEFT_CHECK(value() == 1);
  }
  void in_the_next(MPI_Session session) const {
    WEFT_CHECK(value() == 1);
    MPI_Group self;
    MPI_Comm comm;
    MPI_Group_from_session_pset(session, "mpi://SELF", &self);
    MPI_Comm_create_from_group(self, "self", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
    const unsigned long long before = value();
    send(comm);
    WEFT_CHECK(before < 1000 && value() == before + 1);
    MPI_Comm_free(&comm);
    MPI_Group_free(&self);
  }

 private:
  static void send(MPI_Comm comm) {
    int word = 0;
    MPI_Sendrecv(&word, 1, MPI_INT, 0, 0, &word, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE);
  }
  [[nodiscard]] unsigned long long value() const {
    unsigned long long value = 0;
    WEFT_CHECK(MPI_T_pvar_read(session_, sent_, &value) == MPI_SUCCESS);
    return value;
  }

  MPI_T_pvar_session session_ = MPI_T_PVAR_SESSION_NULL;
  MPI_T_pvar_handle sent_ = MPI_T_PVAR_HANDLE_NULL;
};

}  // namespace

int main(int argc, char** argv) {
  before_init();
  read_all_variables();
  const MPI_T_cvar_handle eager = variable("comm.eager_bytes");
  write_before(eager);
  auto watcher = std::make_unique<Watcher>();
  Setter setter;
  MPI_Init(&argc, &argv);
  setter.check();
  write_after(eager);
  read_all_variables();
  categories();
  counters();
  events();
  const OverLives sum;
  MPI_Finalize();
  watcher.reset();
  read_all_variables();
  write_before(eager);
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  sum.in_the_next(session);
  MPI_Session_finalize(&session);
  write_after(eager);  // the process stands by
  WEFT_CHECK(MPI_T_finalize() == MPI_SUCCESS);
  int number = 0;
  WEFT_CHECK(MPI_T_cvar_get_num(&number) == MPI_T_ERR_NOT_INITIALIZED);
  return result();
}
