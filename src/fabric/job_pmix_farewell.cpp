#include "fabric/job_pmix_farewell.hpp"

#include <fmt/format.h>

#include <array>

namespace weft::fabric {
namespace {

/// A launcher that is going away itself shall not keep a rank that leaves.
constexpr int kTimeoutSeconds = 5;

std::array<pmix_info_t, 2> directives() {
  constexpr pmix_data_range_t kRange = PMIX_RANGE_NAMESPACE;
  constexpr int kSeconds = kTimeoutSeconds;
  std::array<pmix_info_t, 2> infos{};
  PMIX_INFO_LOAD(&infos[0], PMIX_RANGE, &kRange, PMIX_DATA_RANGE);
  PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &kSeconds, PMIX_INT);
  return infos;
}

}  // namespace

/// Publications are a launcher's, not a job's: the job's name is in the key.
std::string PmixFarewell::key_of(const pmix_proc_t& me, uint64_t fences) {
  return fmt::format("weft.left.{}.{}", fences, me.nspace);
}

void PmixFarewell::leave(uint64_t fences) const noexcept {
  if (silent_.load(std::memory_order_relaxed)) return;
  try {
    const std::string key = key_of(me_, fences);
    if (key.size() > PMIX_MAX_KEYLEN) return;
    const std::array how = directives();
    std::array<pmix_info_t, 3> infos{how[0], how[1]};
    PMIX_INFO_LOAD(&infos[2], key.c_str(), &me_.rank, PMIX_PROC_RANK);
    PMIx_Publish(infos.data(), infos.size());
  } catch (const std::exception&) {
    // No memory: nobody is told.
  }
}

std::optional<int> PmixFarewell::missing(uint64_t fences) {
  if (silent_.load(std::memory_order_relaxed)) return std::nullopt;
  const std::string key = key_of(me_, fences - 1);
  if (key.size() > PMIX_MAX_KEYLEN) return std::nullopt;
  const std::array how = directives();
  pmix_pdata_t found;
  PMIX_PDATA_CONSTRUCT(&found);
  PMIX_LOAD_KEY(found.key, key.c_str());
  const pmix_status_t status = PMIx_Lookup(&found, 1, how.data(), how.size());
  if (status == PMIX_SUCCESS && found.value.type == PMIX_PROC_RANK)
    return static_cast<int>(found.value.data.rank);
  if (status == PMIX_ERR_NOT_SUPPORTED) silent_.store(true, std::memory_order_relaxed);
  return std::nullopt;
}

}  // namespace weft::fabric
