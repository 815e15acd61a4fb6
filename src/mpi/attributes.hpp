// Attributes of communicators, datatypes and windows: key values and what programs keep under them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "mpi/abi/mpi.h"

namespace weft::mpi {

enum class AttributeOf : uint8_t { comm, datatype, window };

/// The attributes of one object; empty until the first is set. Calls back into the program without
/// its lock. Callbacks that answer something else than MPI_SUCCESS end the call with that code.
class AttributeSet {
 public:
  struct Entry {
    int keyval;
    void* value;
  };
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
  [[nodiscard]] bool last(Entry& entry) const;
  void forget(int keyval);

  mutable std::mutex lock_;
  std::vector<Entry> entries_;
};

}  // namespace weft::mpi
