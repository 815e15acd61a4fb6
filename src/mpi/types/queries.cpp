// What a datatype is asked: size, bounds, name, attributes; its commit and its end.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <string>

#include "mpi/abi/calls.hpp"
#include "mpi/attributes.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/builder.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {
namespace {

/// Of the names of all datatypes.
std::mutex& names_lock() {
  static std::mutex lock;
  return lock;
}

}  // namespace

namespace calls {

void Type_commit(MPI_Datatype* datatype) {
  require(datatype != nullptr, MPI_ERR_ARG, "no datatype given");
  TypeBuilder::commit(any_datatype(*datatype));
}

void Type_free(MPI_Datatype* datatype) {
  require(datatype != nullptr, MPI_ERR_ARG, "no datatype given");
  Datatype& type = any_datatype(*datatype);
  if (type.predefined()) fail(MPI_ERR_TYPE, "a predefined datatype cannot be freed");
  const Held<Datatype> held(&type);  // a callback may free it
  const int code = type.attributes->erase_all(AttributeOf::datatype, *datatype);
  if (code != MPI_SUCCESS) {
    fail(code, "a delete callback of an attribute refused: the datatype was not freed");
  }
  // Another thread may have been faster; then there is nothing left to drop.
  if (Datatype* ended = datatypes().remove(*datatype); ended != nullptr) ended->drop();
  *datatype = MPI_DATATYPE_NULL;
}

void Type_size(MPI_Datatype datatype, MPI_Count* size) {
  const Datatype& type = any_datatype(datatype);
  require(size != nullptr, MPI_ERR_ARG, "no place for the size");
  *size = type.supported() ? type.size() : MPI_UNDEFINED;
}

void Type_get_extent(MPI_Datatype datatype, MPI_Count* lb, MPI_Count* extent) {
  const Datatype& type = any_datatype(datatype);
  require(lb != nullptr && extent != nullptr, MPI_ERR_ARG, "no place for the bounds");
  *lb = type.lower_bound();
  *extent = type.extent();
}

void Type_get_true_extent(MPI_Datatype datatype, MPI_Count* true_lb, MPI_Count* true_extent) {
  const Datatype& type = any_datatype(datatype);
  require(true_lb != nullptr && true_extent != nullptr, MPI_ERR_ARG, "no place for the bounds");
  *true_lb = type.true_lower_bound();
  *true_extent = type.true_extent();
}

void Type_set_name(MPI_Datatype datatype, const char* name) {
  Datatype& type = any_datatype(datatype);
  require(name != nullptr, MPI_ERR_ARG, "no name given");
  const std::scoped_lock guard(names_lock());
  type.name.assign(name, strnlen(name, MPI_MAX_OBJECT_NAME - 1));
}

void Type_get_name(MPI_Datatype datatype, char* name, int* length) {
  require(name != nullptr && length != nullptr, MPI_ERR_ARG, "no place for the name");
  std::string found = "MPI_DATATYPE_NULL";
  if (datatype != MPI_DATATYPE_NULL) {
    const Datatype& type = any_datatype(datatype);
    const std::scoped_lock guard(names_lock());
    found = type.name;
  }
  std::memcpy(name, found.c_str(), found.size() + 1);
  *length = static_cast<int>(found.size());
}

void Get_address(const void* location, MPI_Aint* address) {
  require(address != nullptr, MPI_ERR_ARG, "no place for the address");
  *address = reinterpret_cast<MPI_Aint>(location);
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
