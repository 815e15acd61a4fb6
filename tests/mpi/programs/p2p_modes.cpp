// Every send mode with every way to call it, sizes from nothing to a megabyte, layouts with gaps:
// each rank sends to its right neighbour (alone: to itself) and receives from its left one.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "requests_check.hpp"

namespace {

enum class Mode { standard, synchronous, ready, buffered };
constexpr Mode kModes[] = {Mode::standard, Mode::synchronous, Mode::ready, Mode::buffered};
const char* const kNames[] = {"standard", "synchronous", "ready", "buffered"};
const std::size_t kSizes[] = {0, 1, 8, 100, 1024, 8192, 65536, 1 << 20};

int right() { return (g_rank + 1) % g_size; }
int left() { return (g_rank + g_size - 1) % g_size; }

int send(Mode mode, const void* data, int count, MPI_Datatype type, int tag) {
  switch (mode) {
    case Mode::standard:
      return MPI_Send(data, count, type, right(), tag, MPI_COMM_WORLD);
    case Mode::synchronous:
      return MPI_Ssend(data, count, type, right(), tag, MPI_COMM_WORLD);
    case Mode::ready:
      return MPI_Rsend(data, count, type, right(), tag, MPI_COMM_WORLD);
    case Mode::buffered:
      return MPI_Bsend(data, count, type, right(), tag, MPI_COMM_WORLD);
  }
  return MPI_ERR_OTHER;
}

int isend(Mode mode, const void* data, int count, MPI_Datatype type, int tag, MPI_Request* r) {
  switch (mode) {
    case Mode::standard:
      return MPI_Isend(data, count, type, right(), tag, MPI_COMM_WORLD, r);
    case Mode::synchronous:
      return MPI_Issend(data, count, type, right(), tag, MPI_COMM_WORLD, r);
    case Mode::ready:
      return MPI_Irsend(data, count, type, right(), tag, MPI_COMM_WORLD, r);
    case Mode::buffered:
      return MPI_Ibsend(data, count, type, right(), tag, MPI_COMM_WORLD, r);
  }
  return MPI_ERR_OTHER;
}

int send_init(Mode mode, const void* data, int count, MPI_Datatype type, int tag, MPI_Request* r) {
  switch (mode) {
    case Mode::standard:
      return MPI_Send_init(data, count, type, right(), tag, MPI_COMM_WORLD, r);
    case Mode::synchronous:
      return MPI_Ssend_init(data, count, type, right(), tag, MPI_COMM_WORLD, r);
    case Mode::ready:
      return MPI_Rsend_init(data, count, type, right(), tag, MPI_COMM_WORLD, r);
    case Mode::buffered:
      return MPI_Bsend_init(data, count, type, right(), tag, MPI_COMM_WORLD, r);
  }
  return MPI_ERR_OTHER;
}

/// A layout of `size` bytes of data, and how it is found in memory.
struct Layout {
  const char* name;
  MPI_Datatype type;
  int count;
  std::size_t stride;  ///< data byte i lies at i * stride
};

void check(const std::vector<unsigned char>& in, const Layout& layout, std::size_t size,
           uint32_t message, const MPI_Status& status, Mode mode, const char* how) {
  expect(status.MPI_SOURCE == left() && status.MPI_TAG == static_cast<int>(message),
         "%s %s %s %zu: source %d, tag %d", kNames[static_cast<int>(mode)], how, layout.name, size,
         status.MPI_SOURCE, status.MPI_TAG);
  expect(count_of(status, MPI_BYTE) == static_cast<int>(size), "%s %s %s %zu: %d bytes came",
         kNames[static_cast<int>(mode)], how, layout.name, size, count_of(status, MPI_BYTE));
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool data = i % layout.stride == 0;
    const unsigned char wanted = data ? pattern(message, i / layout.stride) : 0xee;
    if (in[i] == wanted) continue;
    expect(false, "%s %s %s %zu: byte %zu is %d, not %d", kNames[static_cast<int>(mode)], how,
           layout.name, size, i, in[i], wanted);
    return;
  }
}

void try_layout(const Layout& layout, std::size_t size) {
  std::vector<unsigned char> out(size * layout.stride + (size == 0 ? 1 : 0), 0x11);
  std::vector<unsigned char> in(out.size());
  uint32_t message = 0;
  // Ready sends need a receive that is posted: everybody says so before anybody sends.
  auto next = [&] {
    ++message;
    for (std::size_t i = 0; i < size; ++i) out[i * layout.stride] = pattern(message, i);
    std::fill(in.begin(), in.end(), static_cast<unsigned char>(0xee));
    if (size == 0) in[0] = pattern(message, 0);
  };
  auto receive = [&](MPI_Request* r) {
    MPI_Irecv(in.data(), layout.count, layout.type, left(), static_cast<int>(message),
              MPI_COMM_WORLD, r);
    MPI_Barrier(MPI_COMM_WORLD);
  };
  for (const Mode mode : kModes) {
    MPI_Request request;
    MPI_Status status;
    next();
    receive(&request);
    send(mode, out.data(), layout.count, layout.type, static_cast<int>(message));
    MPI_Wait(&request, &status);
    check(in, layout, size, message, status, mode, "blocking");

    next();
    MPI_Request both[2];
    MPI_Status statuses[2];
    receive(&both[0]);
    isend(mode, out.data(), layout.count, layout.type, static_cast<int>(message), &both[1]);
    MPI_Waitall(2, both, statuses);
    check(in, layout, size, message, statuses[0], mode, "nonblocking");

    next();
    send_init(mode, out.data(), layout.count, layout.type, static_cast<int>(message), &both[1]);
    MPI_Recv_init(in.data(), layout.count, layout.type, left(), static_cast<int>(message),
                  MPI_COMM_WORLD, &both[0]);
    for (int again = 0; again < 3; ++again) {
      std::fill(in.begin(), in.end(), static_cast<unsigned char>(0xee));
      if (size == 0) in[0] = pattern(message, 0);
      MPI_Start(&both[0]);
      MPI_Barrier(MPI_COMM_WORLD);
      MPI_Startall(1, &both[1]);
      MPI_Waitall(2, both, statuses);
      expect(both[0] != MPI_REQUEST_NULL, "a persistent request stays");
      check(in, layout, size, message, statuses[0], mode, "persistent");
    }
    MPI_Request_free(&both[0]);
    MPI_Request_free(&both[1]);
    expect(both[0] == MPI_REQUEST_NULL, "freed requests are null");
  }
}

void try_exchanges(std::size_t size) {
  std::vector<unsigned char> out(size);
  std::vector<unsigned char> in(size);
  const int count = static_cast<int>(size);
  const auto mine = static_cast<uint32_t>(g_rank + 1);
  const auto theirs = static_cast<uint32_t>(left() + 1);
  MPI_Status status;
  MPI_Request request;
  fill_pattern(out, mine);
  MPI_Sendrecv(out.data(), count, MPI_BYTE, right(), 5, in.data(), count, MPI_BYTE, left(), 5,
               MPI_COMM_WORLD, &status);
  expect(has_pattern(in.data(), size, theirs), "Sendrecv of %zu", size);
  expect(status.MPI_SOURCE == left() && count_of(status, MPI_BYTE) == count, "its status");
  in = out;
  MPI_Sendrecv_replace(in.data(), count, MPI_BYTE, right(), 6, left(), 6, MPI_COMM_WORLD, &status);
  expect(has_pattern(in.data(), size, theirs), "Sendrecv_replace of %zu", size);
  std::fill(in.begin(), in.end(), static_cast<unsigned char>(0));
  MPI_Isendrecv(out.data(), count, MPI_BYTE, right(), 7, in.data(), count, MPI_BYTE, left(), 7,
                MPI_COMM_WORLD, &request);
  MPI_Wait(&request, &status);
  expect(has_pattern(in.data(), size, theirs), "Isendrecv of %zu", size);
  expect(status.MPI_SOURCE == left() && status.MPI_TAG == 7 && count_of(status, MPI_BYTE) == count,
         "its status");
  in = out;
  MPI_Isendrecv_replace(in.data(), count, MPI_BYTE, right(), 8, left(), 8, MPI_COMM_WORLD,
                        &request);
  MPI_Wait(&request, &status);
  expect(has_pattern(in.data(), size, theirs), "Isendrecv_replace of %zu", size);
  MPI_Isendrecv(out.data(), count, MPI_BYTE, MPI_PROC_NULL, 7, in.data(), count, MPI_BYTE,
                MPI_PROC_NULL, 7, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, &status);
  expect(status.MPI_SOURCE == MPI_PROC_NULL && count_of(status, MPI_BYTE) == 0,
         "an exchange with nobody");
}

/// Of a freed exchange nothing needs to come for MPI_Finalize to end.
void leave_exchange() {
  static int word = 0;
  static int never = 0;
  MPI_Request request;
  MPI_Isendrecv(&word, 1, MPI_INT, MPI_PROC_NULL, 0, &never, 1, MPI_INT, MPI_ANY_SOURCE, 999,
                MPI_COMM_WORLD, &request);
  MPI_Request_free(&request);
}

}  // namespace

int main(int argc, char** argv) {
  begin(&argc, &argv);
  const int room = 4 * ((1 << 20) + MPI_BSEND_OVERHEAD);
  const std::unique_ptr<void, void (*)(void*)> buffer(std::malloc(room), std::free);
  MPI_Buffer_attach(buffer.get(), room);
  for (const std::size_t size : kSizes) {
    const int count = static_cast<int>(size);
    try_layout({"bytes", MPI_BYTE, count, 1}, size);
    MPI_Datatype vector;
    MPI_Type_vector(count, 1, 3, MPI_BYTE, &vector);
    MPI_Type_commit(&vector);
    try_layout({"vector", vector, 1, 3}, size);
    MPI_Type_free(&vector);
    MPI_Datatype wide;
    MPI_Type_create_resized(MPI_BYTE, 0, 2, &wide);
    MPI_Type_commit(&wide);
    try_layout({"resized", wide, count, 2}, size);
    MPI_Type_free(&wide);
    try_exchanges(size);
  }
  void* back = nullptr;
  int size = 0;
  MPI_Buffer_detach(&back, &size);
  expect(back == buffer.get() && size == room, "the buffer comes back");
  leave_exchange();
  return finish();
}
