// Which provider a process joins its job through: decided from the environment alone, because
// PMIx outside a launcher costs a search and answers with an error.
#include <mutex>

#include "fabric/job_alone.hpp"
#include "fabric/job_pmi1.hpp"
#include "fabric/job_pmix.hpp"
#include "fabric/launch_signs.hpp"
#include "weft/base/log.hpp"
#include "weft/fabric/job.hpp"

namespace weft::fabric {

std::unique_ptr<Job> join_job() {
  const LaunchSigns signs = read_launch_signs(surroundings());
  switch (signs.by) {
    case JoinBy::pmix:
      return join_pmix_job();
    case JoinBy::pmi1:
      return join_pmi1_job();
    case JoinBy::alone:
      break;
  }
  static std::once_flag once;
  if (signs.warns) std::call_once(once, [&] { base::log(base::LogLevel::warn, signs.warning); });
  return make_alone_job();
}

}  // namespace weft::fabric
