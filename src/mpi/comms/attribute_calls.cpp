// MPI_*_attr and MPI_*_keyval, and the attributes that every communicator has.
#include <atomic>
#include <optional>

#include "mpi/abi/calls.hpp"
#include "mpi/attributes.hpp"
#include "mpi/comm.hpp"
#include "mpi/comms/keyvals.hpp"
#include "mpi/comms/output.hpp"
#include "mpi/datatype.hpp"
#include "mpi/errhandler.hpp"
#include "mpi/process.hpp"
#include "mpi/process/process_life.hpp"
#include "weft/fabric/job.hpp"

namespace weft::mpi {

namespace {

bool is_predefined(int keyval) { return keyval >= MPI_TAG_UB && keyval <= MPI_UNIVERSE_SIZE; }

void refuse_predefined(int keyval) {
  if (is_predefined(keyval)) fail(MPI_ERR_KEYVAL, "a predefined attribute cannot be changed");
}

/// Several threads may ask at once, and get the same.
const int* put(int& place, int value) {
  std::atomic_ref(place).store(value, std::memory_order_relaxed);
  return &place;
}

/// Nullptr: the launcher does not tell.
const int* app_number() {
  static const std::optional<int> number = runtime().job().app_number();
  return number ? &*number : nullptr;
}

/// Where a predefined attribute's value stands: programs are given a pointer to it. Of
/// MPI_COMM_WORLD and of all others.
const int* predefined_value(int keyval) {
  static constexpr int kMostTag = 0x7fffffff;
  static constexpr int kAnybodysIo = MPI_ANY_SOURCE;
  static constexpr int kNoHost = MPI_PROC_NULL;
  static int clock_is_shared;
  static int processes;
  static int last_code;
  switch (keyval) {
    case MPI_TAG_UB:
      return &kMostTag;
    case MPI_IO:
      return &kAnybodysIo;
    case MPI_HOST:
      return &kNoHost;
    case MPI_APPNUM:
      return app_number();
    case MPI_WTIME_IS_GLOBAL:
      return put(clock_is_shared, runtime().job().node_count() == 1 ? 1 : 0);
    case MPI_UNIVERSE_SIZE:
      return put(processes, runtime().size());
    case MPI_LASTUSEDCODE:
      return put(last_code, last_used_code());
    default:
      return nullptr;
  }
}

void store(void* attribute_val, void* value) { *static_cast<void**>(attribute_val) = value; }

}  // namespace

namespace calls {

void Comm_create_keyval(MPI_Comm_copy_attr_function* comm_copy_attr_fn,
                        MPI_Comm_delete_attr_function* comm_delete_attr_fn, int* comm_keyval,
                        void* extra_state) {
  require_output(comm_keyval);
  Keyval keyval{AttributeOf::comm, {}, {}, extra_state};
  keyval.copy.comm = comm_copy_attr_fn;
  keyval.erase.comm = comm_delete_attr_fn;
  *comm_keyval = register_keyval(keyval);
}

void Comm_free_keyval(int* comm_keyval) {
  require_output(comm_keyval);
  free_keyval(AttributeOf::comm, *comm_keyval);
  *comm_keyval = MPI_KEYVAL_INVALID;
}

void Comm_set_attr(MPI_Comm comm, int comm_keyval, void* attribute_val) {
  Comm& object = mpi::comm(comm);
  const Held<Comm> held(&object);  // a callback may free it
  refuse_predefined(comm_keyval);
  object.attributes.set(AttributeOf::comm, comm, comm_keyval, attribute_val);
}

void Comm_get_attr(MPI_Comm comm, int comm_keyval, void* attribute_val, int* flag) {
  const Comm& object = mpi::comm(comm);
  require_output(attribute_val);
  require_output(flag);
  if (const int* value = predefined_value(comm_keyval); value != nullptr) {
    store(attribute_val, const_cast<int*>(value));
    *flag = 1;
    return;
  }
  if (comm_keyval == MPI_APPNUM) {
    *flag = 0;
    return;
  }
  (void)find_keyval(AttributeOf::comm, comm_keyval);
  void* value = nullptr;
  *flag = object.attributes.get(comm_keyval, &value) ? 1 : 0;
  if (*flag != 0) store(attribute_val, value);
}

void Comm_delete_attr(MPI_Comm comm, int comm_keyval) {
  Comm& object = mpi::comm(comm);
  const Held<Comm> held(&object);
  refuse_predefined(comm_keyval);
  object.attributes.erase(AttributeOf::comm, comm, comm_keyval);
}

void Type_create_keyval(MPI_Type_copy_attr_function* type_copy_attr_fn,
                        MPI_Type_delete_attr_function* type_delete_attr_fn, int* type_keyval,
                        void* extra_state) {
  require_output(type_keyval);
  Keyval keyval{AttributeOf::datatype, {}, {}, extra_state};
  keyval.copy.datatype = type_copy_attr_fn;
  keyval.erase.datatype = type_delete_attr_fn;
  *type_keyval = register_keyval(keyval);
}

void Type_free_keyval(int* type_keyval) {
  require_output(type_keyval);
  free_keyval(AttributeOf::datatype, *type_keyval);
  *type_keyval = MPI_KEYVAL_INVALID;
}

void Type_set_attr(MPI_Datatype datatype, int type_keyval, void* attribute_val) {
  attributes_of(any_datatype(datatype))
      .set(AttributeOf::datatype, datatype, type_keyval, attribute_val);
}

void Type_get_attr(MPI_Datatype datatype, int type_keyval, void* attribute_val, int* flag) {
  const AttributeSet& attributes = attributes_of(any_datatype(datatype));
  require_output(attribute_val);
  require_output(flag);
  (void)find_keyval(AttributeOf::datatype, type_keyval);
  void* value = nullptr;
  *flag = attributes.get(type_keyval, &value) ? 1 : 0;
  if (*flag != 0) store(attribute_val, value);
}

void Type_delete_attr(MPI_Datatype datatype, int type_keyval) {
  attributes_of(any_datatype(datatype)).erase(AttributeOf::datatype, datatype, type_keyval);
}

}  // namespace calls
}  // namespace weft::mpi
