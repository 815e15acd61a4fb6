// Which provider a process joins its job through: decided from the environment alone, because
// PMIx outside a launcher costs a search and answers with an error.
#include "fabric/job_alone.hpp"
#include "fabric/job_pmix.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft::fabric {

std::unique_ptr<Job> join_job() {
  if (base::environment("PMIX_RANK").found && base::environment("PMIX_NAMESPACE").found)
    return join_pmix_job();
  return make_alone_job();
}

}  // namespace weft::fabric
