// Beginning and ending the tool interface; enumerations.
#include "mpi/tool/tool.hpp"

#include <algorithm>
#include <cstring>
#include <deque>

#include "mpi/abi/calls.hpp"
#include "weft/mpi/config.hpp"

namespace weft::mpi {
namespace tool {
namespace {

struct State {
  std::mutex lock;
  int users = 0;
  bool configured = false;
  std::vector<const base::ConfigKey*> variables;
  std::deque<Enumeration> enumerations;  ///< by variable; without items: none
};

State& state() {
  static State& one = *new State;
  return one;
}

Enumeration enumerate(const base::ConfigKey& key) {
  Enumeration made{std::string(key.key), {}};
  if (key.type == base::ConfigType::boolean) made.items = {"off", "on"};
  if (key.type == base::ConfigType::choice) {
    std::string_view rest = key.choices;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find('|'));
      made.items.emplace_back(item);
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
  }
  return made;
}

/// Under the lock.
void read_configuration() {
  register_mpi_config();
  for (const base::ConfigValue& value : base::all_config()) {
    state().variables.push_back(value.key);
    state().enumerations.push_back(enumerate(*value.key));
  }
  state().configured = true;
}

const Enumeration& enumeration(MPI_T_enum handle) {
  for (const Enumeration& known : state().enumerations)
    if (handle_of(&known) == handle && !known.items.empty()) return known;
  fail(MPI_T_ERR_INVALID_HANDLE, "not an enumeration");
}

}  // namespace

std::mutex& lock() noexcept { return state().lock; }

Entered::Entered() : guard_(state().lock) {
  if (state().users == 0) fail(MPI_T_ERR_NOT_INITIALIZED, "MPI_T_init_thread was not called");
}

void put_text(std::string_view text, char* out, int* length) noexcept {
  if (length == nullptr) return;
  if (out != nullptr && *length > 0) {
    const std::size_t kept = std::min(text.size(), static_cast<std::size_t>(*length) - 1);
    std::memcpy(out, text.data(), kept);
    out[kept] = '\0';
  }
  *length = static_cast<int>(text.size()) + 1;
}

const std::vector<const base::ConfigKey*>& variables() { return state().variables; }

const Enumeration* enumeration_of(const base::ConfigKey& key) {
  for (std::size_t i = 0; i < state().variables.size(); ++i)
    if (state().variables[i] == &key)
      return state().enumerations[i].items.empty() ? nullptr : &state().enumerations[i];
  return nullptr;
}

MPI_T_enum handle_of(const Enumeration* enumeration) noexcept {
  return reinterpret_cast<MPI_T_enum>(const_cast<Enumeration*>(enumeration));
}

}  // namespace tool

namespace calls {

using namespace tool;  // NOLINT(google-build-using-namespace)

void T_init_thread(int required, int* provided) {
  if (required < MPI_THREAD_SINGLE || required > MPI_THREAD_MULTIPLE)
    fail(MPI_T_ERR_INVALID, "not a thread level");
  const std::scoped_lock guard(state().lock);
  if (!state().configured) read_configuration();
  ++state().users;
  put(provided, MPI_THREAD_MULTIPLE);
}

void T_finalize() {
  const Entered entered;
  --state().users;
}

void T_enum_get_info(MPI_T_enum enumtype, int* num, char* name, int* name_len) {
  const Entered entered;
  const Enumeration& found = enumeration(enumtype);
  put(num, static_cast<int>(found.items.size()));
  put_text(found.name, name, name_len);
}

void T_enum_get_item(MPI_T_enum enumtype, int indx, int* value, char* name, int* name_len) {
  const Entered entered;
  const Enumeration& found = enumeration(enumtype);
  check_index(indx, found.items.size());
  put(value, indx);
  put_text(found.items[static_cast<std::size_t>(indx)], name, name_len);
}

}  // namespace calls
}  // namespace weft::mpi
