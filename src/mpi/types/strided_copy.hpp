// Copy loops between blocks at a stride and packed bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "weft/base/copy.hpp"

namespace weft::mpi {

// Addresses are numbers here: displacements may be absolute ones (MPI_BOTTOM), which are no
// pointers into anything.

/// Copies one block; `kPack`: from the buffer, else to it.
template <bool kPack>
inline void copy_block(uintptr_t address, std::byte* packed, std::size_t bytes) noexcept {
  auto* const buffer = reinterpret_cast<std::byte*>(address);
  if constexpr (kPack) {
    base::copy_bytes(packed, buffer, bytes);
  } else {
    base::copy_bytes(buffer, packed, bytes);
  }
}

/// The same, without a call for the sizes that elements have.
template <bool kPack>
inline void copy_small_block(uintptr_t address, std::byte* packed, int64_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return copy_block<kPack>(address, packed, 1);
    case 2:
      return copy_block<kPack>(address, packed, 2);
    case 4:
      return copy_block<kPack>(address, packed, 4);
    case 8:
      return copy_block<kPack>(address, packed, 8);
    case 12:
      return copy_block<kPack>(address, packed, 12);
    case 16:
      return copy_block<kPack>(address, packed, 16);
    case 24:
      return copy_block<kPack>(address, packed, 24);
    case 32:
      return copy_block<kPack>(address, packed, 32);
    default:
      return copy_block<kPack>(address, packed, static_cast<std::size_t>(bytes));
  }
}

template <bool kPack, std::size_t kBytes>
inline void copy_strided_fixed(uintptr_t address, int64_t stride, int64_t count,
                               std::byte* packed) noexcept {
  for (int64_t i = 0; i < count; ++i) {
    copy_block<kPack>(address, packed, kBytes);
    address += static_cast<uintptr_t>(stride);
    packed += kBytes;
  }
}

/// `count` blocks of `bytes`, `stride` apart.
template <bool kPack>
inline void copy_strided(uintptr_t address, int64_t stride, int64_t bytes, int64_t count,
                         std::byte* packed) noexcept {
  switch (bytes) {
    case 1:
      return copy_strided_fixed<kPack, 1>(address, stride, count, packed);
    case 2:
      return copy_strided_fixed<kPack, 2>(address, stride, count, packed);
    case 4:
      return copy_strided_fixed<kPack, 4>(address, stride, count, packed);
    case 8:
      return copy_strided_fixed<kPack, 8>(address, stride, count, packed);
    case 12:
      return copy_strided_fixed<kPack, 12>(address, stride, count, packed);
    case 16:
      return copy_strided_fixed<kPack, 16>(address, stride, count, packed);
    case 20:
      return copy_strided_fixed<kPack, 20>(address, stride, count, packed);
    case 24:
      return copy_strided_fixed<kPack, 24>(address, stride, count, packed);
    case 32:
      return copy_strided_fixed<kPack, 32>(address, stride, count, packed);
    case 40:
      return copy_strided_fixed<kPack, 40>(address, stride, count, packed);
    case 48:
      return copy_strided_fixed<kPack, 48>(address, stride, count, packed);
    case 64:
      return copy_strided_fixed<kPack, 64>(address, stride, count, packed);
    default:
      break;
  }
  for (int64_t i = 0; i < count; ++i) {
    copy_block<kPack>(address, packed, static_cast<std::size_t>(bytes));
    address += static_cast<uintptr_t>(stride);
    packed += bytes;
  }
}

}  // namespace weft::mpi
