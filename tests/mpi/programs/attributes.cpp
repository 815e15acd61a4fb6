// Attributes of communicators: callbacks are counted through dup, free and MPI_Finalize.
#include <mpi.h>

#include "comms_check.hpp"

namespace {

int copied = 0;
int deleted = 0;
void* last_deleted = nullptr;
int answer = MPI_SUCCESS;
int marker = 0;
int deleted_at_end = 0;

int count_copy(MPI_Comm, int, void* extra, void* value, void* out, int* flag) {
  ++copied;
  WEFT_EXPECT(extra == &marker);
  *static_cast<void**>(out) = value;
  *flag = 1;
  return answer;
}

int count_delete(MPI_Comm, int, void* value, void* extra) {
  WEFT_EXPECT(extra == &marker);
  if (answer != MPI_SUCCESS) return answer;
  ++deleted;
  last_deleted = value;
  return MPI_SUCCESS;
}

int delete_at_end(MPI_Comm comm, int, void*, void*) {
  int over = 1;
  MPI_Finalized(&over);
  if (over == 0 && comm == MPI_COMM_SELF && check::size_of(comm) == 1) ++deleted_at_end;
  return MPI_SUCCESS;
}

int refused_at_end = 0;
int refuse_at_end(MPI_Comm, int, void*, void*) {
  ++refused_at_end;
  return MPI_ERR_OTHER;
}

void check_predefined() {
  int* value = nullptr;
  int flag = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag);
  WEFT_EXPECT(flag != 0 && *value >= 32767);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &value, &flag);
  WEFT_EXPECT(flag == 0 || *value == 0 || *value == 1);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &value, &flag);
  WEFT_EXPECT(flag != 0);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
  WEFT_EXPECT(flag == 0 || *value >= 1);
  int code = -1;
  MPI_Add_error_class(&code);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag);
  WEFT_EXPECT(flag != 0 && *value >= code);
}

void check_life() {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(count_copy, count_delete, &keyval, &marker);
  int one = 1;
  int two = 2;
  MPI_Comm first;
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  void* value = nullptr;
  int flag = 1;
  MPI_Comm_get_attr(first, keyval, &value, &flag);
  WEFT_EXPECT(flag == 0);
  MPI_Comm_set_attr(first, keyval, &one);
  MPI_Comm_set_attr(first, keyval, &two);
  WEFT_EXPECT(deleted == 1 && last_deleted == &one);
  MPI_Comm second;
  MPI_Comm_dup(first, &second);
  WEFT_EXPECT(copied == 1);
  MPI_Comm_get_attr(second, keyval, &value, &flag);
  WEFT_EXPECT(flag != 0 && value == &two);
  MPI_Comm third;
  MPI_Request request;
  MPI_Comm_idup(second, &third, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  WEFT_EXPECT(copied == 2);
  MPI_Comm fourth;
  MPI_Comm_split(first, 0, 0, &fourth);
  MPI_Comm_get_attr(fourth, keyval, &value, &flag);
  WEFT_EXPECT(flag == 0 && copied == 2);
  MPI_Comm_delete_attr(second, keyval);
  WEFT_EXPECT(deleted == 2);
  int freed = keyval;
  MPI_Comm_free_keyval(&freed);
  WEFT_EXPECT(freed == MPI_KEYVAL_INVALID);
  MPI_Comm_free(&second);
  WEFT_EXPECT(deleted == 2);
  MPI_Comm_free(&third);
  MPI_Comm_free(&first);
  WEFT_EXPECT(deleted == 4);
  MPI_Comm_free(&fourth);
  WEFT_EXPECT(deleted == 4);
}

void check_refusals() {
  MPI_Comm comm;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(count_copy, count_delete, &keyval, &marker);
  MPI_Comm_set_attr(comm, keyval, &marker);
  answer = MPI_ERR_OTHER;
  MPI_Comm copy = MPI_COMM_SELF;
  WEFT_EXPECT(MPI_Comm_dup(comm, &copy) != MPI_SUCCESS && copy == MPI_COMM_NULL);
  WEFT_EXPECT(MPI_Comm_delete_attr(comm, keyval) != MPI_SUCCESS);
  answer = MPI_SUCCESS;
  WEFT_EXPECT(check::goes_round(comm, 5));
  WEFT_EXPECT(check::class_of(MPI_Comm_set_attr(comm, MPI_TAG_UB, &marker)) == MPI_ERR_KEYVAL);
  WEFT_EXPECT(check::class_of(MPI_Comm_set_attr(comm, MPI_KEYVAL_INVALID, &marker)) ==
              MPI_ERR_KEYVAL);
  MPI_Comm_free(&comm);
  MPI_Comm_free_keyval(&keyval);
}

void check_types() {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &keyval, nullptr);
  MPI_Datatype type;
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_set_attr(type, keyval, &marker);
  MPI_Datatype copy;
  MPI_Type_dup(type, &copy);
  void* value = nullptr;
  int flag = 0;
  MPI_Type_get_attr(copy, keyval, &value, &flag);
  WEFT_EXPECT(flag != 0 && value == &marker);
  MPI_Type_delete_attr(copy, keyval);
  MPI_Type_get_attr(copy, keyval, &value, &flag);
  WEFT_EXPECT(flag == 0);
  MPI_Type_free(&copy);
  MPI_Type_free(&type);
  MPI_Type_free_keyval(&keyval);
  WEFT_EXPECT(keyval == MPI_KEYVAL_INVALID);
}

int refuse_extra(MPI_Datatype, int, void* extra, void* value, void* out, int* flag) {
  *static_cast<void**>(out) = value;
  *flag = 1;
  return value == extra ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int count_type_delete(MPI_Datatype type, int, void*, void*) {
  int size = 0;
  WEFT_EXPECT(MPI_Type_size(type, &size) == MPI_SUCCESS && size == 12);
  ++deleted;
  return MPI_SUCCESS;
}

/// What was copied to a duplicate before a callback refused is deleted with it.
void check_refused_type() {
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  int first = MPI_KEYVAL_INVALID;
  int second = MPI_KEYVAL_INVALID;
  MPI_Type_create_keyval(refuse_extra, count_type_delete, &first, &marker);
  MPI_Type_create_keyval(refuse_extra, count_type_delete, &second, &marker);
  MPI_Datatype type;
  MPI_Type_contiguous(3, MPI_INT, &type);
  MPI_Type_set_attr(type, first, &answer);
  MPI_Type_set_attr(type, second, &marker);
  deleted = 0;
  MPI_Datatype copy = MPI_INT;
  WEFT_EXPECT(check::class_of(MPI_Type_dup(type, &copy)) == MPI_ERR_OTHER);
  WEFT_EXPECT(copy == MPI_DATATYPE_NULL && deleted == 1);
  MPI_Type_free(&type);
  WEFT_EXPECT(deleted == 3);
  MPI_Type_free_keyval(&first);
  MPI_Type_free_keyval(&second);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

void check_deprecated() {
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &keyval, nullptr);
  MPI_Attr_put(MPI_COMM_WORLD, keyval, &marker);
  void* value = nullptr;
  int flag = 0;
  MPI_Attr_get(MPI_COMM_WORLD, keyval, &value, &flag);
  WEFT_EXPECT(flag != 0 && value == &marker);
  MPI_Attr_delete(MPI_COMM_WORLD, keyval);
  MPI_Attr_get(MPI_COMM_WORLD, keyval, &value, &flag);
  WEFT_EXPECT(flag == 0);
  MPI_Keyval_free(&keyval);
  WEFT_EXPECT(keyval == MPI_KEYVAL_INVALID);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  check_predefined();
  check_life();
  check_refusals();
  check_types();
  check_refused_type();
  check_deprecated();
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_at_end, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &marker);
  MPI_Comm_free_keyval(&keyval);
  // Set last, so the first to be deleted; that it refuses keeps none of the others.
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse_at_end, &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, &marker);
  MPI_Comm_free_keyval(&keyval);
  MPI_Finalize();
  WEFT_EXPECT(deleted_at_end == 1);
  WEFT_EXPECT(refused_at_end == 1);
  return check::failures == 0 ? 0 : 1;
}
