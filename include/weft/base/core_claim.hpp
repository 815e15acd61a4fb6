// Which cores the threads of this process are bound to: those that nobody else has, while there are
// any.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::base {

/// The place of this process among those of its job that may use the same cores: `WEFTRUN_CORES`
/// of weftrun, which knows whom it bound where; else the local rank as other launchers tell it
/// (Open MPI, those with hydra, Slurm), but for a process whose affinity mask leaves out cores of
/// the machine: its launcher has divided them.
struct CoreShare {
  int number = 0;  ///< from 0
  int of = 1;      ///< 0: not known
};
CoreShare core_share();

/// The environment variable by which weftrun tells "number/of". (Not a WEFT_… name: it is no
/// configuration.)
inline constexpr const char* kCoreShareVariable = "WEFTRUN_CORES";

/// Purpose: cores for some threads that are to be bound. Each gets the core that the fewest of this
/// process have, and of those the next after the beginning of the process's share: so the first
/// claims of neighbours are apart, and a process's claims follow one another. The cores are free
/// again when it ends. Thread-safe by one mutex; for set-up.
class CoreClaim {
 public:
  CoreClaim() noexcept = default;  ///< of no core
  /// Of at most as many as the process may use.
  explicit CoreClaim(std::size_t count);
  ~CoreClaim();
  CoreClaim(CoreClaim&& other) noexcept;
  CoreClaim& operator=(CoreClaim&& other) noexcept;

  /// The processors, as `bind_this_thread` takes them.
  [[nodiscard]] std::vector<int> processors() const;
  [[nodiscard]] int processor(std::size_t thread) const;
  [[nodiscard]] std::size_t count() const noexcept { return cores_.size(); }

 private:
  void give_back() noexcept;
  std::vector<std::size_t> cores_;  ///< places in Topology::cores()
};

}  // namespace weft::base
