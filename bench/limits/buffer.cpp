// The memory that limits copy from and to.
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "limits/limits.hpp"

namespace weft::bench {

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t whole = (bytes + kPage) / kPage * kPage;  // never empty
  data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, whole));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 1, whole);
}

Buffer::~Buffer() { std::free(data_); }

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

}  // namespace weft::bench
