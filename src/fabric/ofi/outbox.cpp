#include "fabric/ofi/outbox.hpp"

#include "weft/base/error.hpp"

namespace weft::fabric::ofi {

bool FramePool::grow() noexcept {
  try {
    add_chunk();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  } catch (const Error&) {
    return false;
  }
}

void FramePool::add_chunk() {
  const std::size_t bytes = kChunk * stride_;
  void* descriptor = nullptr;
  chunks_.reserve(chunks_.size() + 1);
  auto chunk = std::make_unique<std::byte[]>(bytes);
  if (endpoint_ != nullptr) descriptor = endpoint_->enter({chunk.get(), bytes});
  chunks_.push_back(std::move(chunk));
  for (std::size_t i = kChunk; i-- > 0;) {
    OutFrame& frame = *new (chunks_.back().get() + i * stride_) OutFrame{};
    frame.descriptor = descriptor;
    give(frame);
  }
}

}  // namespace weft::fabric::ofi
