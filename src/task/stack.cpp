// Mapping, carving and guarding of stacks.
#include "task/stack.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "task/switch.hpp"
#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/task/config.hpp"

namespace weft::task {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kGuardInstall = 102;  // MADV_GUARD_INSTALL, which older headers lack
constexpr std::size_t kMapBytes = std::size_t{64} << 20;
constexpr uint64_t kCanary = 0x57454654'43414e41;  // "WEFTCANA"

uint64_t& canary_of(const Stack& stack) noexcept { return *reinterpret_cast<uint64_t*>(stack.low); }

bool kernel_installs_guards() noexcept {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool works = ::madvise(page, kPage, kGuardInstall) == 0;
  ::munmap(page, kPage);
  return works;
}

}  // namespace

std::string_view to_string(Guard guard) noexcept {
  switch (guard) {
    case Guard::install:
      return "guard pages of the kernel (MADV_GUARD_INSTALL)";
    case Guard::mprotect:
      return "mprotect guards up to task.mprotect_guards stacks, canaries beyond";
    case Guard::canary:
      break;
  }
  return "canaries";
}

Guard configured_guard() {
  static const bool installs = kernel_installs_guards();
  register_task_config();
  const std::string asked = base::config_text("task.guards");
  if (asked == "mprotect") return Guard::mprotect;
  if (asked == "canary") return Guard::canary;
  if (asked == "madvise" && !installs) {
    throw Error(Errc::bad_config,
                "task.guards: this kernel has no MADV_GUARD_INSTALL (Linux 6.13); 'automatic' "
                "takes what it has");
  }
  return installs ? Guard::install : Guard::mprotect;
}

StackPool::~StackPool() {
  for (const Map& map : maps_) {
    if (kThreadSanitized || under_valgrind()) {
      const std::size_t bytes = std::size_t{1} << map.size_class;
      for (std::size_t end = bytes; end <= map.carved; end += bytes) {
        forget(*stack_in(map.address + end - bytes, map.size_class));
      }
    }
    forget_frames(map.address, map.carved);
    ::munmap(map.address, map.bytes);
  }
}

Stack* StackPool::take(uint32_t size_class) noexcept {
  const std::lock_guard hold(lock_);
  if (Stack* stack = free_[size_class]; stack != nullptr) {
    free_[size_class] = stack->next;
    return stack;
  }
  if (open_map_[size_class] == 0 && !map_more(size_class)) return nullptr;
  Map& map = maps_[static_cast<std::size_t>(open_map_[size_class] - 1)];
  Stack* stack = carve(map);
  if (map.carved == map.bytes) open_map_[size_class] = 0;
  return stack;
}

void StackPool::give(Stack& stack) noexcept {
  check(stack);
  const std::lock_guard hold(lock_);
  stack.next = free_[stack.size_class];
  free_[stack.size_class] = &stack;
}

bool StackPool::map_more(uint32_t size_class) noexcept {
  const std::size_t bytes = std::max(kMapBytes, std::size_t{1} << size_class);
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) return false;
  // A stack is mostly a page; a huge page would be hundreds of them.
  ::madvise(address, bytes, MADV_NOHUGEPAGE);
  try {
    maps_.push_back({static_cast<char*>(address), bytes, size_class, 0, 0});
  } catch (const std::bad_alloc&) {
    ::munmap(address, bytes);
    return false;
  }
  open_map_[size_class] = static_cast<int>(maps_.size());
  return true;
}

Stack* StackPool::carve(Map& map) noexcept {
  if (map.carved >= map.guarded && kind_ == Guard::install) guard_ahead(map);
  const bool is_guarded = map.carved < map.guarded;
  char* base = map.address + map.carved;
  map.carved += std::size_t{1} << map.size_class;
  auto* stack = new (stack_in(base, map.size_class)) Stack;
  stack->low = base + kPage;
  stack->size_class = static_cast<uint8_t>(map.size_class);
  stack->has_canary = !is_guarded && !guard(base);
  if (stack->has_canary) canary_of(*stack) = kCanary;
  start_(*stack);
  made_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  return stack;
}

/// The guards of the next stacks in one system call, the more, the more there are already. Where
/// the kernel cannot, each gets its own.
void StackPool::guard_ahead(Map& map) noexcept {
  constexpr std::size_t kMost = 64;
  constexpr int kSelf = -10000;  // PIDFD_SELF, which older headers lack
  const std::size_t bytes = std::size_t{1} << map.size_class;
  const std::size_t count =
      std::min({kMost, map.carved / bytes / 4, (map.bytes - map.carved) / bytes});
  iovec pages[kMost];
  for (std::size_t i = 0; i < count; ++i) {
    pages[i] = {map.address + map.carved + i * bytes, kPage};
  }
  if (count <= 1 || !guards_ahead_) return;
  const ssize_t done = ::process_madvise(kSelf, pages, count, kGuardInstall, 0);
  guards_ahead_ = done > 0;
  if (done > 0) map.guarded = map.carved + static_cast<std::size_t>(done) / kPage * bytes;
}

bool StackPool::guard(char* page) noexcept {
  if (kind_ == Guard::install) return ::madvise(page, kPage, kGuardInstall) == 0;
  if (guards_left_ == 0) return false;
  --guards_left_;
  return ::mprotect(page, kPage, PROT_NONE) == 0;
}

bool StackPool::overflowed(const Stack& stack) noexcept {
  return stack.has_canary && canary_of(stack) != kCanary;
}

void StackPool::check(const Stack& stack) noexcept {
  WEFT_CHECK(!overflowed(stack), "a task overflowed its stack");
}

Stack* StackPool::guarded_by(const void* address) noexcept {
  // In a handler: another thread may hold the lock for a moment; the one that faulted itself only
  // where the pool is at fault, which must not hang.
  std::unique_lock hold(lock_, std::try_to_lock);
  for (int i = 0; i < 1000 && !hold; ++i) {
    ::sched_yield();
    (void)hold.try_lock();
  }
  if (!hold) return nullptr;
  const auto* at = static_cast<const char*>(address);
  for (const Map& map : maps_) {
    if (at < map.address || at >= map.address + map.carved) continue;
    const std::size_t bytes = std::size_t{1} << map.size_class;
    char* base = map.address + static_cast<std::size_t>(at - map.address) / bytes * bytes;
    if (at >= base + kPage) return nullptr;
    return stack_in(base, map.size_class);
  }
  return nullptr;
}

}  // namespace weft::task
