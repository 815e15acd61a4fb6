// Reduction operations: their table, which types they go with, and the call of their loops.
#include "mpi/op.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/failure.hpp"
#include "mpi/types/op_loops.hpp"
#include "mpi/types/predefined.hpp"
#include "weft/base/copy.hpp"

// NOLINTBEGIN(readability-identifier-naming): MPI's names
namespace weft::mpi {
namespace {

struct NamedOp {
  MPI_Op handle;
  const char* name;
  Operation operation;
  bool commutative;
};

// Handles are pointers made of numbers, which no constant expression may hold: a function's table.
const std::array<NamedOp, kOperations>& named_ops() noexcept {
  // In the order of Operation.
  static const std::array<NamedOp, kOperations> table = {{
      {MPI_SUM, "MPI_SUM", Operation::sum, true},
      {MPI_MIN, "MPI_MIN", Operation::min, true},
      {MPI_MAX, "MPI_MAX", Operation::max, true},
      {MPI_PROD, "MPI_PROD", Operation::prod, true},
      {MPI_BAND, "MPI_BAND", Operation::band, true},
      {MPI_BOR, "MPI_BOR", Operation::bor, true},
      {MPI_BXOR, "MPI_BXOR", Operation::bxor, true},
      {MPI_LAND, "MPI_LAND", Operation::land, true},
      {MPI_LOR, "MPI_LOR", Operation::lor, true},
      {MPI_LXOR, "MPI_LXOR", Operation::lxor, true},
      {MPI_MINLOC, "MPI_MINLOC", Operation::minloc, true},
      {MPI_MAXLOC, "MPI_MAXLOC", Operation::maxloc, true},
      {MPI_REPLACE, "MPI_REPLACE", Operation::replace, false},
      {MPI_NO_OP, "MPI_NO_OP", Operation::no_op, false},
  }};
  return table;
}

const NamedOp* named(const Op& operation) noexcept {
  for (const NamedOp& each : named_ops()) {
    if (static_cast<int>(reinterpret_cast<intptr_t>(each.handle)) == operation.number) return &each;
  }
  return nullptr;
}

/// Whether MPI lets a predefined operation have operands of a family (MPI 6.9.2). Beyond what it
/// lets, MPI_CHAR is a C integer: programs reduce it, as other libraries let them.
bool allowed(Operation operation, Family family) noexcept {
  const bool integer = family == Family::c_integer || family == Family::fortran_integer ||
                       family == Family::multi_language || family == Family::character;
  switch (operation) {
    case Operation::min:
    case Operation::max:
      return integer || family == Family::floating;
    case Operation::sum:
    case Operation::prod:
      return integer || family == Family::floating || family == Family::complex;
    case Operation::land:
    case Operation::lor:
    case Operation::lxor:
      return family == Family::c_integer || family == Family::multi_language ||
             family == Family::character || family == Family::logical;
    case Operation::band:
    case Operation::bor:
    case Operation::bxor:
      return integer || family == Family::byte;
    case Operation::minloc:
    case Operation::maxloc:
      return family == Family::pair;
    case Operation::replace:
    case Operation::no_op:
      return false;
  }
  return false;
}

/// Loops of operations on single elements, by operation and element.
class LoopTable {
 public:
  LoopTable() noexcept {
    for (std::size_t i = 0; i < kElements; ++i) {
      const auto element = static_cast<Element>(i);
      set(Operation::sum, element, arithmetic_loop);
      set(Operation::prod, element, arithmetic_loop);
      set(Operation::min, element, order_loop);
      set(Operation::max, element, order_loop);
      for (Operation o : {Operation::band, Operation::bor, Operation::bxor}) {
        set(o, element, bit_loop);
      }
      for (Operation o : {Operation::land, Operation::lor, Operation::lxor}) {
        set(o, element, logical_loop);
      }
    }
  }
  [[nodiscard]] ReduceLoop find(Operation operation, Element element) const noexcept {
    return loops_[static_cast<std::size_t>(operation)][static_cast<std::size_t>(element)];
  }

 private:
  void set(Operation operation, Element element,
           ReduceLoop (*loop)(Operation, Element) noexcept) noexcept {
    loops_[static_cast<std::size_t>(operation)][static_cast<std::size_t>(element)] =
        loop(operation, element);
  }
  std::array<std::array<ReduceLoop, kElements>, kOperations> loops_{};
};

ReduceLoop find_loop(Operation operation, const Datatype& type) noexcept {
  static const LoopTable table;
  if (type.element() == Element::pair) {
    return location_loop(operation, type.value(), type.index());
  }
  return table.find(operation, type.element());
}

/// nullptr: the order makes no difference, or it is the program's.
ReduceLoop turned_loop_of(const Op& operation, const Datatype& type) noexcept {
  if (!operation.predefined) return nullptr;
  const auto which = static_cast<Operation>(operation.place);
  return type.element() == Element::pair ? location_loop(which, type.value(), type.index(), true)
                                         : turned_loop(which, type.element());
}

/// The program's function. In the plain form, by as many elements as an int counts.
void call_program(const Op& operation, const void* in, void* inout, int64_t count,
                  const Datatype& type, MPI_Datatype handle) {
  // The function's parameter is not const, for Fortran's sake; it only reads.
  auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(in));
  auto* to = static_cast<std::byte*>(inout);
  if (operation.function_c != nullptr) {
    MPI_Count length = count;
    operation.function_c(from, to, &length, &handle);
    return;
  }
  while (count > 0) {
    const int64_t chunk = std::min<int64_t>(count, std::numeric_limits<int>::max());
    int length = static_cast<int>(chunk);
    operation.function(from, to, &length, &handle);
    from += chunk * type.extent();
    to += chunk * type.extent();
    count -= chunk;
  }
}

/// Leaves what lies between elements alone.
void replace(const void* in, void* inout, int64_t count, const Datatype& type) {
  const auto bytes = static_cast<std::size_t>(count * type.size());
  if (type.contiguous()) {
    base::copy_bytes(inout, in, bytes);
    return;
  }
  std::vector<std::byte> packed(bytes);
  type.pack(in, count, 0, packed);
  type.unpack(inout, count, 0, packed);
}

[[noreturn]] void refuse(const Op& operation, const char* why) {
  const NamedOp* found = named(operation);
  fail(MPI_ERR_OP, std::string(found != nullptr ? found->name : "the operation") + " " + why);
}

}  // namespace

HandleTable<Op, MPI_Op>& ops() noexcept {
  static HandleTable<Op, MPI_Op>& table = never_destroyed<HandleTable<Op, MPI_Op>>();
  return table;
}

const Op& op(MPI_Op handle) {
  const Op* found = ops().find(handle);
  if (found == nullptr) fail(MPI_ERR_OP, "not an operation: null, freed, or never made");
  return *found;
}

void check_op(const Op& operation, const Datatype& type) {
  if (!operation.predefined) return;
  const auto which = static_cast<Operation>(operation.place);
  if (which == Operation::replace || which == Operation::no_op) {
    refuse(operation, "is for one-sided communication only");
  }
  if (!allowed(which, type.family()) || find_loop(which, type) == nullptr) {
    refuse(operation, type.predefined() ? "does not go with elements of this datatype"
                                        : "does not go with derived datatypes");
  }
}

void reduce(const Op& operation, const void* in, void* inout, int64_t count, const Datatype& type,
            MPI_Datatype handle) {
  if (count == 0) return;
  if (!operation.predefined) return call_program(operation, in, inout, count, type, handle);
  const auto which = static_cast<Operation>(operation.place);
  if (which == Operation::no_op) return;
  if (which == Operation::replace) return replace(in, inout, count, type);
  const ReduceLoop loop = find_loop(which, type);
  if (loop == nullptr) refuse(operation, "does not go with this datatype");
  loop(in, inout, inout, count);
}

void reduce_turned(const Op& operation, const void* in, void* inout, int64_t count,
                   const Datatype& type, MPI_Datatype handle) {
  const ReduceLoop loop = turned_loop_of(operation, type);
  if (loop == nullptr) return reduce(operation, in, inout, count, type, handle);
  if (count != 0) loop(in, inout, inout, count);
}

ReduceLoop loop_of(const Op& operation, const Datatype& type, bool turned) noexcept {
  if (!operation.predefined) return nullptr;
  const ReduceLoop other_way = turned ? turned_loop_of(operation, type) : nullptr;
  return other_way != nullptr ? other_way
                              : find_loop(static_cast<Operation>(operation.place), type);
}

void open_predefined_ops() {
  for (const NamedOp& each : named_ops()) {
    auto* made = new Op;
    made->commutative = each.commutative;
    made->predefined = true;
    made->number = static_cast<int>(reinterpret_cast<intptr_t>(each.handle));
    made->place = static_cast<uint8_t>(each.operation);
    ops().define(each.handle, made);
  }
}

void close_predefined_ops() noexcept {
  for (const NamedOp& each : named_ops()) {
    Op* made = ops().find(each.handle);
    ops().define(each.handle, nullptr);
    if (made != nullptr) made->drop();
  }
}

namespace calls {
namespace {

void create(MPI_User_function* plain, MPI_User_function_c* large, int commute, MPI_Op* op) {
  require(plain != nullptr || large != nullptr, MPI_ERR_ARG, "no function given");
  require(op != nullptr, MPI_ERR_ARG, "no place for the new operation");
  auto made = Held<Op>::adopt(new Op);
  made->commutative = commute != 0;
  made->function = plain;
  made->function_c = large;
  *op = ops().add(made.get());
  (void)made.release();
}

}  // namespace

void Op_create(MPI_User_function* user_fn, int commute, MPI_Op* op) {
  create(user_fn, nullptr, commute, op);
}

void Op_create_c(MPI_User_function_c* user_fn, int commute, MPI_Op* op) {
  create(nullptr, user_fn, commute, op);
}

void Op_free(MPI_Op* op) {
  require(op != nullptr, MPI_ERR_ARG, "no operation given");
  if (mpi::op(*op).predefined) fail(MPI_ERR_OP, "a predefined operation cannot be freed");
  // Another thread may have been faster; then there is nothing left to drop.
  if (Op* ended = ops().remove(*op); ended != nullptr) ended->drop();
  *op = MPI_OP_NULL;
}

void Op_commutative(MPI_Op op, int* commute) {
  const Op& operation = mpi::op(op);
  require(commute != nullptr, MPI_ERR_ARG, "no place for the answer");
  *commute = operation.commutative ? 1 : 0;
}

void Reduce_local(const void* inbuf, void* inoutbuf, MPI_Count count, MPI_Datatype datatype,
                  MPI_Op op) {
  const Datatype& type = mpi::datatype(datatype);
  const Op& operation = mpi::op(op);
  check_op(operation, type);
  require(count >= 0, MPI_ERR_COUNT, "a negative count");
  require(count == 0 || (inbuf != nullptr && inoutbuf != nullptr) || type.true_lower_bound() != 0,
          MPI_ERR_BUFFER, "no buffer given");
  require(inbuf != MPI_IN_PLACE && inoutbuf != MPI_IN_PLACE, MPI_ERR_BUFFER,
          "MPI_IN_PLACE is no buffer here");
  require(count == 0 || inbuf != inoutbuf, MPI_ERR_BUFFER, "both buffers are the same");
  reduce(operation, inbuf, inoutbuf, count, type, datatype);
}

}  // namespace calls
}  // namespace weft::mpi
// NOLINTEND(readability-identifier-naming)
