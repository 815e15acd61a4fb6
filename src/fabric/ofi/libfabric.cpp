#include "fabric/ofi/libfabric.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sched.h>

#include <array>
#include <csignal>

#include "weft/base/error.hpp"

namespace weft::fabric::ofi {

namespace {

/// Remembers what a thread's process does about signals, and where the thread may run, and puts it
/// back at the end.
class Unchanged {
 public:
  Unchanged() noexcept {
    for (int signal = 1; signal < kSignals; ++signal)
      (void)::sigaction(signal, nullptr, &at(signal));
    known_ = ::sched_getaffinity(0, sizeof processors_, &processors_) == 0;
  }
  ~Unchanged() {
    for (int signal = 1; signal < kSignals; ++signal) {
      struct sigaction now {};
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != at(signal).sa_handler)
        (void)::sigaction(signal, &at(signal), nullptr);
    }
    if (known_) (void)::sched_setaffinity(0, sizeof processors_, &processors_);
  }
  Unchanged(const Unchanged&) = delete;
  Unchanged& operator=(const Unchanged&) = delete;

 private:
  static constexpr int kSignals = 32;  ///< those without names are nobody's default
  struct sigaction& at(int signal) {
    return actions_[static_cast<std::size_t>(signal)];
  }
  std::array<struct sigaction, kSignals> actions_{};
  cpu_set_t processors_{};
  bool known_ = false;
};

template <class Function>
void find(void* library, const char* name, const char* version, Function& function) {
  void* const found = ::dlvsym(library, name, version);
  if (found == nullptr)
    throw Error(Errc::bad_config,
                fmt::format("ofi: the libfabric installed here has no {} of version {}, which weft "
                            "was built with",
                            name, version));
  function = reinterpret_cast<Function>(found);
}

Libfabric load() {
  const Unchanged unchanged;
  // By its name, as if it were linked; or where it was when weft was built.
  void* library = ::dlopen(WEFT_LIBFABRIC_NAME, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = ::dlopen(WEFT_LIBFABRIC_PLACE, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(Errc::bad_config,
                fmt::format("ofi: needs libfabric, which cannot be loaded: {}", ::dlerror()));
  Libfabric functions{};
  find(library, "fi_getinfo", WEFT_FI_GETINFO, functions.getinfo);
  find(library, "fi_freeinfo", WEFT_FI_FREEINFO, functions.freeinfo);
  find(library, "fi_dupinfo", WEFT_FI_DUPINFO, functions.dupinfo);
  find(library, "fi_fabric", WEFT_FI_FABRIC, functions.fabric);
  find(library, "fi_strerror", WEFT_FI_STRERROR, functions.strerror);
  // It loads providers, where these are libraries of their own.
  fi_info* list = nullptr;
  if (functions.getinfo(FI_VERSION(1, 15), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &list) ==
      0)
    functions.freeinfo(list);
  return functions;
}

Libfabric& loaded() {
  static Libfabric functions = load();
  return functions;
}

}  // namespace

const Libfabric& libfabric() { return loaded(); }

void replace_libfabric(const Libfabric& functions) { loaded() = functions; }

}  // namespace weft::fabric::ofi
