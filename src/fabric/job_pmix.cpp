// The provider for processes that a PMIx launcher started: weftrun, Slurm, PRRTE.
#include "fabric/job_pmix.hpp"

#include "weft/base/error.hpp"

namespace weft::fabric {

std::unique_ptr<Job> join_pmix_job() {
  throw Error(Errc::launcher, "this build cannot join a PMIx job yet");
}

}  // namespace weft::fabric
