// Attributes: which callbacks are called, with what, and how often.
#include "mpi/attributes.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "mpi/comms/keyvals.hpp"
#include "mpi/failure.hpp"

namespace weft::mpi {
namespace {

std::vector<void*> deleted;
int copies = 0;
int delete_answer = MPI_SUCCESS;
int copy_answer = MPI_SUCCESS;

int note_delete(MPI_Comm, int, void* value, void* extra) {
  if (extra != &deleted) return MPI_ERR_OTHER;
  if (delete_answer == MPI_SUCCESS) deleted.push_back(value);
  return delete_answer;
}

int copy_doubled(MPI_Comm, int, void* extra, void* value, void* copied, int* flag) {
  ++copies;
  if (extra != &deleted) return MPI_ERR_OTHER;
  *static_cast<void**>(copied) = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(value) * 2);
  *flag = 1;
  return copy_answer;
}

void* number(uintptr_t value) { return reinterpret_cast<void*>(value); }

class Attributes : public ::testing::Test {
 protected:
  Attributes() {
    deleted.clear();
    copies = 0;
    delete_answer = copy_answer = MPI_SUCCESS;
  }
  ~Attributes() override { forget_keyvals(); }
  static int make(MPI_Comm_copy_attr_function* copy) {
    Keyval keyval{AttributeOf::comm, {}, {}, &deleted};
    keyval.copy.comm = copy;
    keyval.erase.comm = note_delete;
    return register_keyval(keyval);
  }
  void set(int keyval, uintptr_t value) {
    set_.set(AttributeOf::comm, nullptr, keyval, number(value));
  }
  AttributeSet set_;
};

int code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure.code();
  }
  return MPI_SUCCESS;
}

TEST_F(Attributes, ReplacingDeletesTheOlder) {
  const int keyval = make(MPI_COMM_NULL_COPY_FN);
  set(keyval, 1);
  set(keyval, 2);
  EXPECT_EQ(deleted, std::vector<void*>{number(1)});
  void* value = nullptr;
  EXPECT_TRUE(set_.get(keyval, &value));
  EXPECT_EQ(value, number(2));
}

TEST_F(Attributes, TheEndDeletesTheLastFirst) {
  const int one = make(MPI_COMM_NULL_COPY_FN);
  const int two = make(MPI_COMM_NULL_COPY_FN);
  set(one, 1);
  set(two, 2);
  set(one, 3);
  EXPECT_EQ(set_.erase_all(AttributeOf::comm, nullptr), MPI_SUCCESS);
  EXPECT_EQ(deleted, (std::vector<void*>{number(1), number(3), number(2)}));
}

TEST_F(Attributes, ARefusedEndCanBeTriedAgain) {
  const int keyval = make(MPI_COMM_NULL_COPY_FN);
  set(keyval, 1);
  delete_answer = 77;
  EXPECT_EQ(set_.erase_all(AttributeOf::comm, nullptr), 77);
  EXPECT_EQ(code_of([&] { set_.erase(AttributeOf::comm, nullptr, keyval); }), 77);
  delete_answer = MPI_SUCCESS;
  EXPECT_EQ(set_.erase_all(AttributeOf::comm, nullptr), MPI_SUCCESS);
  EXPECT_EQ(deleted.size(), 1U);
}

TEST_F(Attributes, CopyingAsks) {
  const int silent = make(MPI_COMM_NULL_COPY_FN);
  const int same = make(MPI_COMM_DUP_FN);
  const int doubled = make(copy_doubled);
  set(silent, 1);
  set(same, 2);
  set(doubled, 3);
  AttributeSet copy;
  set_.copy_to(AttributeOf::comm, nullptr, copy);
  void* value = nullptr;
  EXPECT_FALSE(copy.get(silent, &value));
  EXPECT_TRUE(copy.get(same, &value));
  EXPECT_EQ(value, number(2));
  EXPECT_TRUE(copy.get(doubled, &value));
  EXPECT_EQ(value, number(6));
  EXPECT_EQ(copies, 1);
  copy_answer = 99;
  AttributeSet other;
  EXPECT_EQ(code_of([&] { set_.copy_to(AttributeOf::comm, nullptr, other); }), 99);
  (void)copy.erase_all(AttributeOf::comm, nullptr);
}

TEST_F(Attributes, AFreedKeyLivesWhileItIsUsed) {
  int keyval = make(MPI_COMM_NULL_COPY_FN);
  set(keyval, 1);
  free_keyval(AttributeOf::comm, keyval);
  free_keyval(AttributeOf::comm, keyval);  // as a delete callback may, once for each attribute
  set_.erase(AttributeOf::comm, nullptr, keyval);
  EXPECT_EQ(deleted.size(), 1U);
  EXPECT_EQ(code_of([&] { free_keyval(AttributeOf::comm, keyval); }), MPI_ERR_KEYVAL);
  EXPECT_EQ(code_of([&] { set(keyval, 1); }), MPI_ERR_KEYVAL);
}

TEST_F(Attributes, KeysAreOfOneKind) {
  const int keyval = make(MPI_COMM_NULL_COPY_FN);
  EXPECT_EQ(code_of([&] { set_.set(AttributeOf::datatype, nullptr, keyval, nullptr); }),
            MPI_ERR_KEYVAL);
  EXPECT_EQ(code_of([&] { set_.erase(AttributeOf::comm, nullptr, keyval); }), MPI_ERR_KEYVAL);
  EXPECT_EQ(code_of([&] { set(MPI_KEYVAL_INVALID, 1); }), MPI_ERR_KEYVAL);
}

}  // namespace
}  // namespace weft::mpi
