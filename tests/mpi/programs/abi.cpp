// The binary interface: every name can be found, with both prefixes; sizes and values that the
// standard fixes; a tool that stands between. With an argument, what a Fortran binding tells of its
// compiler "early", before MPI_Init, or "late", which a process can do once.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "check.hpp"

namespace {

constexpr const char* kNames[] = {
#define WEFT_MPI_FUNCTION(name, state) #name,
#include "mpi/abi/names.inc"
#undef WEFT_MPI_FUNCTION
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

MPI_Info fortran_info(const char* integer_size) {
  MPI_Info told;
  MPI_Info_create(&told);
  MPI_Info_set(told, "mpi_integer_size", integer_size);
  MPI_Info_set(told, "mpi_logical_size", "8");
  MPI_Info_set(told, "mpi_real_size", "8");
  MPI_Info_set(told, "mpi_double_precision_size", "16");
  MPI_Info_set(told, "mpi_real8_supported", "true");
  for (const char* lacking : {"mpi_real16_supported", "mpi_integer2_supported",
                              "mpi_complex8_supported", "mpi_double_complex_supported"}) {
    MPI_Info_set(told, lacking, "false");
  }
  return told;
}

/// The values of .TRUE. and .FALSE.
struct Booleans {
  int32_t yes;
  int32_t no;
};

void tell_fortran(const Booleans& booleans) {
  int32_t yes = booleans.yes;
  int32_t no = booleans.no;
  WEFT_CHECK(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
  MPI_Info told = fortran_info("8");
  WEFT_CHECK(MPI_Abi_set_fortran_info(told) == MPI_SUCCESS);
  MPI_Info_free(&told);
}

/// What makes no sense changes nothing, and may be told again, rightly.
void refused_fortran() {
  MPI_Info told = fortran_info("3");
  WEFT_CHECK_CLASS(MPI_ERR_INFO_VALUE, MPI_Abi_set_fortran_info(told));
  MPI_Info_set(told, "mpi_integer_size", "8");
  MPI_Info_set(told, "mpi_real2_supported", "perhaps");
  WEFT_CHECK_CLASS(MPI_ERR_INFO_VALUE, MPI_Abi_set_fortran_info(told));
  MPI_Info_free(&told);
  MPI_Abi_get_fortran_info(&told);
  WEFT_CHECK(told == MPI_INFO_NULL);
  int32_t one = 1;
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Abi_set_fortran_booleans(3, &one, &one));
  int size = 0;
  MPI_Type_size(MPI_INTEGER, &size);
  WEFT_CHECK(size == 4);
}

void told_sizes() {
  struct Expected {
    MPI_Datatype type;
    int size;
  };
  const Expected all[] = {{MPI_INTEGER, 8},
                          {MPI_LOGICAL, 8},
                          {MPI_REAL, 8},
                          {MPI_COMPLEX, 16},
                          {MPI_DOUBLE_PRECISION, 16},
                          {MPI_2INTEGER, 16},
                          {MPI_2REAL, 16},
                          {MPI_2DOUBLE_PRECISION, 32},
                          {MPI_INTEGER4, 4},
                          {MPI_REAL8, 8},
                          {MPI_INT, 4},
                          {MPI_REAL16, MPI_UNDEFINED},
                          {MPI_INTEGER2, MPI_UNDEFINED},
                          {MPI_COMPLEX8, MPI_UNDEFINED},
                          {MPI_DOUBLE_COMPLEX, MPI_UNDEFINED}};
  for (const Expected& each : all) {
    int size = 0;
    MPI_Count count = 0;
    MPI_Type_size(each.type, &size);
    MPI_Type_size_c(each.type, &count);
    WEFT_CHECK(size == each.size && count == each.size);
  }
  MPI_Datatype type;
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Type_match_size(MPI_TYPECLASS_REAL, 16, &type));
  WEFT_CHECK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 8, &type) == MPI_SUCCESS);
  WEFT_CHECK_CLASS(MPI_ERR_ARG, MPI_Type_create_f90_real(30, MPI_UNDEFINED, &type));
  int size = 0;
  MPI_Type_create_f90_integer(3, &type);  // the two bytes that would do are not there
  MPI_Type_size(type, &size);
  WEFT_CHECK(size == 4);
}

void told_reductions() {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int64_t number = (int64_t{1} << 40) + rank;
  int64_t sum = 0;
  MPI_Allreduce(&number, &sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD);
  WEFT_CHECK(sum == ranks * (int64_t{1} << 40) + ranks * (ranks - 1) / 2);
  const double real = rank + 0.1;
  double most = 0;
  MPI_Allreduce(&real, &most, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD);
  WEFT_CHECK(most == ranks - 1 + 0.1);
  const int64_t pair[2] = {-number, rank};
  int64_t place[2] = {};
  MPI_Allreduce(pair, place, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD);
  WEFT_CHECK(place[0] == -(int64_t{1} << 40) && place[1] == 0);
#if defined(__SIZEOF_FLOAT128__)
  __extension__ typedef __float128 Quad;  // NOLINT(modernize-use-using): only so
  const Quad quads[2] = {static_cast<Quad>(-rank), static_cast<Quad>(rank)};
  Quad found[2] = {};
  for (const MPI_Op op : {MPI_MINLOC, MPI_MAXLOC}) {
    WEFT_CHECK(MPI_Allreduce(quads, found, 1, MPI_2DOUBLE_PRECISION, op, MPI_COMM_WORLD) ==
               MPI_SUCCESS);
    const int expected = op == MPI_MINLOC ? ranks - 1 : 0;
    WEFT_CHECK(found[0] == -expected && found[1] == expected);
  }
#endif
}

/// There and back through external32, where Fortran's default kinds have the standard's sizes.
template <class T, std::size_t N>
void external(MPI_Datatype type, const T (&values)[N], int count,
              const std::vector<unsigned char>& expected) {
  MPI_Aint bytes = 0;
  MPI_Pack_external_size("external32", count, type, &bytes);
  WEFT_CHECK(bytes == static_cast<MPI_Aint>(expected.size()));
  std::vector<unsigned char> packed(64);
  MPI_Aint position = 0;
  WEFT_CHECK(MPI_Pack_external("external32", values, count, type, packed.data(), 64, &position) ==
             MPI_SUCCESS);
  WEFT_CHECK(position == bytes);
  packed.resize(expected.size());
  WEFT_CHECK(packed == expected);
  T back[N] = {};
  position = 0;
  WEFT_CHECK(MPI_Unpack_external("external32", expected.data(), bytes, &position, back, count,
                                 type) == MPI_SUCCESS);
  for (std::size_t i = 0; i < N; ++i) WEFT_CHECK(back[i] == values[i]);
}

struct Located {
  double value;
  int index;
  bool operator==(const Located& other) const {
    return value == other.value && index == other.index;
  }
};

void told_external() {
  const int64_t integers[] = {-2, 258};
  external(MPI_INTEGER, integers, 2, {0xff, 0xff, 0xff, 0xfe, 0, 0, 1, 2});
  external(MPI_2INTEGER, integers, 1, {0xff, 0xff, 0xff, 0xfe, 0, 0, 1, 2});
  external(MPI_LOGICAL, integers, 2, {0xff, 0xff, 0xff, 0xfe, 0, 0, 1, 2});
  const double reals[] = {1.0, -2.5};
  external(MPI_REAL, reals, 2, {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0});
  external(MPI_COMPLEX, reals, 1, {0x3f, 0x80, 0, 0, 0xc0, 0x20, 0, 0});
  MPI_Datatype located = MPI_DATATYPE_NULL;
  MPI_Type_get_value_index(MPI_REAL, MPI_INTEGER2, &located);
  WEFT_CHECK(located == MPI_DATATYPE_NULL);  // there is no MPI_INTEGER2
  MPI_Type_get_value_index(MPI_REAL, MPI_INT, &located);
  const Located places[] = {{1.0, 258}};
  external(located, places, 1, {0x3f, 0x80, 0, 0, 0, 0, 1, 2});
  const double one[] = {1.0};
  external(MPI_REAL8, one, 1, {0x3f, 0xf0, 0, 0, 0, 0, 0, 0});
#if defined(__SIZEOF_FLOAT128__)
  __extension__ typedef __float128 Quad;  // NOLINT(modernize-use-using): only so
  const Quad twice[] = {1};
  external(MPI_DOUBLE_PRECISION, twice, 1, {0x3f, 0xf0, 0, 0, 0, 0, 0, 0});
#endif
  const int64_t large = int64_t{1} << 31;
  char packed[8];
  MPI_Aint position = 0;
  WEFT_CHECK_CLASS(MPI_ERR_CONVERSION,
                   MPI_Pack_external("external32", &large, 1, MPI_INTEGER, packed, 8, &position));
}

/// Of what is told for LOGICALs of four bytes, all others have as much as fits.
template <class T>
void told_booleans(MPI_Datatype type, const Booleans& booleans) {
  const T yes = static_cast<T>(booleans.yes);
  const T no = static_cast<T>(booleans.no);
  T known[2] = {};
  int set = 0;
  MPI_Abi_get_fortran_booleans(sizeof(T), &known[0], &known[1], &set);
  WEFT_CHECK(set == 1 && known[0] == yes && known[1] == no);
  const T from[4] = {no, no, yes, yes};
  for (const MPI_Op op : {MPI_LAND, MPI_LOR, MPI_LXOR}) {
    T to[4] = {no, yes, no, yes};
    WEFT_CHECK(MPI_Reduce_local(from, to, 4, type, op) == MPI_SUCCESS);
    WEFT_CHECK(to[0] == no && to[1] == (op == MPI_LAND ? no : yes) && to[2] == to[1] &&
               to[3] == (op == MPI_LXOR ? no : yes));
  }
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const T mine = rank == 0 ? yes : no;
  T all = 0;
  MPI_Allreduce(&mine, &all, 1, type, MPI_LAND, MPI_COMM_WORLD);
  WEFT_CHECK(all == (ranks == 1 ? yes : no));
  MPI_Allreduce(&mine, &all, 1, type, MPI_LOR, MPI_COMM_WORLD);
  WEFT_CHECK(all == yes);
}

void told_fortran(const Booleans& booleans) {
  told_sizes();
  told_reductions();
  told_external();
  told_booleans<int8_t>(MPI_LOGICAL1, booleans);
  told_booleans<int32_t>(MPI_LOGICAL4, booleans);
  told_booleans<int64_t>(MPI_LOGICAL, booleans);
  // C's are as they were.
  int to = 0;
  const int from = 5;
  MPI_Reduce_local(&from, &to, 1, MPI_INT, MPI_LOR);
  WEFT_CHECK(to == 1);
  MPI_Info told = fortran_info("8");
  WEFT_CHECK_CLASS(MPI_ERR_ABI, MPI_Abi_set_fortran_info(told));
  int32_t yes = 1;
  int32_t no = 0;
  WEFT_CHECK_CLASS(MPI_ERR_ABI, MPI_Abi_set_fortran_booleans(4, &yes, &no));
  MPI_Info_free(&told);
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
  // Each says what is not there.
  const auto told = [](int code) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return std::string(text);
  };
  WEFT_CHECK(told(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win))
                 .find("MPI_Win_create_dynamic is not there yet") != std::string::npos);
  WEFT_CHECK(told(MPI_File_delete("x", MPI_INFO_NULL)).find("MPI_File_delete is not there yet") !=
             std::string::npos);
}

}  // namespace

/// A tool's own MPI_Barrier, in front of the library's.
extern "C" int MPI_Barrier(MPI_Comm comm) {
  ++intercepted;
  return PMPI_Barrier(comm);
}

int main(int argc, char** argv) {
  const std::string told = argc > 1 ? argv[1] : "";
  const Booleans booleans = told == "early" ? Booleans{-1, 0} : Booleans{7, 3};
  if (told == "early") tell_fortran(booleans);
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (!told.empty()) {
    if (told == "late") {
      refused_fortran();
      tell_fortran(booleans);
    }
    told_fortran(booleans);
    MPI_Finalize();
    return result();
  }
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
