// Error handlers, classes, codes and strings.
#include <atomic>
#include <string>
#include <thread>

#include "check.hpp"

namespace {

int calls = 0;
int last_code = 0;
MPI_Comm last_comm = MPI_COMM_NULL;

void note(MPI_Comm* comm, int* code, ...) {
  ++calls;
  last_code = *code;
  last_comm = *comm;
}

/// A call that fails: there is no such rank.
int fail_on(MPI_Comm comm) { return MPI_Send(&calls, 1, MPI_INT, 1 << 20, 0, comm); }

void handlers() {
  MPI_Errhandler own;
  MPI_Comm_create_errhandler(note, &own);
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  WEFT_CHECK(MPI_Comm_set_errhandler(comm, own) == MPI_SUCCESS);
  MPI_Errhandler known;
  MPI_Comm_get_errhandler(comm, &known);
  WEFT_CHECK(known == own);
  MPI_Errhandler_free(&known);
  WEFT_CHECK(known == MPI_ERRHANDLER_NULL);

  const int code = fail_on(comm);
  WEFT_CHECK(calls == 1 && last_code == code && last_comm == comm &&
             class_of(code) == MPI_ERR_RANK);
  // What has no communicator of its own goes to MPI_COMM_SELF's.
  MPI_Comm_set_errhandler(MPI_COMM_SELF, own);
  WEFT_CHECK_CLASS(MPI_ERR_COMM, fail_on(MPI_COMM_NULL));
  WEFT_CHECK(calls == 2 && last_comm == MPI_COMM_SELF);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

  // Freed, it still serves where it was set; copies of a communicator have it, too. Its handle is
  // no more than what others were given.
  MPI_Errhandler freed = own;
  MPI_Errhandler_free(&own);
  WEFT_CHECK(class_of(MPI_Comm_set_errhandler(MPI_COMM_SELF, freed)) == MPI_ERR_ERRHANDLER);
  WEFT_CHECK(class_of(MPI_Errhandler_free(&freed)) == MPI_ERR_ERRHANDLER);
  MPI_Comm copy;
  MPI_Comm_dup(comm, &copy);
  WEFT_CHECK(class_of(fail_on(copy)) == MPI_ERR_RANK && calls == 3 && last_comm == copy);
  MPI_Comm_get_errhandler(copy, &known);
  WEFT_CHECK(known != MPI_ERRHANDLER_NULL);
  MPI_Comm_set_errhandler(copy, MPI_ERRORS_RETURN);
  WEFT_CHECK(class_of(fail_on(copy)) == MPI_ERR_RANK && calls == 3);
  MPI_Comm_set_errhandler(copy, known);
  MPI_Errhandler_free(&known);

  WEFT_CHECK(MPI_Comm_call_errhandler(copy, MPI_ERR_TAG) == MPI_SUCCESS);
  WEFT_CHECK(calls == 4 && last_code == MPI_ERR_TAG);
  MPI_Comm_free(&copy);
  MPI_Comm_free(&comm);

  MPI_Comm_get_errhandler(MPI_COMM_SELF, &known);
  WEFT_CHECK(known == MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&known);
  WEFT_CHECK_CLASS(MPI_ERR_ERRHANDLER,
                   MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL));
  WEFT_CHECK_CLASS(MPI_ERR_ERRHANDLER, MPI_Errhandler_free(&known));
  WEFT_CHECK_CLASS(MPI_ERR_COMM, MPI_Comm_set_errhandler(MPI_COMM_NULL, MPI_ERRORS_RETURN));
}

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = -1;
  WEFT_CHECK(MPI_Error_string(code, text, &length) == MPI_SUCCESS);
  WEFT_CHECK(length == static_cast<int>(std::strlen(text)));
  return text;
}

/// The string of a code says what the thread's last failure of that code was.
void said_of_the_last() {
  const std::string plain = text_of(MPI_ERR_TRUNCATE);
  const int sent[4] = {};
  int value = 0;
  MPI_Request request;
  MPI_Irecv(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF, &request);
  MPI_Send(sent, 4, MPI_INT, 0, 7, MPI_COMM_SELF);
  WEFT_CHECK_CLASS(MPI_ERR_TRUNCATE, MPI_Wait(&request, MPI_STATUS_IGNORE));
  WEFT_CHECK(text_of(MPI_ERR_TRUNCATE) ==
             plain +
                 ": MPI_Wait on communicator MPI_COMM_SELF: the message of rank 0 with tag 7 is "
                 "longer than the 4 bytes of its receive");
  WEFT_CHECK(text_of(MPI_ERR_TAG).find("MPI_Wait") == std::string::npos);
  std::string others;
  std::thread([&] { others = text_of(MPI_ERR_TRUNCATE); }).join();
  WEFT_CHECK(others == plain);
  // Nor does a thread get what one said that was there before it.
  std::thread([] { fail_on(MPI_COMM_SELF); }).join();
  std::thread([&] { others = text_of(MPI_ERR_RANK); }).join();
  WEFT_CHECK(others.find("MPI_Send") == std::string::npos);
  // What the program raises itself says nothing new.
  MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_TRUNCATE);
  WEFT_CHECK(text_of(MPI_ERR_TRUNCATE).find("MPI_Wait") != std::string::npos);

  // Of several, that of the first that failed.
  MPI_Request two[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Irecv(&value, 1, MPI_INT, 0, 8, MPI_COMM_SELF, &two[1]);
  MPI_Send(sent, 4, MPI_INT, 0, 8, MPI_COMM_SELF);
  MPI_Status statuses[2];
  WEFT_CHECK_CLASS(MPI_ERR_IN_STATUS, MPI_Waitall(2, two, statuses));
  WEFT_CHECK(text_of(statuses[1].MPI_ERROR)
                 .ends_with("with tag 8 is longer than the 4 bytes of its receive"));
}

void predefined() {
  for (int code = MPI_SUCCESS; code <= MPI_ERR_ABI; ++code) {
    WEFT_CHECK(class_of(code) == code);
    WEFT_CHECK(text_of(code).size() > 10);
  }
  int unused = 0;
  WEFT_CHECK(MPI_Error_class(5000, &unused) != MPI_SUCCESS);
}

void added() {
  int* highest = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &highest, &found);
  WEFT_CHECK(found == 1 && *highest >= MPI_ERR_LASTCODE);
  int error_class = 0;
  int code = 0;
  MPI_Add_error_class(&error_class);
  WEFT_CHECK(error_class > MPI_ERR_LASTCODE && class_of(error_class) == error_class);
  MPI_Add_error_code(error_class, &code);
  WEFT_CHECK(code > error_class && class_of(code) == error_class);
  WEFT_CHECK(text_of(code).empty());
  MPI_Add_error_string(code, "the cat is on the roof");
  WEFT_CHECK(text_of(code) == "the cat is on the roof");
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &highest, &found);
  WEFT_CHECK(*highest == code);
  int of_mpi = 0;
  MPI_Add_error_code(MPI_ERR_TAG, &of_mpi);
  WEFT_CHECK(class_of(of_mpi) == MPI_ERR_TAG);

  // A program's text stays as it is, also where a call has failed with the code.
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(
      [](MPI_Comm, int, void* answer, void*, void*, int*) { return *static_cast<int*>(answer); },
      MPI_COMM_NULL_DELETE_FN, &keyval, &code);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &code);
  MPI_Comm copy = MPI_COMM_NULL;
  WEFT_CHECK(MPI_Comm_dup(MPI_COMM_SELF, &copy) == code);
  WEFT_CHECK(text_of(code) == "the cat is on the roof");
  MPI_Comm_delete_attr(MPI_COMM_SELF, keyval);
  MPI_Comm_free_keyval(&keyval);

  WEFT_CHECK(MPI_Remove_error_class(error_class) != MPI_SUCCESS);
  WEFT_CHECK(MPI_Remove_error_code(code) != MPI_SUCCESS);
  WEFT_CHECK(MPI_Remove_error_string(code) == MPI_SUCCESS);
  WEFT_CHECK(MPI_Remove_error_code(code) == MPI_SUCCESS);
  WEFT_CHECK(MPI_Remove_error_class(error_class) == MPI_SUCCESS);
  WEFT_CHECK(MPI_Remove_error_code(of_mpi) == MPI_SUCCESS);
  WEFT_CHECK(MPI_Remove_error_class(MPI_ERR_TAG) != MPI_SUCCESS);
  WEFT_CHECK(MPI_Add_error_string(MPI_ERR_TAG, "x") != MPI_SUCCESS);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Errhandler first;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &first);
  WEFT_CHECK(first == MPI_ERRORS_ARE_FATAL);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // As programs for MPI 3.1 have it: MPI_COMM_SELF was given none.
  WEFT_CHECK_CLASS(MPI_ERR_COMM, fail_on(MPI_COMM_NULL));
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  handlers();
  predefined();
  said_of_the_last();
  added();
  MPI_Finalize();
  return result();
}
