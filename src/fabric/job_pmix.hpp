// The provider for processes that a PMIx launcher started: weftrun, Slurm, PRRTE.
#pragma once

#include <memory>

#include "weft/fabric/job.hpp"

namespace weft::fabric {

/// Joins the job that the environment (PMIX_RANK, PMIX_NAMESPACE) names. Once per process; a
/// second Job may be made after the first ended. Throws Error(launcher).
std::unique_ptr<Job> join_pmix_job();

}  // namespace weft::fabric
