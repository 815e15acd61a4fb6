#include "comm/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace weft::bench {

RuntimeOptions runtime_options(Pair& pair, const Options& options) {
  RuntimeOptions made;
  made.job = &pair.job();
  if (options.devices != 0) made.devices = options.devices;
  if (options.progress == "explicit") made.progress = Progress::explicit_;
  if (options.progress == "waiters") made.progress = Progress::waiters;
  if (options.progress == "server") made.progress = Progress::server;
  if (options.assignment == "dedicated") made.assignment = Assignment::dedicated;
  if (options.assignment == "round_robin") made.assignment = Assignment::round_robin;
  return made;
}

void expect_ok(Errc error, const char* what) {
  if (error != Errc::ok) throw std::runtime_error(fmt::format("{}: {}", what, to_string(error)));
}

PutTarget::PutTarget(Pair& pair, Runtime& runtime, std::size_t bytes, bool ordinary)
    : runtime_(runtime) {
  bytes = std::max<std::size_t>(bytes, 1);  // puts of nothing still need a place
  if (ordinary) {
    ordinary_ = std::make_unique<Buffer>(bytes);
    memory_ = {ordinary_->data(), bytes};
  } else {
    memory_ = runtime.allocate_shared(bytes);
    std::memset(memory_.data(), 1, bytes);
  }
  region_ = std::make_unique<Region>(runtime, memory_);
  uint64_t words[sizeof(fabric::MemoryKey) / sizeof(uint64_t)];
  static_assert(sizeof(words) == sizeof(fabric::MemoryKey));
  std::memcpy(words, &region_->key(), sizeof(words));
  for (auto& word : words) word = pair.yard().trade(word);
  std::memcpy(&peer_key_, words, sizeof(words));
}

PutTarget::~PutTarget() {
  region_.reset();
  if (!ordinary_) runtime_.release_shared(memory_);
}

BlockAllocator::BlockAllocator(std::size_t bytes, std::size_t blocks) : bytes_(bytes) {
  for (std::size_t i = 0; i < blocks; ++i) {
    blocks_.emplace_back(bytes);
    free_.push_back(blocks_.back().data());
  }
}

std::byte* BlockAllocator::allocate(std::size_t bytes) noexcept {
  const std::lock_guard guard(lock_);
  if (bytes > bytes_ || free_.empty()) return nullptr;
  std::byte* block = free_.back();
  free_.pop_back();
  return block;
}

void BlockAllocator::release(std::byte* memory, std::size_t) noexcept {
  const std::lock_guard guard(lock_);
  free_.push_back(memory);  // never grows beyond its first size
}

void work_for(Pair& pair, Crew& crew, double seconds, std::function<void(unsigned)> work) {
  auto& stop = pair.yard().memory().stop.value;
  stop.store(0, std::memory_order_relaxed);
  pair.yard().memory().note[0].value.store(0, std::memory_order_relaxed);
  pair.meet();
  crew.start(std::move(work));
  if (pair.leads()) {
    sleep_for_seconds(seconds);
    stop.store(1, std::memory_order_relaxed);
  }
  crew.finish();
  pair.meet();
}

}  // namespace weft::bench
