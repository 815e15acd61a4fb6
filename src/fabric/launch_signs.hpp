// What the environment tells of how this process was started, and so which way it joins its job.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/config.hpp"

namespace weft::fabric {

enum class JoinBy : uint8_t { alone, pmix, pmi1 };

struct LaunchSigns {
  JoinBy by = JoinBy::alone;
  /// "weftrun", "prterun", "srun" …; empty if nothing tells.
  std::string launcher;
  /// The variables, "NAME=value", that decided.
  std::vector<std::string> decided;
  struct Unused {
    std::string variable;  ///< "NAME=value"
    std::string why;
  };
  /// What else was there of a launcher.
  std::vector<Unused> unused;
  /// Not empty: this will be one of several jobs of one, which nobody can have meant. A sentence.
  std::string warning;
  /// This process is the one of them to print it.
  bool warns = false;
};

/// What is looked at. Pure otherwise: tests make up an environment.
struct Surroundings {
  std::function<base::Environment(const char*)> variable = base::environment;
  /// Of a descriptor's number: it is an open socket here.
  std::function<bool(std::string_view)> is_socket;
};
/// Those of this process.
Surroundings surroundings();

/// PMIx if PMIX_RANK and PMIX_NAMESPACE are set, else PMI-1 if PMI_FD, PMI_RANK and PMI_SIZE are,
/// else alone. Where both are set, one launcher runs inside the other: the socket of PMI_FD is only
/// open if its own is the inner one. Thread-safe; asks no library.
LaunchSigns read_launch_signs(const Surroundings& around);

}  // namespace weft::fabric
