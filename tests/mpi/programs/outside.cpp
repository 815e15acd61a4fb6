// Every function of the table outside of MPI: before it is initialized, while no session of several
// is there, and after MPI_Finalize. What MPI 5.0 (11.4.1) has always there is served, whatever it
// then says of its arguments; all else ends its process with a sentence that names it. Each call is
// made by a child of its own, once with zeros and once with arguments that could be right.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <type_traits>

#include "check.hpp"

namespace {

enum class Arguments { zeros, plausible };

/// The children's: what pointers point to.
alignas(64) std::byte room[1 << 16];

void never_called() {
  std::fputs("a function of the program was called\n", stderr);
  std::abort();
}

template <class T>
T plausible() {
  if constexpr (std::is_same_v<T, MPI_Comm>) return MPI_COMM_SELF;
  if constexpr (std::is_same_v<T, MPI_Datatype>) return MPI_INT;
  if constexpr (std::is_same_v<T, MPI_Group>) return MPI_GROUP_EMPTY;
  if constexpr (std::is_same_v<T, MPI_Op>) return MPI_SUM;
  if constexpr (std::is_same_v<T, MPI_Info>) return MPI_INFO_NULL;
  if constexpr (std::is_same_v<T, MPI_Errhandler>) return MPI_ERRORS_ARE_FATAL;
  if constexpr (std::is_same_v<T, MPI_Session>) return MPI_SESSION_NULL;
  if constexpr (std::is_same_v<T, MPI_Request>) return MPI_REQUEST_NULL;
  if constexpr (std::is_same_v<T, MPI_Message>) return MPI_MESSAGE_NULL;
  if constexpr (std::is_same_v<T, MPI_Win>) return MPI_WIN_NULL;
  if constexpr (std::is_same_v<T, MPI_File>) return MPI_FILE_NULL;
  if constexpr (std::is_pointer_v<T>) {
    using Object = std::remove_pointer_t<T>;
    if constexpr (std::is_function_v<Object>) return reinterpret_cast<T>(&never_called);
    // An opaque handle, of MPI_T, points to nothing that this program knows.
    if constexpr (std::is_void_v<Object>) return room;
    if constexpr (requires { sizeof(Object); }) return reinterpret_cast<T>(&room);
  }
  return T{};
}

template <class T>
T argument(Arguments which) {
  return which == Arguments::zeros ? T{} : plausible<T>();
}

/// What it returns, if that is an error code.
template <class Returned, class... Parameters>
int called(Returned (*function)(Parameters...), Arguments which) {
  if constexpr (std::is_same_v<Returned, int>) return function(argument<Parameters>(which)...);
  (void)function(argument<Parameters>(which)...);
  return MPI_SUCCESS;
}
int called(int (*function)(int, ...), Arguments /*which*/) { return function(0); }

struct Function {
  std::string_view name;  ///< without MPI_
  std::string_view state;
  int (*call)(Arguments which);
};

constexpr Function kFunctions[] = {
#define WEFT_MPI_FUNCTION(name, state) \
  {#name, #state, [](Arguments which) { return called(&MPI_##name, which); }},
#include "mpi/abi/names.inc"
#undef WEFT_MPI_FUNCTION
};

/// MPI 5.0, 11.4.1 and 15.3; and what begins it all.
constexpr std::string_view kAlways[] = {"Add_error_class",
                                        "Add_error_code",
                                        "Add_error_string",
                                        "Errhandler_free",
                                        "Error_class",
                                        "Error_string",
                                        "Finalized",
                                        "Get_hw_resource_info",
                                        "Get_library_version",
                                        "Get_version",
                                        "Init",
                                        "Init_thread",
                                        "Initialized",
                                        "Remove_error_class",
                                        "Remove_error_code",
                                        "Session_init",
                                        "Remove_error_string",
                                        "Session_call_errhandler",
                                        "Pcontrol",
                                        "Session_create_errhandler"};
/// And what needs nothing of MPI to be served here.
constexpr std::string_view kServedAnyway[] = {"Aint_add",
                                              "Aint_diff",
                                              "Get_processor_name",
                                              "Status_get_error",
                                              "Status_get_source",
                                              "Status_get_tag",
                                              "Status_set_error",
                                              "Status_set_source",
                                              "Status_set_tag",
                                              "Wtick",
                                              "Wtime"};

bool is_always_there(std::string_view name) {
  if (name.starts_with("T_") || name.starts_with("Info_") || name.starts_with("Abi_")) return true;
  if (name.ends_with("_toint") || name.ends_with("_fromint")) return true;
  return std::find(std::begin(kAlways), std::end(kAlways), name) != std::end(kAlways) ||
         std::find(std::begin(kServedAnyway), std::end(kServedAnyway), name) !=
             std::end(kServedAnyway);
}

/// How a call went.
struct Outcome {
  bool returned = false;
  int code = MPI_SUCCESS;  ///< what it returned, or its process exited with
  int signal = 0;
  std::string said;
};

/// In the child, whose standard error is read by its parent.
[[noreturn]] void call_and_leave(const Function& function, Arguments which, int answers) {
  ::alarm(60);  // tells which function it is that hangs
  int provided = 0;
  if (function.name.starts_with("T_") && which == Arguments::plausible)
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  const int code = function.call(which);
  const bool told = ::write(answers, &code, sizeof code) == sizeof code;
  if (code == MPI_SUCCESS) {  // as MPI wants it
    if (function.name == "Init" || function.name == "Init_thread") MPI_Finalize();
    if (function.name == "Session_init")
      MPI_Session_finalize(reinterpret_cast<MPI_Session*>(&room));
  }
  std::exit(told ? 0 : 1);
}

Outcome outcome_of(const Function& function, Arguments which) {
  int words[2];
  int answers[2];
  if (::pipe(words) != 0 || ::pipe(answers) != 0) std::abort();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) std::abort();
  if (child == 0) {
    ::dup2(words[1], STDERR_FILENO);
    call_and_leave(function, which, answers[1]);
  }
  ::close(words[1]);
  ::close(answers[1]);
  Outcome outcome;
  char piece[4096];
  while (true) {
    const ssize_t bytes = ::read(words[0], piece, sizeof piece);
    if (bytes <= 0) break;
    outcome.said.append(piece, static_cast<std::size_t>(bytes));
  }
  int code = 0;
  outcome.returned = ::read(answers[0], &code, sizeof code) == sizeof code;
  ::close(words[0]);
  ::close(answers[0]);
  int status = 0;
  if (::waitpid(child, &status, 0) != child) std::abort();
  outcome.code = outcome.returned ? code : WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  return outcome;
}

/// What is wrong with it; nullptr: nothing.
const char* fault_of(const Function& function, const Outcome& outcome, const char* when) {
  if (outcome.signal != 0) return "was ended by a signal";
  const std::string name = "MPI_" + std::string(function.name);
  const bool named = outcome.said.find("weft: " + name + " failed: ") != std::string::npos;
  const bool refused = outcome.said.find(when) != std::string::npos;
  if (!outcome.returned && !named) return "ended its process without a word of it";
  if (!outcome.returned && outcome.code == 0) return "ended its process as if all was well";
  if (is_always_there(function.name)) return refused ? "is refused" : nullptr;
  if (function.state == "unsupported")
    return outcome.returned && outcome.code == MPI_SUCCESS ? "is served" : nullptr;
  if (outcome.returned) return "came back";
  if (outcome.code != MPI_ERR_OTHER) return "has another exit code";
  return refused ? nullptr : "does not say why";
}

/// Calls all, or those alone that are not always there.
void sweep(const char* when, Arguments which, bool all) {
  for (const Function& function : kFunctions) {
    if (!all && is_always_there(function.name)) continue;
    const Outcome outcome = outcome_of(function, which);
    const char* const fault = fault_of(function, outcome, when);
    if (fault == nullptr) continue;
    std::printf("MPI_%s, %s, with %s %s (code %d, signal %d): %s\n",
                std::string(function.name).c_str(), when,
                which == Arguments::zeros ? "zeros" : "arguments", fault, outcome.code,
                outcome.signal, outcome.said.c_str());
    ++failures;
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string_view name : kAlways)
    WEFT_CHECK(std::any_of(std::begin(kFunctions), std::end(kFunctions),
                           [&](const Function& each) { return each.name == name; }));
  constexpr const char* kBefore = "called before MPI was initialized";
  constexpr const char* kAfter = "called after MPI was finalized";
  for (const Arguments which : {Arguments::zeros, Arguments::plausible})
    sweep(kBefore, which, true);
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Session_finalize(&session);
  // Not what is always there: the child of a process with a runtime has no part in that.
  sweep(kAfter, Arguments::plausible, false);
  MPI_Init(&argc, &argv);
  MPI_Finalize();
  for (const Arguments which : {Arguments::zeros, Arguments::plausible}) sweep(kAfter, which, true);
  return result();
}
