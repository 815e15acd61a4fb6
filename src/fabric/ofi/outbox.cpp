#include "fabric/ofi/outbox.hpp"

namespace weft::fabric::ofi {

bool FramePool::grow() noexcept {
  try {
    chunks_.reserve(chunks_.size() + 1);
    chunks_.push_back(std::make_unique<std::byte[]>(kChunk * stride_));
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (std::size_t i = kChunk; i-- > 0;) give(*new (chunks_.back().get() + i * stride_) OutFrame{});
  return true;
}

}  // namespace weft::fabric::ofi
