// The calls on statuses, but for counts (types/).
#include "mpi/abi/calls.hpp"
#include "mpi/comms/output.hpp"
#include "mpi/failure.hpp"
#include "mpi/status.hpp"

namespace weft::mpi::calls {

namespace {

void require_status(const MPI_Status* status) {
  require(status != MPI_STATUS_IGNORE, MPI_ERR_ARG, "MPI_STATUS_IGNORE where a status must be");
}

}  // namespace

void Test_cancelled(const MPI_Status* status, int* flag) {
  require_status(status);
  require_output(flag);
  *flag = status->MPI_internal[2] != 0 ? 1 : 0;
}

void Status_set_cancelled(MPI_Status* status, int flag) {
  require_status(status);
  status->MPI_internal[2] = flag != 0 ? 1 : 0;
}

void Status_get_source(const MPI_Status* status, int* source) {
  require_status(status);
  require_output(source);
  *source = status->MPI_SOURCE;
}

void Status_get_tag(const MPI_Status* status, int* tag) {
  require_status(status);
  require_output(tag);
  *tag = status->MPI_TAG;
}

void Status_get_error(const MPI_Status* status, int* error) {
  require_status(status);
  require_output(error);
  *error = status->MPI_ERROR;
}

void Status_set_source(MPI_Status* status, int source) {
  require_status(status);
  status->MPI_SOURCE = source;
}

void Status_set_tag(MPI_Status* status, int tag) {
  require_status(status);
  status->MPI_TAG = tag;
}

void Status_set_error(MPI_Status* status, int error) {
  require_status(status);
  status->MPI_ERROR = error;
}

}  // namespace weft::mpi::calls
