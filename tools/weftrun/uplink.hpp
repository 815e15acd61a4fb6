// A daemon's way to the job that it was summoned to: finding its parent, and being let in.
#pragma once

#include <string>

#include "weftrun/link.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {

/// Reads what the launch agent brings: until all of it is there, or nothing more comes. Throws
/// std::runtime_error.
Summons read_summons(int fd);

/// A parent that let us in, and the job that it sent.
struct Joined {
  Link link;
  JobSpec spec;
  std::string spec_bytes;
};

/// Connects to the first of the addresses where somebody knows the key, and waits for the job.
/// Throws std::runtime_error.
Joined join(const Summons& summons);

}  // namespace weft::run
