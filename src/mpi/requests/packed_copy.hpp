// What a program sends, copied, for calls that give the buffer back before it has gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "mpi/datatype.hpp"
#include "mpi/requests/arguments.hpp"

namespace weft::mpi {

/// A message in packed form; short ones without heap. Must not move while it is being sent.
class PackedCopy {
 public:
  explicit PackedCopy(const Piece& piece) : bytes_(piece.count * piece.type.size()) {
    const auto size = static_cast<std::size_t>(bytes_);
    if (size > sizeof near_) far_ = std::make_unique_for_overwrite<std::byte[]>(size);
    if (size != 0) piece.type.pack(piece.buffer, piece.count, 0, {data(), size});
  }
  PackedCopy(const PackedCopy&) = delete;
  PackedCopy& operator=(const PackedCopy&) = delete;

  /// To be sent in place of the original.
  [[nodiscard]] Piece piece() const {
    return {far_ ? far_.get() : near_, bytes_, datatype(MPI_PACKED)};
  }

 private:
  [[nodiscard]] std::byte* data() noexcept { return far_ ? far_.get() : near_; }

  int64_t bytes_;
  std::unique_ptr<std::byte[]> far_;
  std::byte near_[256];
};

}  // namespace weft::mpi
