// Key values: what a program registered for its attributes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/abi/mpi.h"
#include "mpi/attributes.hpp"
#include "mpi/datatype.hpp"

namespace weft::mpi {

/// The callbacks of a key value, of whichever kind of object: the ABI's handles are all pointers,
/// but a function is called as what it is.
union CopyCallback {
  MPI_Comm_copy_attr_function* comm = nullptr;
  MPI_Type_copy_attr_function* datatype;
  MPI_Win_copy_attr_function* window;
};
union DeleteCallback {
  MPI_Comm_delete_attr_function* comm = nullptr;
  MPI_Type_delete_attr_function* datatype;
  MPI_Win_delete_attr_function* window;
};

/// A key value. Registered until it was freed and no attribute uses it any more.
struct Keyval {
  AttributeOf kind = AttributeOf::comm;
  CopyCallback copy;
  DeleteCallback erase;
  void* extra_state = nullptr;
};

/// Its number.
int register_keyval(const Keyval& keyval);
/// The program freed it; throws MPI_ERR_KEYVAL.
void free_keyval(AttributeOf kind, int number);
/// What is registered under a number; throws MPI_ERR_KEYVAL, for numbers of another kind, too. One
/// that was freed is there for as long as attributes use it, which may still be read and deleted.
[[nodiscard]] Keyval find_keyval(AttributeOf kind, int number);
/// An attribute is to be set, which uses it from now on; throws MPI_ERR_KEYVAL, for one that was
/// freed, too.
void use_keyval(AttributeOf kind, int number);
/// An attribute more (+1), or less (-1), uses it.
void count_uses(int number, int change) noexcept;
/// Forgets them all; of those that the program had not freed, what and where made.
std::vector<std::string> forget_keyvals();

/// The attributes of a datatype, made on first use.
[[nodiscard]] AttributeSet& attributes_of(Datatype& type);

}  // namespace weft::mpi
