// The provider for processes that a PMIx launcher started: weftrun, Slurm, PRRTE.
#pragma once

#include <memory>

#include "weft/fabric/job.hpp"

namespace weft::fabric {

/// Joins the job that the environment (PMIX_RANK, PMIX_NAMESPACE) names. The process stays a
/// member until it exits, whatever becomes of the Job: another one made later is of the same job,
/// with the values that were published before. Throws Error(launcher).
std::unique_ptr<Job> join_pmix_job();

}  // namespace weft::fabric
