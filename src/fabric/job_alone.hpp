// The provider for a program that was started by hand: a job of one.
#pragma once

#include <memory>

#include "weft/fabric/job.hpp"

namespace weft::fabric {

std::unique_ptr<Job> make_alone_job();

}  // namespace weft::fabric
