// Attributes of communicators, datatypes and windows: key values and what programs keep under them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "mpi/abi/mpi.h"
#include "weft/base/parker.hpp"

namespace weft::mpi {

enum class AttributeOf : uint8_t { comm, datatype, window };

/// The attributes of one object; empty until the first is set. Calls back into the program without
/// its lock. Callbacks that answer something else than MPI_SUCCESS end the call with that code.
///
/// Threads at once: as if one after the other. A value has one delete callback: who begins it has
/// taken the value, and who would delete, replace or copy it finds none any more, while `get` finds
/// it until the callback has ended. If that refuses, it is there again. It waits for copy callbacks
/// of this object's, unless it is called in one.
class AttributeSet {
 public:
  [[nodiscard]] bool get(int keyval, void** value) const;
  /// Runs the delete callback of an older value first. `handle`: of the object, for callbacks.
  void set(AttributeOf kind, void* handle, int keyval, void* value);
  void erase(AttributeOf kind, void* handle, int keyval);
  /// The object ends: delete callbacks, last set first. The code of the first that failed.
  int erase_all(AttributeOf kind, void* handle);
  /// The same where the object goes whatever they answer: each is called, once.
  void end_all(AttributeOf kind, void* handle);
  /// The object is duplicated: copy callbacks.
  void copy_to(AttributeOf kind, void* handle, AttributeSet& copy) const;

 private:
  struct Entry {
    int keyval;
    void* value;
    uint64_t number;        ///< unlike any other of this object, ever
    bool deleting = false;  ///< by its callback, called without the lock
  };
  /// A copy callback that runs, likewise.
  struct Copying {
    uint64_t number;
    const base::Parker* by;  ///< a thread's or a task's
  };
  std::optional<Entry> take(std::optional<int> keyval);
  int erase_taken(AttributeOf kind, void* handle, const Entry& taken);
  bool copy_one(AttributeOf kind, void* handle, const Entry& each, void** value) const;
  [[nodiscard]] Entry* find(uint64_t number) noexcept;
  void forget(const Entry& entry);

  mutable std::mutex lock_;
  std::vector<Entry> entries_;  ///< in the order in which they were set
  mutable std::vector<Copying> copying_;
  uint64_t numbers_ = 0;  ///< given to entries
};

}  // namespace weft::mpi
