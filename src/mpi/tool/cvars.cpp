// Control variables of the tool interface: weft's configuration.
//
// Booleans and choices are ints with an enumeration, other numbers MPI_COUNTs (bytes, nanoseconds),
// texts chars. They can be set while there is no process, nor one being made: before MPI is
// initialized, and after it was ended.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/handle.hpp"
#include "mpi/process.hpp"
#include "mpi/process/caller.hpp"
#include "mpi/process/leaks.hpp"
#include "mpi/tool/tool.hpp"

namespace weft::mpi {
namespace tool {
namespace {

using base::ConfigKey;
using base::ConfigType;

constexpr int kTextLength = 1024;

/// The handles that were given out, each a record of its own, and where (program_call).
std::map<const ConfigKey* const*, const void*>& given() {
  static auto& one = *new std::map<const ConfigKey* const*, const void*>;
  return one;
}

const ConfigKey& variable(MPI_T_cvar_handle handle) {
  const auto found = given().find(reinterpret_cast<const ConfigKey* const*>(handle));
  if (found == given().end()) fail(MPI_T_ERR_INVALID_HANDLE, "not a handle of a control variable");
  return **found->first;
}

MPI_Datatype type_of(const ConfigKey& key) noexcept {
  switch (key.type) {
    case ConfigType::boolean:
    case ConfigType::choice:
      return MPI_INT;
    case ConfigType::text:
      return MPI_CHAR;
    default:
      return MPI_COUNT;
  }
}

int number_of(const ConfigKey& key, const std::string& choice) {
  const auto& items = enumeration_of(key)->items;
  return static_cast<int>(std::find(items.begin(), items.end(), choice) - items.begin());
}

void read(const ConfigKey& key, void* out) {
  if (type_of(key) == MPI_CHAR) {
    const std::string text = base::config_text(key.key);
    const std::size_t kept = std::min<std::size_t>(text.size(), kTextLength - 1);
    std::memcpy(out, text.data(), kept);
    static_cast<char*>(out)[kept] = '\0';
  } else if (type_of(key) == MPI_COUNT) {
    const MPI_Count number = base::config_int(key.key);
    std::memcpy(out, &number, sizeof number);
  } else {
    const int number = key.type == ConfigType::boolean
                           ? static_cast<int>(base::config_bool(key.key))
                           : number_of(key, base::config_text(key.key));
    std::memcpy(out, &number, sizeof number);
  }
}

/// What is to be set, as a user would write it.
std::string written(const ConfigKey& key, const void* in) {
  if (type_of(key) == MPI_CHAR) {
    const auto* text = static_cast<const char*>(in);
    return {text, strnlen(text, kTextLength)};
  }
  if (type_of(key) == MPI_COUNT) {
    MPI_Count number;
    std::memcpy(&number, in, sizeof number);
    return std::to_string(number) + (key.type == ConfigType::nanoseconds ? "ns" : "");
  }
  int number;
  std::memcpy(&number, in, sizeof number);
  const auto& items = enumeration_of(key)->items;
  check_index(number, items.size(), MPI_T_ERR_INVALID);
  return items[static_cast<std::size_t>(number)];
}

}  // namespace

void tell_leaks_of_cvars() {
  std::vector<std::string> which;
  {
    const std::scoped_lock guard(lock());
    for (const auto& [record, call] : given())
      which.push_back(std::string((*record)->key) + made_at(call));
  }
  tell_leaks("handles of control variables", which);
}

}  // namespace tool

namespace calls {

using namespace tool;  // NOLINT(google-build-using-namespace)

void T_cvar_get_num(int* num_cvar) {
  const Entered entered;
  put(num_cvar, static_cast<int>(variables().size()));
}

void T_cvar_get_info(int cvar_index, char* name, int* name_len, int* verbosity,
                     MPI_Datatype* datatype, MPI_T_enum* enumtype, char* desc, int* desc_len,
                     int* bind, int* scope) {
  const Entered entered;
  check_index(cvar_index, variables().size());
  const ConfigKey& key = *variables()[static_cast<std::size_t>(cvar_index)];
  put_text(key.key, name, name_len);
  put_text(key.help, desc, desc_len);
  put(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
  put(datatype, type_of(key));
  const Enumeration* names = enumeration_of(key);
  put(enumtype, names != nullptr ? handle_of(names) : MPI_T_ENUM_NULL);
  put(bind, MPI_T_BIND_NO_OBJECT);
  put(scope, MPI_T_SCOPE_ALL_EQ);
}

void T_cvar_get_index(const char* name, int* cvar_index) {
  const Entered entered;
  if (name == nullptr) fail(MPI_T_ERR_INVALID_NAME, "no name");
  for (std::size_t i = 0; i < variables().size(); ++i) {
    if (variables()[i]->key == name) return put(cvar_index, static_cast<int>(i));
  }
  fail(MPI_T_ERR_INVALID_NAME, "no control variable has that name");
}

void T_cvar_handle_alloc(int cvar_index, void* obj_handle, MPI_T_cvar_handle* handle, int* count) {
  (void)obj_handle;  // none is bound to an object
  const Entered entered;
  check_index(cvar_index, variables().size());
  if (handle == nullptr) fail(MPI_T_ERR_INVALID, "no place for the handle");
  auto* record = new const ConfigKey*(variables()[static_cast<std::size_t>(cvar_index)]);
  given().emplace(record, program_call());
  *handle = reinterpret_cast<MPI_T_cvar_handle>(record);
  put(count, type_of(**record) == MPI_CHAR ? kTextLength : 1);
}

void T_cvar_handle_free(MPI_T_cvar_handle* handle) {
  const Entered entered;
  if (handle == nullptr) fail(MPI_T_ERR_INVALID_HANDLE, "no handle");
  (void)variable(*handle);
  const auto* record = reinterpret_cast<const ConfigKey* const*>(*handle);
  given().erase(record);
  delete record;
  *handle = MPI_T_CVAR_HANDLE_NULL;
}

void T_cvar_read(MPI_T_cvar_handle handle, void* buf) {
  const Entered entered;
  const ConfigKey& key = variable(handle);
  if (buf == nullptr) fail(MPI_T_ERR_INVALID, "no buffer");
  tool::read(key, buf);
}

void T_cvar_write(MPI_T_cvar_handle handle, const void* buf) {
  const Entered entered;
  const ConfigKey& key = variable(handle);
  if (buf == nullptr) fail(MPI_T_ERR_INVALID, "no buffer");
  if (is_configured())
    fail(MPI_T_ERR_CVAR_SET_NOT_NOW, "configuration is read when MPI is initialized");
  try {
    base::set_config(key.key, written(key, buf));
  } catch (const Error& error) {
    fail(MPI_T_ERR_INVALID, error.what());
  }
}

}  // namespace calls
}  // namespace weft::mpi
