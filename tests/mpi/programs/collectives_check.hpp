// What the programs about collectives share: buffers of several layouts, operations, the three
// forms.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace check {

inline std::atomic<int> failed_checks{0};

inline void failed(const char* file, int line, const std::string& what) {
  // The first ones tell enough.
  if (failed_checks++ >= 20) return;
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::printf("%s:%d: rank %d: %s\n", file, line, rank, what.c_str());
  std::fflush(stdout);
}

/// Ends MPI; what main returns.
inline int finish() {
  MPI_Finalize();
  return failed_checks == 0 ? 0 : 1;
}

enum class Form { blocking, nonblocking, persistent };
inline constexpr Form kForms[] = {Form::blocking, Form::nonblocking, Form::persistent};

/// Where the numbers of one element lie: an int64 each, at these bytes.
struct Layout {
  const char* name;
  MPI_Datatype type;
  std::ptrdiff_t extent;
  std::vector<std::ptrdiff_t> fields;
};

/// Plain numbers; pairs with gaps; pairs in a changed order, that begin before the buffer's
/// address.
inline std::vector<Layout> make_layouts() {
  MPI_Datatype gaps;
  MPI_Datatype padded;
  MPI_Type_vector(2, 1, 3, MPI_INT64_T, &gaps);  // at 0 and 24
  MPI_Type_create_resized(gaps, 0, 40, &padded);
  MPI_Type_commit(&padded);
  MPI_Type_free(&gaps);
  MPI_Datatype turned;
  MPI_Datatype turned_padded;
  int lengths[] = {1, 1};
  MPI_Aint places[] = {8, -8};
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT64_T, &turned);
  MPI_Type_create_resized(turned, -8, 32, &turned_padded);
  MPI_Type_commit(&turned_padded);
  MPI_Type_free(&turned);
  return {{"plain", MPI_INT64_T, 8, {0}},
          {"gaps", padded, 40, {0, 24}},
          {"turned", turned_padded, 32, {8, -8}}};
}

inline void free_layouts(std::vector<Layout>& layouts) {
  for (Layout& layout : layouts) {
    if (layout.type != MPI_INT64_T) MPI_Type_free(&layout.type);
  }
}

/// A buffer, and what it should be: also the gaps, and the room on both sides.
class Image {
 public:
  Image(const Layout& layout, std::int64_t elements)
      : layout_(layout),
        actual_(static_cast<std::size_t>(elements * layout.extent) + 2 * kMargin, 0x5a),
        expected_(actual_) {}
  [[nodiscard]] void* data() noexcept { return actual_.data() + kMargin; }
  /// Element `at` is number `value` of some sequence.
  void put(std::int64_t at, std::int64_t value) {
    write(actual_, at, value);
    write(expected_, at, value);
  }
  void expect(std::int64_t at, std::int64_t value) { write(expected_, at, value); }
  [[nodiscard]] bool right() const { return actual_ == expected_; }
  /// As new, expectations kept.
  void wipe() { std::memset(actual_.data(), 0x5a, actual_.size()); }

 private:
  static constexpr std::size_t kMargin = 64;
  void write(std::vector<unsigned char>& bytes, std::int64_t at, std::int64_t value) const {
    for (std::size_t f = 0; f < layout_.fields.size(); ++f) {
      const std::int64_t number = value * 10 + static_cast<std::int64_t>(f);
      std::memcpy(bytes.data() + kMargin + at * layout_.extent + layout_.fields[f], &number, 8);
    }
  }
  const Layout& layout_;
  std::vector<unsigned char> actual_;
  std::vector<unsigned char> expected_;
};

inline std::int64_t value(int rank, std::int64_t i, int to = 0) {
  return (static_cast<std::int64_t>(rank) + 1) * 1000003 + to * 5003 + i * 7 + 1;
}

/// Affine maps x -> a x + b over a prime field: composing them is associative and does not commute.
struct Affine {
  std::int64_t a;
  std::int64_t b;
  bool operator==(const Affine&) const = default;
};
inline constexpr std::int64_t kPrime = 1000003;
inline Affine after(const Affine& first, const Affine& then) {
  return {first.a * then.a % kPrime, (first.b * then.a + then.b) % kPrime};
}
inline Affine affine(int rank, std::int64_t i) {
  return {(rank * 7919 + i * 31 + 2) % kPrime, (rank * 104729 + i * 17 + 3) % kPrime};
}
inline void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* lower = static_cast<const Affine*>(in);
  auto* mine = static_cast<Affine*>(inout);
  for (int i = 0; i < *count; ++i) mine[i] = after(lower[i], mine[i]);
}

}  // namespace check

#define WEFT_EXPECT(holds, what) \
  ((holds) ? static_cast<void>(0) : check::failed(__FILE__, __LINE__, (what)))

// Calls MPI_Name in a form; persistent ones `rounds` times.
#define WEFT_CALL(form, rounds, Name, Iname, ...)               \
  do {                                                          \
    MPI_Request request_ = MPI_REQUEST_NULL;                    \
    if ((form) == check::Form::blocking) {                      \
      MPI_##Name(__VA_ARGS__);                                  \
    } else if ((form) == check::Form::nonblocking) {            \
      MPI_##Iname(__VA_ARGS__, &request_);                      \
      MPI_Wait(&request_, MPI_STATUS_IGNORE);                   \
    } else {                                                    \
      MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request_); \
      for (int round_ = 0; round_ < (rounds); ++round_) {       \
        MPI_Start(&request_);                                   \
        MPI_Wait(&request_, MPI_STATUS_IGNORE);                 \
      }                                                         \
      MPI_Request_free(&request_);                              \
    }                                                           \
  } while (false)
