// Buffers by powers of two, each with a word in front that tells which.
#include "weft/base/buffers.hpp"

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>

#include "weft/base/cache_line.hpp"
#include "weft/base/locks.hpp"

namespace weft::base {
namespace {

constexpr std::size_t kLeast = std::size_t{8} << 10;  // smaller ones are the heap's business
constexpr std::size_t kClasses = 11;                  // up to 8 MiB; nor are larger ones kept
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kMostKept = 0;
#else
constexpr std::size_t kMostKept = std::size_t{16} << 20;
#endif
constexpr std::size_t kNoClass = kClasses;

/// In front of a buffer, right before its first byte.
struct alignas(16) Front {
  std::size_t size_class;
};

struct Kept {
  Kept* next;
};
struct alignas(kCacheLine) List {
  SpinLock lock;
  Kept* first = nullptr;
};
constinit List lists[kClasses];
constinit std::atomic<std::size_t> kept_bytes{0};

constexpr std::size_t class_of(std::size_t bytes) noexcept {
  const std::size_t bits = static_cast<std::size_t>(std::bit_width(bytes - 1));
  const std::size_t place = bits - (static_cast<std::size_t>(std::bit_width(kLeast)) - 1);
  return place < kClasses ? place : kNoClass;
}
constexpr std::size_t bytes_of(std::size_t size_class) noexcept { return kLeast << size_class; }
static_assert(class_of(kLeast) == 0 && class_of(kLeast + 1) == 1);
static_assert(class_of(bytes_of(kClasses - 1)) == kClasses - 1 &&
              class_of(bytes_of(kClasses - 1) + 1) == kNoClass);

Front& front_of(std::byte* buffer) noexcept {
  return *std::launder(reinterpret_cast<Front*>(buffer - sizeof(Front)));
}
/// Where the heap's memory of a buffer begins: a cache line before one that may be kept.
std::byte* start_of(std::byte* buffer, std::size_t size_class) noexcept {
  return buffer - (size_class == kNoClass ? sizeof(Front) : kCacheLine);
}
std::byte* with_front(std::byte* start, std::size_t size_class) noexcept {
  if (start == nullptr) return nullptr;
  std::byte* const buffer = start + (size_class == kNoClass ? sizeof(Front) : kCacheLine);
  new (buffer - sizeof(Front)) Front{size_class};
  return buffer;
}

std::byte* take_kept(List& list) noexcept {
  if (!list.lock.try_lock()) return nullptr;
  const std::lock_guard guard(list.lock, std::adopt_lock);
  Kept* const first = list.first;
  if (first != nullptr) list.first = first->next;
  return reinterpret_cast<std::byte*>(first);
}

/// Of other sizes, the largest first, a few, until there is room: what is taken and given back now
/// is more likely to be again than what lies there.
bool make_room(std::size_t own_class, std::size_t bytes) noexcept {
  const auto fits = [bytes] {
    return kept_bytes.load(std::memory_order_relaxed) + bytes <= kMostKept;
  };
  if (bytes > kMostKept || fits()) return bytes <= kMostKept;
  int few = 16;
  for (std::size_t other = kClasses; other-- > 0;) {
    if (other == own_class) continue;
    while (few-- > 0 && !fits()) {
      std::byte* const kept = take_kept(lists[other]);
      if (kept == nullptr) break;
      // relaxed: a bound, of nothing else.
      kept_bytes.fetch_sub(bytes_of(other), std::memory_order_relaxed);
      std::free(start_of(kept, other));
    }
  }
  return fits();
}

}  // namespace

std::byte* take_buffer(std::size_t bytes) noexcept {
  if (bytes < kLeast || bytes > bytes_of(kClasses - 1)) {
    if (bytes > SIZE_MAX - sizeof(Front)) return nullptr;
    return with_front(static_cast<std::byte*>(std::malloc(sizeof(Front) + bytes)), kNoClass);
  }
  const std::size_t size_class = class_of(bytes);
  if (std::byte* const kept = take_kept(lists[size_class]); kept != nullptr) {
    // relaxed: a bound, of nothing else.
    kept_bytes.fetch_sub(bytes_of(size_class), std::memory_order_relaxed);
    return kept;
  }
  const std::size_t whole = kCacheLine + bytes_of(size_class);
  return with_front(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, whole)), size_class);
}

void give_back_buffer(std::byte* buffer) noexcept {
  if (buffer == nullptr) return;
  const std::size_t size_class = front_of(buffer).size_class;
  if (size_class != kNoClass) {
    const std::size_t bytes = bytes_of(size_class);
    List& list = lists[size_class];
    if (make_room(size_class, bytes)) {
      // relaxed: as above. Counted before it is there, so that who takes it finds it counted.
      // Threads that do so at the same time may keep a buffer each too many.
      kept_bytes.fetch_add(bytes, std::memory_order_relaxed);
      if (list.lock.try_lock()) {
        const std::lock_guard guard(list.lock, std::adopt_lock);
        list.first = new (buffer) Kept{list.first};
        return;
      }
      kept_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    }
  }
  std::free(start_of(buffer, size_class));
}

void drop_kept_buffers() noexcept {
  for (std::size_t size_class = 0; size_class < kClasses; ++size_class) {
    while (std::byte* const kept = take_kept(lists[size_class])) {
      kept_bytes.fetch_sub(bytes_of(size_class), std::memory_order_relaxed);
      std::free(start_of(kept, size_class));
    }
  }
}

std::size_t kept_buffer_bytes() noexcept { return kept_bytes.load(std::memory_order_relaxed); }

}  // namespace weft::base
