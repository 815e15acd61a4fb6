// The surroundings of a job on one host: environment, and the folders that it uses.
#pragma once

#include <string>
#include <vector>

#include "weftrun/options.hpp"

namespace weft::run {

/// Takes out of this process's environment what an outer launcher told it: that is not for our
/// ranks. Before there are threads.
void forget_outer_job();

/// This process's environment, as far as it means anything on another host.
std::vector<std::string> environment_for_others();
/// Makes `pairs` ("K=V") this process's environment. Before there are threads.
void take_environment(const std::vector<std::string>& pairs);

/// After take_environment: a TMPDIR that this host does not have gives way to that of `own`, the
/// environment in which this process was started, or to none.
void take_own_temp(const std::vector<std::string>& own);

/// A name for the PMIx server's folder.
std::string server_folder();
/// Where the ranks put named segments, unless their program says otherwise.
std::string segments_folder(const Options& options);

}  // namespace weft::run
