// The pack plan of a committed type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "mpi/types/layout.hpp"

namespace weft::mpi {

/// Immutable; thread-safe. Copies between the elements of a buffer and any window of their packed
/// form, without looking at the type again.
class PackPlan {
 public:
  PackPlan(Layout layout, int64_t extent) : layout_(std::move(layout)), extent_(extent) {}
  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  /// `bytes` from byte `offset` of the packed form on, to or from `packed`.
  void pack(const void* buffer, int64_t count, int64_t offset, std::byte* packed,
            int64_t bytes) const noexcept;
  void unpack(void* buffer, int64_t count, int64_t offset, const std::byte* packed,
              int64_t bytes) const noexcept;

 private:
  Layout layout_;
  int64_t extent_;
};

}  // namespace weft::mpi
