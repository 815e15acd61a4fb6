// The process's share of the cores, and who of its threads has which.
#include "weft/base/core_claim.hpp"

#include <algorithm>
#include <charconv>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "weft/base/config.hpp"
#include "weft/base/topology.hpp"

namespace weft::base {
namespace {

std::optional<int> number_in(std::string_view text) noexcept {
  int number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (wrong != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

std::optional<int> number_of(const char* variable) {
  const Environment found = environment(variable);
  return found.found ? number_in(found.value) : std::nullopt;
}

/// What launchers other than ours call the number of a process on its node, and how many there are.
struct Names {
  const char* number;
  const char* of;
};
constexpr Names kLaunchers[] = {
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"PMIX_LOCAL_RANK", "PMIX_LOCAL_SIZE"},
    {"SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

/// How many threads of the process have each core, by place in Topology::cores().
struct Taken {
  std::mutex mutex;
  std::vector<unsigned> by_core;
};
Taken& taken() {
  static auto* const made = new Taken;  // never destroyed: schedulers may end while statics end
  return *made;
}

/// Where the claims of this process begin.
std::size_t first_core(std::size_t cores, std::size_t claimed) {
  const CoreShare share = core_share();
  const auto number = static_cast<std::size_t>(share.number);
  if (share.of == 0) return number * claimed % cores;
  return number * cores / static_cast<std::size_t>(share.of);
}

}  // namespace

CoreShare core_share() {
  if (const Environment told = environment(kCoreShareVariable); told.found) {
    const std::string_view text = told.value;
    const std::size_t slash = std::min(text.find('/'), text.size());
    const auto number = number_in(text.substr(0, slash));
    const auto of = number_in(text.substr(std::min(slash + 1, text.size())));
    if (number && of && *number < *of) return {*number, *of};
  }
  if (Topology::machine().narrowed()) return {};
  for (const Names& names : kLaunchers) {
    const auto number = number_of(names.number);
    if (!number) continue;
    const auto of = number_of(names.of);
    return {*number, of && *number < *of ? *of : 0};
  }
  return {};
}

CoreClaim::CoreClaim(std::size_t count) {
  const std::size_t all = Topology::machine().cores().size();
  count = std::min(count, all);
  cores_.reserve(count);
  const std::size_t first = first_core(all, count);
  Taken& by_process = taken();
  const std::lock_guard lock(by_process.mutex);
  by_process.by_core.resize(all);
  while (cores_.size() < count) {
    std::size_t best = first;
    for (std::size_t i = 1; i < all; ++i) {
      const std::size_t at = (first + i) % all;
      if (by_process.by_core[at] < by_process.by_core[best]) best = at;
    }
    ++by_process.by_core[best];
    cores_.push_back(best);
  }
}

CoreClaim::~CoreClaim() { give_back(); }

CoreClaim::CoreClaim(CoreClaim&& other) noexcept : cores_(std::move(other.cores_)) {
  other.cores_.clear();
}

CoreClaim& CoreClaim::operator=(CoreClaim&& other) noexcept {
  if (this == &other) return *this;
  give_back();
  cores_ = std::exchange(other.cores_, {});
  return *this;
}

void CoreClaim::give_back() noexcept {
  if (cores_.empty()) return;
  Taken& by_process = taken();
  const std::lock_guard lock(by_process.mutex);
  for (const std::size_t core : cores_) --by_process.by_core[core];
  cores_.clear();
}

int CoreClaim::processor(std::size_t thread) const {
  return Topology::machine().cores().at(cores_.at(thread)).os_index;
}

std::vector<int> CoreClaim::processors() const {
  std::vector<int> all;
  for (std::size_t i = 0; i < cores_.size(); ++i) all.push_back(processor(i));
  return all;
}

}  // namespace weft::base
