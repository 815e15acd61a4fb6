// Random names and secrets of jobs.
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/error.hpp"

namespace weft::fabric {

/// `bytes` bytes of the kernel's randomness as lower-case hexadecimal digits, two a byte.
inline std::string random_hex(std::size_t bytes) {
  std::string raw(bytes, '\0');
  for (std::size_t have = 0; have < bytes;) {
    const ssize_t got = getrandom(raw.data() + have, bytes - have, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      throw Error(Errc::launcher, "getrandom: " + std::generic_category().message(errno));
    have += static_cast<std::size_t>(got);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes);
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 15]);
  }
  return hex;
}

/// A job's key: 128 bits.
inline std::string random_job_key() { return random_hex(16); }

}  // namespace weft::fabric
