// Free lists of coroutine frames and of room for blocks, by thread and size.
#include "mpi/collectives/frames.hpp"

#include <bit>
#include <cstdint>
#include <new>
#include <utility>

namespace weft::mpi {
namespace {

constexpr std::size_t kStep = 256;         // small sizes are rounded up to multiples of this,
constexpr std::size_t kSmallClasses = 24;  // of which there are so many;
constexpr std::size_t kLargeBits = 13;     // larger ones to powers of two, from this one
constexpr std::size_t kLargeClasses = 6;   // up to 256 KiB
constexpr std::size_t kClasses = kSmallClasses + kLargeClasses;
// What a thread keeps.
constexpr uint32_t kMostFrames = 32;           // of a size
constexpr std::size_t kMostLarge = 512 << 10;  // bytes of large ones

struct Free {
  Free* next;
};

/// One thread's frames. Frames that end in another thread than they began in stay there.
struct FrameCache {
  Free* first[kClasses] = {};
  uint32_t count[kClasses] = {};
  std::size_t large = 0;  ///< bytes of large ones
  bool closed = false;    ///< the thread ends: nothing is kept any more

  ~FrameCache() {
    closed = true;
    for (Free*& list : first) {
      while (list != nullptr) ::operator delete(std::exchange(list, list->next));
    }
  }
};

thread_local constinit FrameCache cache;

/// Beyond the last one: from the heap alone.
constexpr std::size_t class_of(std::size_t bytes) noexcept {
  if (bytes <= kSmallClasses * kStep) return (bytes - 1) / kStep;
  return kSmallClasses + static_cast<std::size_t>(std::bit_width(bytes - 1)) - kLargeBits;
}
constexpr std::size_t bytes_of(std::size_t size_class) noexcept {
  return size_class < kSmallClasses ? (size_class + 1) * kStep
                                    : std::size_t{1} << (size_class - kSmallClasses + kLargeBits);
}
static_assert(class_of(6144) == 23 && class_of(6145) == 24 && bytes_of(24) == 8192);
static_assert(class_of(256 << 10) == kClasses - 1 && bytes_of(kClasses - 1) == 256 << 10);

}  // namespace

// Tasks change threads when they wait: the cache's address must not outlive one call.
[[gnu::noinline]] void* allocate_frame(std::size_t bytes) {
  const std::size_t size = class_of(bytes);
  if (size >= kClasses) return ::operator new(bytes);
  FrameCache& mine = cache;
  if (Free* frame = mine.first[size]; frame != nullptr) [[likely]] {
    mine.first[size] = frame->next;
    --mine.count[size];
    if (size >= kSmallClasses) mine.large -= bytes_of(size);
    return frame;
  }
  return ::operator new(bytes_of(size));
}

[[gnu::noinline]] void release_frame(void* frame, std::size_t bytes) noexcept {
  const std::size_t size = class_of(bytes);
  FrameCache& mine = cache;
  const std::size_t large = size < kSmallClasses || size >= kClasses ? 0 : bytes_of(size);
  if (size >= kClasses || mine.closed || mine.count[size] == kMostFrames ||
      mine.large + large > kMostLarge) {
    ::operator delete(frame);
    return;
  }
  mine.large += large;
  mine.first[size] = new (frame) Free{mine.first[size]};
  ++mine.count[size];
}

}  // namespace weft::mpi
