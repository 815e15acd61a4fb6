// Free lists of coroutine frames and of room for blocks, by thread and size.
#include "mpi/collectives/frames.hpp"

#include <cstdint>
#include <new>
#include <utility>

#include "weft/base/buffers.hpp"

namespace weft::mpi {
namespace {

constexpr std::size_t kStep = 256;    // sizes are rounded up to multiples of this
constexpr std::size_t kClasses = 24;  // larger ones are base::take_buffer's
constexpr uint32_t kMostFrames = 32;  // of a size, kept by a thread

struct Free {
  Free* next;
};

/// One thread's frames. Frames that end in another thread than they began in stay there.
struct FrameCache {
  Free* first[kClasses] = {};
  uint32_t count[kClasses] = {};
  bool closed = false;  ///< the thread ends: nothing is kept any more

  ~FrameCache() {
    closed = true;
    for (Free*& list : first) {
      while (list != nullptr) ::operator delete(std::exchange(list, list->next));
    }
  }
};

thread_local constinit FrameCache cache;

constexpr std::size_t class_of(std::size_t bytes) noexcept { return (bytes - 1) / kStep; }

}  // namespace

// Tasks change threads when they wait: the cache's address must not outlive one call.
[[gnu::noinline]] void* allocate_frame(std::size_t bytes) {
  const std::size_t size = class_of(bytes);
  if (size >= kClasses) {
    void* const large = base::take_buffer(bytes);
    if (large == nullptr) throw std::bad_alloc();
    return large;
  }
  FrameCache& mine = cache;
  if (Free* frame = mine.first[size]; frame != nullptr) [[likely]] {
    mine.first[size] = frame->next;
    --mine.count[size];
    return frame;
  }
  return ::operator new((size + 1) * kStep);
}

[[gnu::noinline]] void release_frame(void* frame, std::size_t bytes) noexcept {
  const std::size_t size = class_of(bytes);
  if (size >= kClasses) {
    base::give_back_buffer(static_cast<std::byte*>(frame));
    return;
  }
  FrameCache& mine = cache;
  if (mine.closed || mine.count[size] == kMostFrames) {
    ::operator delete(frame);
    return;
  }
  mine.first[size] = new (frame) Free{mine.first[size]};
  ++mine.count[size];
}

}  // namespace weft::mpi
