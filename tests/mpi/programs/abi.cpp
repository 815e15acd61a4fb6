// The binary interface: every name can be found, with both prefixes; sizes and values that the
// standard fixes; a tool that stands between.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <set>

#include "check.hpp"

namespace {

constexpr const char* kNames[] = {
#include "mpi/abi/names.inc"
};

static_assert(sizeof(MPI_Status) == 32 && offsetof(MPI_Status, MPI_TAG) == 4 &&
              offsetof(MPI_Status, MPI_ERROR) == 8);
static_assert(sizeof(MPI_Aint) == sizeof(void*) && sizeof(MPI_Count) == 8 &&
              sizeof(MPI_Offset) == 8 && sizeof(MPI_Comm) == sizeof(void*));
static_assert(MPI_VERSION == 5 && MPI_SUBVERSION == 0 && MPI_ABI_VERSION == 1);
static_assert(MPI_ANY_SOURCE == -1 && MPI_ANY_TAG == -2 && MPI_PROC_NULL == -3 && MPI_ROOT == -4 &&
              MPI_UNDEFINED == -32766);
static_assert(MPI_ERR_TRUNCATE == 15 && MPI_ERR_LASTCODE == 16383);

int intercepted = 0;

void names() {
  WEFT_CHECK(std::size(kNames) == 664);
  WEFT_CHECK(std::set<std::string>(std::begin(kNames), std::end(kNames)).size() == 664);
  void* library = dlopen("libmpi_abi.so.1", RTLD_NOW);
  WEFT_CHECK(library != nullptr);
  for (const char* name : kNames) {
    for (const std::string& full : {std::string("MPI_") + name, std::string("PMPI_") + name}) {
      if (dlsym(library, full.c_str()) != nullptr) continue;
      std::printf("%s is not there\n", full.c_str());
      ++failures;
    }
  }
}

void handles() {
  const auto number = [](auto handle) { return reinterpret_cast<intptr_t>(handle); };
  WEFT_CHECK(number(MPI_COMM_WORLD) == 0x101 && number(MPI_INT) == 0x209 &&
             number(MPI_SUM) == 0x21);
  WEFT_CHECK(MPI_Comm_toint(MPI_COMM_SELF) == 0x102 && MPI_Comm_fromint(0x102) == MPI_COMM_SELF);
  WEFT_CHECK(MPI_Type_toint(MPI_DOUBLE) == 0x214 && MPI_Type_fromint(0x214) == MPI_DOUBLE);
  WEFT_CHECK(MPI_Win_fromint(MPI_Win_toint(MPI_WIN_NULL)) == MPI_WIN_NULL);
  WEFT_CHECK(MPI_File_fromint(MPI_File_toint(MPI_FILE_NULL)) == MPI_FILE_NULL);
  MPI_Comm copy;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  WEFT_CHECK(MPI_Comm_fromint(MPI_Comm_toint(copy)) == copy);
  MPI_Comm_free(&copy);
}

/// As Fortran has them: an int, and a status of as many of these.
void fortran() {
  static_assert(sizeof(MPI_Fint) * MPI_F_STATUS_SIZE == sizeof(MPI_Status));
  WEFT_CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
  WEFT_CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
  WEFT_CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
  WEFT_CHECK(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
  WEFT_CHECK(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
  MPI_Datatype pair;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  WEFT_CHECK(MPI_Type_f2c(MPI_Type_c2f(pair)) == pair);
  MPI_Type_free(&pair);
  MPI_Status status;
  MPI_Recv(nullptr, 0, MPI_INT, MPI_PROC_NULL, 3, MPI_COMM_WORLD, &status);
  MPI_Fint numbers[MPI_F_STATUS_SIZE];
  MPI_Status_c2f(&status, numbers);
  WEFT_CHECK(numbers[MPI_F_SOURCE] == MPI_PROC_NULL && numbers[MPI_F_TAG] == MPI_ANY_TAG);
  MPI_Status again;
  MPI_Status_f2c(numbers, &again);
  WEFT_CHECK(again.MPI_SOURCE == MPI_PROC_NULL && again.MPI_TAG == MPI_ANY_TAG);
}

void about() {
  int major = 0;
  int minor = -1;
  MPI_Abi_get_version(&major, &minor);
  WEFT_CHECK(major == 1 && minor == 0);
  MPI_Info info;
  MPI_Abi_get_info(&info);
  char value[16];
  int length = sizeof value;
  int found = 0;
  MPI_Info_get_string(info, "mpi_count_size", &length, value, &found);
  WEFT_CHECK(found == 1 && std::strcmp(value, "8") == 0);
  MPI_Info_free(&info);
  int set = 1;
  char yes[4];
  char no[4];
  MPI_Abi_get_fortran_booleans(4, yes, no, &set);
  WEFT_CHECK(set == 0);
  int32_t one = 1;
  int32_t zero = 0;
  WEFT_CHECK(MPI_Abi_set_fortran_booleans(4, &one, &zero) == MPI_SUCCESS);
  WEFT_CHECK_CLASS(MPI_ERR_ABI, MPI_Abi_set_fortran_booleans(4, &one, &zero));
  MPI_Abi_get_fortran_booleans(4, yes, no, &set);
  WEFT_CHECK(set == 1 && std::memcmp(yes, &one, 4) == 0 && std::memcmp(no, &zero, 4) == 0);
  MPI_Abi_get_fortran_info(&info);
  WEFT_CHECK(info == MPI_INFO_NULL);
  MPI_Info told;
  MPI_Info_create(&told);
  MPI_Info_set(told, "mpi_integer_size", "4");
  WEFT_CHECK(MPI_Abi_set_fortran_info(told) == MPI_SUCCESS);
  WEFT_CHECK_CLASS(MPI_ERR_ABI, MPI_Abi_set_fortran_info(told));
  MPI_Info_free(&told);
  MPI_Abi_get_fortran_info(&info);
  WEFT_CHECK(info != MPI_INFO_NULL);
  MPI_Info_free(&info);
}

/// Functions that are not there yet say so, and nothing else happens.
void unsupported() {
  MPI_Win win = MPI_WIN_NULL;
  WEFT_CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION,
                   MPI_Win_create(nullptr, 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  WEFT_CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Win_fence(0, MPI_WIN_NULL));
  MPI_File file = MPI_FILE_NULL;
  WEFT_CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION,
                   MPI_File_open(MPI_COMM_WORLD, "x", MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
  char port[MPI_MAX_PORT_NAME];
  WEFT_CHECK_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_Open_port(MPI_INFO_NULL, port));
}

}  // namespace

/// A tool's own MPI_Barrier, in front of the library's.
extern "C" int MPI_Barrier(MPI_Comm comm) {
  ++intercepted;
  return PMPI_Barrier(comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  names();
  handles();
  fortran();
  about();
  unsupported();
  MPI_Barrier(MPI_COMM_WORLD);
  WEFT_CHECK(intercepted == 1);
  MPI_Finalize();
  return result();
}
