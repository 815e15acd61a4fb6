// What programs keep under key values: storing, and calling back.
#include "mpi/attributes.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "mpi/comms/keyvals.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi {

namespace {

// The ABI's stand-ins for functions: 0 does nothing, 1 copies the value.
constexpr uintptr_t kNull = 0;
constexpr uintptr_t kDuplicate = 1;
static_assert(MPI_KEYVAL_INVALID == 0);

int call_delete(const Keyval& keyval, void* handle, int number, void* value) {
  if (keyval.erase.comm == MPI_COMM_NULL_DELETE_FN) return MPI_SUCCESS;
  switch (keyval.kind) {
    case AttributeOf::comm:
      return keyval.erase.comm(static_cast<MPI_Comm>(handle), number, value, keyval.extra_state);
    case AttributeOf::datatype:
      return keyval.erase.datatype(static_cast<MPI_Datatype>(handle), number, value,
                                   keyval.extra_state);
    default:
      return keyval.erase.window(static_cast<MPI_Win>(handle), number, value, keyval.extra_state);
  }
}

int call_copy(const Keyval& keyval, void* handle, int number, void* value, void** copied,
              int* flag) {
  switch (reinterpret_cast<uintptr_t>(keyval.copy.comm)) {
    case kNull:
      *flag = 0;
      return MPI_SUCCESS;
    case kDuplicate:
      *flag = 1;
      *copied = value;
      return MPI_SUCCESS;
    default:
      break;
  }
  switch (keyval.kind) {
    case AttributeOf::comm:
      return keyval.copy.comm(static_cast<MPI_Comm>(handle), number, keyval.extra_state, value,
                              copied, flag);
    case AttributeOf::datatype:
      return keyval.copy.datatype(static_cast<MPI_Datatype>(handle), number, keyval.extra_state,
                                  value, copied, flag);
    default:
      return keyval.copy.window(static_cast<MPI_Win>(handle), number, keyval.extra_state, value,
                                copied, flag);
  }
}

[[noreturn]] void refused(int code, const char* what) {
  fail(code, std::string("the ") + what + " callback of an attribute answered code " +
                 std::to_string(code));
}

}  // namespace

bool AttributeSet::get(int keyval, void** value) const {
  const std::scoped_lock guard(lock_);
  for (const Entry& entry : entries_) {
    if (entry.keyval != keyval) continue;
    *value = entry.value;
    return true;
  }
  return false;
}

void AttributeSet::set(AttributeOf kind, void* handle, int keyval, void* value) {
  const Keyval found = settable_keyval(kind, keyval);
  void* older = nullptr;
  const bool replaces = get(keyval, &older);
  if (replaces) {
    if (const int code = call_delete(found, handle, keyval, older); code != MPI_SUCCESS)
      refused(code, "delete");
  } else {
    count_uses(keyval, +1);
  }
  const std::scoped_lock guard(lock_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.keyval == keyval; });
  entries_.push_back({keyval, value});  // the last one set is the first to be deleted
}

void AttributeSet::erase(AttributeOf kind, void* handle, int keyval) {
  const Keyval found = find_keyval(kind, keyval);
  void* value = nullptr;
  if (!get(keyval, &value)) fail(MPI_ERR_KEYVAL, "no attribute is set under this key value");
  if (const int code = call_delete(found, handle, keyval, value); code != MPI_SUCCESS)
    refused(code, "delete");
  forget(keyval);
}

bool AttributeSet::last(Entry& entry) const {
  const std::scoped_lock guard(lock_);
  if (entries_.empty()) return false;
  entry = entries_.back();
  return true;
}

void AttributeSet::forget(int keyval) {
  {
    const std::scoped_lock guard(lock_);
    std::erase_if(entries_, [&](const Entry& entry) { return entry.keyval == keyval; });
  }
  count_uses(keyval, -1);
}

int AttributeSet::erase_all(AttributeOf kind, void* handle) {
  for (Entry each{}; last(each);) {
    // What a callback refuses to delete stays, so that the object's end can be tried again.
    const int code = call_delete(find_keyval(kind, each.keyval), handle, each.keyval, each.value);
    if (code != MPI_SUCCESS) return code;
    forget(each.keyval);
  }
  return MPI_SUCCESS;
}

void AttributeSet::end_all(AttributeOf kind, void* handle) {
  for (Entry each{}; last(each);) {
    (void)call_delete(find_keyval(kind, each.keyval), handle, each.keyval, each.value);
    forget(each.keyval);
  }
}

void AttributeSet::copy_to(AttributeOf kind, void* handle, AttributeSet& copy) const {
  std::vector<Entry> present;
  {
    const std::scoped_lock guard(lock_);
    present = entries_;
  }
  for (const Entry& entry : present) {
    void* value = nullptr;
    int flag = 0;
    const int code = call_copy(find_keyval(kind, entry.keyval), handle, entry.keyval, entry.value,
                               &value, &flag);
    if (code != MPI_SUCCESS) refused(code, "copy");
    if (flag == 0) continue;
    count_uses(entry.keyval, +1);
    const std::scoped_lock guard(copy.lock_);
    copy.entries_.push_back({entry.keyval, value});
  }
}

}  // namespace weft::mpi
