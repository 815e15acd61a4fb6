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
  bool found = false;
  for (const Entry& entry : entries_) {
    if (entry.keyval != keyval || (found && entry.deleting)) continue;
    *value = entry.value;
    found = true;
  }
  return found;
}

/// The value that was set under this key value, or of all the last one, for its delete callback;
/// nothing: none is there that nobody has taken.
std::optional<AttributeSet::Entry> AttributeSet::take(std::optional<int> keyval) {
  const base::Parker* const me = &base::this_parker();
  for (;;) {
    {
      const std::scoped_lock guard(lock_);
      const auto found = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
        return !entry.deleting && (!keyval || entry.keyval == *keyval);
      });
      if (found == entries_.rend()) return {};
      const bool copied = std::any_of(copying_.begin(), copying_.end(), [&](const Copying& each) {
        return each.number == found->number;
      });
      const bool copies = std::any_of(copying_.begin(), copying_.end(),
                                      [&](const Copying& each) { return each.by == me; });
      if (!copied || copies) {
        found->deleting = true;
        return *found;
      }
    }
    base::this_parker().yield();  // a callback of the program's runs
  }
}

AttributeSet::Entry* AttributeSet::find(uint64_t number) noexcept {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [number](const Entry& entry) { return entry.number == number; });
  return found == entries_.end() ? nullptr : &*found;
}

void AttributeSet::forget(const Entry& entry) {
  {
    const std::scoped_lock guard(lock_);
    std::erase_if(entries_, [&](const Entry& each) { return each.number == entry.number; });
  }
  count_uses(entry.keyval, -1);
}

/// What the callback answered. What it refuses to delete stays, so that the end of the object, too,
/// can be tried again.
int AttributeSet::erase_taken(AttributeOf kind, void* handle, const Entry& taken) {
  const auto give_back = [&] {
    const std::scoped_lock guard(lock_);
    if (Entry* const entry = find(taken.number); entry != nullptr) entry->deleting = false;
  };
  int code = MPI_SUCCESS;
  try {
    code = call_delete(find_keyval(kind, taken.keyval), handle, taken.keyval, taken.value);
  } catch (...) {
    give_back();
    throw;
  }
  if (code == MPI_SUCCESS) {
    forget(taken);
  } else {
    give_back();
  }
  return code;
}

void AttributeSet::set(AttributeOf kind, void* handle, int keyval, void* value) {
  use_keyval(kind, keyval);  // first: the program may free it meanwhile
  try {
    for (;;) {
      if (const auto older = take(keyval)) {
        if (const int code = erase_taken(kind, handle, *older); code != MPI_SUCCESS)
          refused(code, "delete");
      }
      const std::scoped_lock guard(lock_);
      const bool another = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.keyval == keyval && !entry.deleting;
      });
      if (another) continue;
      entries_.push_back({keyval, value, ++numbers_});  // the last one set is deleted first
      return;
    }
  } catch (...) {
    count_uses(keyval, -1);
    throw;
  }
}

void AttributeSet::erase(AttributeOf kind, void* handle, int keyval) {
  (void)find_keyval(kind, keyval);
  const auto taken = take(keyval);
  if (!taken) fail(MPI_ERR_KEYVAL, "no attribute is set under this key value");
  if (const int code = erase_taken(kind, handle, *taken); code != MPI_SUCCESS)
    refused(code, "delete");
}

int AttributeSet::erase_all(AttributeOf kind, void* handle) {
  while (const auto last = take({})) {
    if (const int code = erase_taken(kind, handle, *last); code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

void AttributeSet::end_all(AttributeOf kind, void* handle) {
  while (const auto last = take({})) {
    (void)call_delete(find_keyval(kind, last->keyval), handle, last->keyval, last->value);
    forget(*last);
  }
}

/// Calls the copy callback; whether there is a copy.
bool AttributeSet::copy_one(AttributeOf kind, void* handle, const Entry& each, void** value) const {
  const auto end = [&] {
    const std::scoped_lock guard(lock_);
    const base::Parker* const me = &base::this_parker();
    copying_.erase(std::find_if(copying_.begin(), copying_.end(), [&](const Copying& one) {
      return one.number == each.number && one.by == me;
    }));
  };
  int flag = 0;
  int code = MPI_SUCCESS;
  try {
    code = call_copy(find_keyval(kind, each.keyval), handle, each.keyval, each.value, value, &flag);
  } catch (...) {
    end();
    throw;
  }
  end();
  if (code != MPI_SUCCESS) refused(code, "copy");
  return flag != 0;
}

void AttributeSet::copy_to(AttributeOf kind, void* handle, AttributeSet& copy) const {
  std::vector<Entry> present;
  {
    const std::scoped_lock guard(lock_);
    present = entries_;
  }
  for (const Entry& each : present) {
    {
      const std::scoped_lock guard(lock_);
      const bool is_there = std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.number == each.number && !entry.deleting;
      });
      if (!is_there) continue;
      copying_.push_back({each.number, &base::this_parker()});
      count_uses(each.keyval, +1);  // the copy's, while the value's own is sure to be there
    }
    try {
      void* value = nullptr;
      if (copy_one(kind, handle, each, &value)) {
        const std::scoped_lock guard(copy.lock_);
        copy.entries_.push_back({each.keyval, value, ++copy.numbers_});
        continue;
      }
    } catch (...) {
      count_uses(each.keyval, -1);
      throw;
    }
    count_uses(each.keyval, -1);
  }
}

}  // namespace weft::mpi
