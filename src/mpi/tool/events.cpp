// Events of the tool interface: there are none, and every call says so.
#include "mpi/abi/calls.hpp"
#include "mpi/tool/tool.hpp"

namespace weft::mpi::calls {

using namespace tool;  // NOLINT(google-build-using-namespace)

namespace {

[[noreturn]] void no_event() { fail(MPI_T_ERR_INVALID_INDEX, "there are no events"); }
[[noreturn]] void no_source() { fail(MPI_T_ERR_INVALID_INDEX, "there are no sources of events"); }
[[noreturn]] void no_handle() { fail(MPI_T_ERR_INVALID_HANDLE, "there are no events"); }

}  // namespace

void T_event_callback_get_info(MPI_T_event_registration /*event_registration*/,
                               MPI_T_cb_safety /*cb_safety*/, MPI_Info* /*info_used*/) {
  const Entered entered;
  no_handle();
}

void T_event_callback_set_info(MPI_T_event_registration /*event_registration*/,
                               MPI_T_cb_safety /*cb_safety*/, MPI_Info /*info*/) {
  const Entered entered;
  no_handle();
}

void T_event_copy(MPI_T_event_instance /*event_instance*/, void* /*buffer*/) {
  const Entered entered;
  no_handle();
}

void T_event_get_index(const char* /*name*/, int* /*event_index*/) {
  const Entered entered;
  fail(MPI_T_ERR_INVALID_NAME, "there are no events");
}

void T_event_get_info(int /*event_index*/, char* /*name*/, int* /*name_len*/, int* /*verbosity*/,
                      MPI_Datatype /*array_of_datatypes*/[], MPI_Aint /*array_of_displacements*/[],
                      int* /*num_elements*/, MPI_T_enum* /*enumtype*/, MPI_Info* /*info*/,
                      char* /*desc*/, int* /*desc_len*/, int* /*bind*/) {
  const Entered entered;
  no_event();
}

void T_event_get_num(int* num_events) {
  const Entered entered;
  put(num_events, 0);
}

void T_event_get_source(MPI_T_event_instance /*event_instance*/, int* /*source_index*/) {
  const Entered entered;
  no_handle();
}

void T_event_get_timestamp(MPI_T_event_instance /*event_instance*/,
                           MPI_Count* /*event_timestamp*/) {
  const Entered entered;
  no_handle();
}

void T_event_handle_alloc(int /*event_index*/, void* /*obj_handle*/, MPI_Info /*info*/,
                          MPI_T_event_registration* /*event_registration*/) {
  const Entered entered;
  no_event();
}

void T_event_handle_free(MPI_T_event_registration /*event_registration*/, void* /*user_data*/,
                         MPI_T_event_free_cb_function /*free_cb_function*/) {
  const Entered entered;
  no_handle();
}

void T_event_handle_get_info(MPI_T_event_registration /*event_registration*/,
                             MPI_Info* /*info_used*/) {
  const Entered entered;
  no_handle();
}

void T_event_handle_set_info(MPI_T_event_registration /*event_registration*/, MPI_Info /*info*/) {
  const Entered entered;
  no_handle();
}

void T_event_read(MPI_T_event_instance /*event_instance*/, int /*element_index*/,
                  void* /*buffer*/) {
  const Entered entered;
  no_handle();
}

void T_event_register_callback(MPI_T_event_registration /*event_registration*/,
                               MPI_T_cb_safety /*cb_safety*/, MPI_Info /*info*/,
                               void* /*user_data*/, MPI_T_event_cb_function /*event_cb_function*/) {
  const Entered entered;
  no_handle();
}

void T_event_set_dropped_handler(MPI_T_event_registration /*event_registration*/,
                                 MPI_T_event_dropped_cb_function /*dropped_cb_function*/) {
  const Entered entered;
  no_handle();
}

void T_source_get_info(int /*source_index*/, char* /*name*/, int* /*name_len*/, char* /*desc*/,
                       int* /*desc_len*/, MPI_T_source_order* /*ordering*/,
                       MPI_Count* /*ticks_per_second*/, MPI_Count* /*max_ticks*/,
                       MPI_Info* /*info*/) {
  const Entered entered;
  no_source();
}

void T_source_get_num(int* num_sources) {
  const Entered entered;
  put(num_sources, 0);
}

void T_source_get_timestamp(int /*source_index*/, MPI_Count* /*timestamp*/) {
  const Entered entered;
  no_source();
}

}  // namespace weft::mpi::calls
