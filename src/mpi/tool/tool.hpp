// What the parts of the tool interface (MPI_T) share: whether it is up, its lock, and how texts and
// numbers reach the caller.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/failure.hpp"
#include "weft/base/config.hpp"

namespace weft::mpi::tool {

/// Of all that MPI_T remembers. Tool calls are rare: one lock serves.
std::mutex& lock() noexcept;

/// Begins each call: throws MPI_T_ERR_NOT_INITIALIZED unless MPI_T_init_thread was called, and
/// holds the lock.
class Entered {
 public:
  Entered();

 private:
  std::scoped_lock<std::mutex> guard_;
};

/// Answers may be left out by null.
template <class T>
void put(T* out, T value) noexcept {
  if (out != nullptr) *out = value;
}
/// A text into `*length` bytes at `out`, cut where it does not fit; `*length` becomes what it
/// takes.
void put_text(std::string_view text, char* out, int* length) noexcept;

/// What MPI_T knows of the configuration: its keys when MPI_T was first initialized, by number.
const std::vector<const base::ConfigKey*>& variables();

/// The names of a choice, or of a boolean's two values.
struct Enumeration {
  std::string name;
  std::vector<std::string> items;
};
/// The enumeration of a variable, nullptr for numbers and texts. Lives for ever.
const Enumeration* enumeration_of(const base::ConfigKey& key);
MPI_T_enum handle_of(const Enumeration* enumeration) noexcept;

/// Of handles and sessions that nobody freed (process/leaks.hpp).
void tell_leaks_of_pvars();
void tell_leaks_of_cvars();

/// Throws `code` unless 0 <= index < size.
inline void check_index(int index, std::size_t size, int code = MPI_T_ERR_INVALID_INDEX) {
  if (index < 0 || static_cast<std::size_t>(index) >= size)
    fail(code, "no variable, category or item of that number");
}

}  // namespace weft::mpi::tool
