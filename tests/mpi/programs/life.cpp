// Beginning and end: what may be asked before, between and after, levels of threads, time, memory.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "check.hpp"

namespace {

bool flag_of(int (*ask)(int*)) {
  int flag = -1;
  WEFT_CHECK(ask(&flag) == MPI_SUCCESS && (flag == 0 || flag == 1));
  return flag == 1;
}

int deleted_at_end = 0;

int on_delete(MPI_Comm comm, int /*keyval*/, void* /*value*/, void* /*state*/) {
  int finalized = 1;
  MPI_Finalized(&finalized);
  int size = 0;
  MPI_Comm_size(comm, &size);
  if (finalized == 0 && size == 1) ++deleted_at_end;
  return MPI_SUCCESS;
}

void versions() {
  int version = 0;
  int subversion = -1;
  WEFT_CHECK(MPI_Get_version(&version, &subversion) == MPI_SUCCESS);
  WEFT_CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION);
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  WEFT_CHECK(MPI_Get_library_version(text, &length) == MPI_SUCCESS);
  WEFT_CHECK(length > 0 && static_cast<int>(std::strlen(text)) == length);
}

void memory() {
  void* memory = nullptr;
  WEFT_CHECK(MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory) == MPI_SUCCESS && memory != nullptr);
  std::memset(memory, 1, 1000);
  WEFT_CHECK(MPI_Free_mem(memory) == MPI_SUCCESS);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096");
  WEFT_CHECK(MPI_Alloc_mem(10, info, &memory) == MPI_SUCCESS);
  WEFT_CHECK(reinterpret_cast<uintptr_t>(memory) % 4096 == 0);
  WEFT_CHECK(MPI_Free_mem(memory) == MPI_SUCCESS);
  MPI_Info_free(&info);
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Alloc_mem(-1, MPI_INFO_NULL, &memory));
  WEFT_CHECK_CLASS(MPI_ERR_NO_MEM, MPI_Alloc_mem(PTRDIFF_MAX, MPI_INFO_NULL, &memory));
  WEFT_CHECK_CLASS(MPI_ERR_BASE, MPI_Free_mem(&info));
}

void time() {
  const double before = MPI_Wtime();
  WEFT_CHECK(MPI_Wtick() > 0 && MPI_Wtick() < 1e-3);
  double after = before;
  while (after == before) after = MPI_Wtime();
  WEFT_CHECK(after > before);
}

void names() {
  char name[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  WEFT_CHECK(MPI_Get_processor_name(name, &length) == MPI_SUCCESS);
  WEFT_CHECK(length > 0 && static_cast<int>(std::strlen(name)) == length);
  MPI_Info hardware;
  WEFT_CHECK(MPI_Get_hw_resource_info(&hardware) == MPI_SUCCESS);
  int keys = 0;
  MPI_Info_get_nkeys(hardware, &keys);
  WEFT_CHECK(keys > 0);
  MPI_Info_free(&hardware);
  WEFT_CHECK(MPI_Pcontrol(1) == MPI_SUCCESS);
  MPI_Comm parent = MPI_COMM_SELF;
  WEFT_CHECK(MPI_Comm_get_parent(&parent) == MPI_SUCCESS && parent == MPI_COMM_NULL);
}

}  // namespace

int main(int argc, char** argv) {
  const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                        MPI_THREAD_MULTIPLE};
  const int required = argc > 1 ? levels[std::atoi(argv[1])] : MPI_THREAD_SINGLE;
  WEFT_CHECK(!flag_of(MPI_Initialized) && !flag_of(MPI_Finalized));
  versions();
  int provided = -1;
  if (argc > 1)
    WEFT_CHECK(MPI_Init_thread(&argc, &argv, required, &provided) == MPI_SUCCESS &&
               provided >= required);
  else
    WEFT_CHECK(MPI_Init(nullptr, nullptr) == MPI_SUCCESS);
  WEFT_CHECK(flag_of(MPI_Initialized) && !flag_of(MPI_Finalized));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  WEFT_CHECK_CLASS(MPI_ERR_OTHER, MPI_Init(nullptr, nullptr));
  int level = -1;
  WEFT_CHECK(MPI_Query_thread(&level) == MPI_SUCCESS);
  WEFT_CHECK(argc > 1 ? level == provided : level >= MPI_THREAD_SINGLE);
  WEFT_CHECK(flag_of(MPI_Is_thread_main));
  if (level == MPI_THREAD_MULTIPLE)
    std::thread([] { WEFT_CHECK(!flag_of(MPI_Is_thread_main)); }).join();
  memory();
  time();
  names();
  int keyval = 0;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &keyval);
  WEFT_CHECK(MPI_Finalize() == MPI_SUCCESS);
  WEFT_CHECK(deleted_at_end == 1);
  WEFT_CHECK(flag_of(MPI_Initialized) && flag_of(MPI_Finalized));
  versions();
  return result();
}
