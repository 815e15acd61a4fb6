#include "weft/base/records.hpp"

#include <sys/mman.h>

#include "weft/base/error.hpp"

namespace weft::base {

std::byte* map_records(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error(Errc::no_memory, "cannot map " + std::to_string(bytes) +
                                     " bytes for records; lower the number of operations, "
                                     "unexpected messages or requests");
  }
  return static_cast<std::byte*>(memory);
}

void unmap_records(std::byte* memory, std::size_t bytes) noexcept { ::munmap(memory, bytes); }

}  // namespace weft::base
