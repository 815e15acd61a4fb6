// A second, naive implementation of datatypes: the type map written out, one entry per basic
// element; and random types, made with both.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "mpi/abi/calls.hpp"
#include "mpi/datatype.hpp"

namespace weft::mpi::test {

struct Entry {
  int64_t at;
  int64_t size;
  int64_t alignment;
};

/// A type as a list of entries, and the bounds that were set, if any.
struct Reference {
  std::vector<Entry> map;
  std::optional<int64_t> lower_mark;
  std::optional<int64_t> upper_mark;

  int64_t size() const {
    int64_t sum = 0;
    for (const Entry& e : map) sum += e.size;
    return sum;
  }
  int64_t true_lower() const {
    int64_t low = map.empty() ? 0 : map[0].at;
    for (const Entry& e : map) low = std::min(low, e.at);
    return low;
  }
  int64_t true_upper() const {
    int64_t high = map.empty() ? 0 : map[0].at + map[0].size;
    for (const Entry& e : map) high = std::max(high, e.at + e.size);
    return high;
  }
  int64_t lower() const { return lower_mark ? *lower_mark : true_lower(); }
  int64_t extent() const {
    if (upper_mark) return *upper_mark - *lower_mark;
    int64_t alignment = 1;
    for (const Entry& e : map) alignment = std::max(alignment, e.alignment);
    return (true_upper() - true_lower() + alignment - 1) / alignment * alignment;
  }
  /// Adds `copies` of `inner` from `at` on, its extent apart.
  void place(const Reference& inner, int64_t at, int64_t copies = 1) {
    const int64_t step = inner.extent();
    for (int64_t i = 0; i < copies; ++i, at += step) {
      for (const Entry& e : inner.map) map.push_back({at + e.at, e.size, e.alignment});
      if (inner.lower_mark) {
        lower_mark = std::min(lower_mark.value_or(INT64_MAX), at + *inner.lower_mark);
        upper_mark = std::max(upper_mark.value_or(INT64_MIN), at + *inner.upper_mark);
      }
    }
  }
  void mark(int64_t lb, int64_t extent) {
    lower_mark = lb;
    upper_mark = lb + extent;
  }
  /// The packed form of `count` elements at `buffer`.
  std::vector<std::byte> pack(const std::byte* buffer, int64_t count) const {
    std::vector<std::byte> packed;
    for (int64_t i = 0; i < count; ++i) {
      for (const Entry& e : map) {
        const std::byte* from = buffer + i * extent() + e.at;
        packed.insert(packed.end(), from, from + e.size);
      }
    }
    return packed;
  }
};

/// The same type twice.
struct Both {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  Reference reference;
};

/// Makes random types, a few constructors deep, of at most some thousand entries. Frees them all.
class RandomTypes {
 public:
  explicit RandomTypes(uint64_t seed) : random_(seed) {}
  ~RandomTypes() {
    for (MPI_Datatype type : made_) calls::Type_free(&type);
  }

  int64_t number(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  Both make(int depth) {
    if (depth == 0) return basic();
    for (;;) {
      Both inner = make(depth - 1);
      const std::size_t entries = inner.reference.map.size();
      Both type = entries > 300 ? resized(inner) : constructed(inner, depth);
      made_.push_back(type.type);
      if (type.reference.map.size() <= 3000) return type;
    }
  }

 private:
  Both basic() {
    struct Basic {
      MPI_Datatype type;
      Reference reference;
    };
    const Basic basics[] = {
        {MPI_CHAR, {{{0, 1, 1}}, {}, {}}},
        {MPI_SHORT, {{{0, 2, 2}}, {}, {}}},
        {MPI_INT, {{{0, 4, 4}}, {}, {}}},
        {MPI_DOUBLE, {{{0, 8, 8}}, {}, {}}},
        {MPI_C_DOUBLE_COMPLEX, {{{0, 16, 8}}, {}, {}}},
        {MPI_SHORT_INT, {{{0, 2, 2}, {4, 4, 4}}, {}, {}}},
        {MPI_DOUBLE_INT, {{{0, 8, 8}, {8, 4, 4}}, {}, {}}},
    };
    const Basic& chosen = basics[number(0, 6)];
    return {chosen.type, chosen.reference};
  }

  Both constructed(const Both& inner, int depth) {
    switch (number(0, 11)) {
      case 0:
        return contiguous(inner);
      case 1:
      case 2:
        return vector(inner);
      case 3:
        return hvector(inner);
      case 4:
        return indexed(inner);
      case 5:
        return hindexed(inner);
      case 6:
        return indexed_block(inner);
      case 7:
        return hindexed_block(inner);
      case 8:
        return resized(inner);
      case 9:
        return subarray(inner);
      case 10:
        return structure(inner, make(depth - 1));
      default:
        return duplicate(inner);
    }
  }

  Both contiguous(const Both& inner) {
    Both type;
    const int64_t count = number(0, 5);
    calls::Type_contiguous(count, inner.type, &type.type);
    type.reference.place(inner.reference, 0, count);
    return type;
  }
  Both vector(const Both& inner) {
    Both type;
    const int64_t count = number(0, 5);
    const int64_t length = number(0, 3);
    const int64_t stride = number(-4, 6);
    calls::Type_vector(count, length, stride, inner.type, &type.type);
    for (int64_t i = 0; i < count; ++i) {
      type.reference.place(inner.reference, i * stride * inner.reference.extent(), length);
    }
    return type;
  }
  Both hvector(const Both& inner) {
    Both type;
    const int64_t count = number(0, 5);
    const int64_t length = number(1, 3);
    const int64_t stride = number(-60, 100);
    calls::Type_create_hvector(count, length, stride, inner.type, &type.type);
    for (int64_t i = 0; i < count; ++i) type.reference.place(inner.reference, i * stride, length);
    return type;
  }
  std::vector<MPI_Count> numbers(int64_t count, int64_t low, int64_t high) {
    std::vector<MPI_Count> result;
    for (int64_t i = 0; i < count; ++i) result.push_back(number(low, high));
    return result;
  }
  Both indexed(const Both& inner) {
    Both type;
    const int64_t count = number(0, 5);
    const auto lengths = numbers(count, 0, 3);
    const auto places = numbers(count, -5, 10);
    calls::Type_indexed(count, Counts(lengths.data()), Counts(places.data()), inner.type,
                        &type.type);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      type.reference.place(inner.reference, places[i] * inner.reference.extent(), lengths[i]);
    }
    return type;
  }
  Both hindexed(const Both& inner) {
    Both type;
    const int64_t count = number(0, 5);
    const auto lengths = numbers(count, 0, 3);
    const auto places = numbers(count, -50, 150);
    calls::Type_create_hindexed(count, Counts(lengths.data()), places.data(), inner.type,
                                &type.type);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      type.reference.place(inner.reference, places[i], lengths[i]);
    }
    return type;
  }
  Both indexed_block(const Both& inner) {
    Both type;
    const int64_t count = number(0, 6);
    const int64_t length = number(0, 3);
    const std::vector<MPI_Count> places = numbers(count, -5, 10);
    const std::vector<int> narrow(places.begin(), places.end());
    calls::Type_create_indexed_block(count, length, Counts(narrow.data()), inner.type, &type.type);
    for (const int64_t place : places) {
      type.reference.place(inner.reference, place * inner.reference.extent(), length);
    }
    return type;
  }
  Both hindexed_block(const Both& inner) {
    Both type;
    const int64_t count = number(0, 6);
    const int64_t length = number(0, 3);
    const std::vector<MPI_Count> places = numbers(count, -50, 200);
    calls::Type_create_hindexed_block(count, length, places.data(), inner.type, &type.type);
    for (const int64_t place : places) type.reference.place(inner.reference, place, length);
    return type;
  }
  Both resized(const Both& inner) {
    Both type;
    const int64_t lb = number(-20, 20);
    const int64_t extent = number(-10, 150);
    calls::Type_create_resized(inner.type, lb, extent, &type.type);
    type.reference.place(inner.reference, 0);
    type.reference.mark(lb, extent);
    return type;
  }
  Both duplicate(const Both& inner) {
    Both type;
    calls::Type_dup(inner.type, &type.type);
    type.reference = inner.reference;
    return type;
  }
  Both structure(const Both& first, const Both& second) {
    Both type;
    const MPI_Datatype types[] = {first.type, second.type, first.type};
    const MPI_Count lengths[] = {number(0, 3), number(0, 2), number(0, 1)};
    const MPI_Count places[] = {number(-40, 40), number(-100, 200), number(-100, 200)};
    calls::Type_create_struct(3, Counts(lengths), places, types, &type.type);
    type.reference.place(first.reference, places[0], lengths[0]);
    type.reference.place(second.reference, places[1], lengths[1]);
    type.reference.place(first.reference, places[2], lengths[2]);
    return type;
  }
  Both subarray(const Both& inner) {
    Both type;
    int sizes[3];
    int subsizes[3];
    int starts[3];
    for (int i = 0; i < 3; ++i) {
      sizes[i] = static_cast<int>(number(1, 4));
      subsizes[i] = static_cast<int>(number(1, sizes[i]));
      starts[i] = static_cast<int>(number(0, sizes[i] - subsizes[i]));
    }
    const bool c_order = number(0, 1) == 0;
    calls::Type_create_subarray(3, Counts(sizes), Counts(subsizes), Counts(starts),
                                c_order ? MPI_ORDER_C : MPI_ORDER_FORTRAN, inner.type, &type.type);
    const int64_t extent = inner.reference.extent();
    const int slow = c_order ? 0 : 2;
    const int fast = 2 - slow;
    for (int i = starts[slow]; i < starts[slow] + subsizes[slow]; ++i) {
      for (int j = starts[1]; j < starts[1] + subsizes[1]; ++j) {
        for (int k = starts[fast]; k < starts[fast] + subsizes[fast]; ++k) {
          type.reference.place(inner.reference, ((i * sizes[1] + j) * sizes[fast] + k) * extent);
        }
      }
    }
    type.reference.mark(0, sizes[0] * sizes[1] * sizes[2] * extent);
    return type;
  }

  std::mt19937_64 random_;
  std::vector<MPI_Datatype> made_;
};

}  // namespace weft::mpi::test
