#include "weft/task/channel.hpp"

#include <string>

namespace weft::task::detail {

std::size_t checked_capacity(std::size_t capacity) {
  constexpr std::size_t kMost = std::size_t{1} << 40;
  if (capacity < 1 || capacity > kMost) {
    throw Error(Errc::bad_argument,
                "a channel with room for " + std::to_string(capacity) + " values: at least one" +
                    (capacity < 1 ? "" : ", and no more than " + std::to_string(kMost)));
  }
  return capacity;
}

}  // namespace weft::task::detail
