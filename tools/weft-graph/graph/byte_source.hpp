// Bytes of a file, unpacked on the way: plain, gzip or xz, told apart by how the file begins.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace weft::graph {

/// A stream of bytes, read once from front to back by one thread.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Fills the front of `into` and returns how many bytes; 0 only at the end. Throws Error naming
  /// the file if it cannot be read, or its packing is damaged or cut off.
  virtual std::size_t read(std::span<char> into) = 0;
};

/// Opens `path`. Throws Error if it is missing, empty, a directory or not readable.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

}  // namespace weft::graph
