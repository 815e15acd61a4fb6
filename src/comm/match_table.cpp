#include "comm/match_table.hpp"

#include <algorithm>
#include <mutex>

namespace weft::comm {

MatchTable::MatchTable(std::size_t buckets, std::size_t entries) : limit_(entries) {
  queues_.reserve(buckets);
}
MatchTable::~MatchTable() = default;

uint64_t MatchTable::access(uint64_t key, Side side, uint64_t value) noexcept {
  std::lock_guard guard(lock_);
  auto& queue = queues_[key];
  if (!queue.values.empty() && queue.side != side) {
    const uint64_t found = queue.values.front();
    queue.values.pop_front();
    if (queue.values.empty()) queues_.erase(key);
    --size_;
    return found;
  }
  if (size_ == limit_) {
    if (queue.values.empty()) queues_.erase(key);
    return kNoRoom;
  }
  queue.side = side;
  queue.values.push_back(value);
  ++size_;
  return 0;
}

uint64_t MatchTable::take(uint64_t key, Side side) noexcept {
  std::lock_guard guard(lock_);
  auto at = queues_.find(key);
  if (at == queues_.end() || at->second.side == side) return 0;
  const uint64_t found = at->second.values.front();
  at->second.values.pop_front();
  if (at->second.values.empty()) queues_.erase(at);
  --size_;
  return found;
}

bool MatchTable::remove(uint64_t key, Side side, uint64_t value) noexcept {
  std::lock_guard guard(lock_);
  auto at = queues_.find(key);
  if (at == queues_.end() || at->second.side != side) return false;
  auto& values = at->second.values;
  const auto place = std::find(values.begin(), values.end(), value);
  if (place == values.end()) return false;
  values.erase(place);
  if (values.empty()) queues_.erase(at);
  --size_;
  return true;
}

void MatchTable::drain(const std::function<void(uint64_t, Side, uint64_t)>& each) {
  std::unordered_map<uint64_t, Queue> all;
  {
    std::lock_guard guard(lock_);
    all.swap(queues_);
    size_ = 0;
  }
  for (auto& [key, queue] : all)
    for (const uint64_t value : queue.values) each(key, queue.side, value);
}

std::size_t MatchTable::size() const noexcept {
  std::lock_guard guard(lock_);
  return size_;
}

}  // namespace weft::comm
