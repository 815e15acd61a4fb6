// Anonymous pages, zeroed, not resident before they are touched.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace weft::fabric::ofi {

class Pages {
 public:
  Pages() = default;
  /// Throws Error(no_memory).
  explicit Pages(std::size_t bytes);
  Pages(Pages&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages();
  [[nodiscard]] std::byte* base() const noexcept { return base_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace weft::fabric::ofi
