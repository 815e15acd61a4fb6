// The portable representation "external32" (MPI 14.5.2): big-endian, fixed sizes, no gaps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/datatype.hpp"

namespace weft::mpi {

/// Bytes of one element of the type in external32.
[[nodiscard]] int64_t external_size(const Datatype& type);
/// `count` elements at `buffer`, to `packed` and back. Throws MPI_ERR_CONVERSION for values that do
/// not fit the other side.
void pack_external(const Datatype& type, const void* buffer, int64_t count, std::byte* packed);
void unpack_external(const Datatype& type, void* buffer, int64_t count, const std::byte* packed);

}  // namespace weft::mpi
