// The provider for processes that a PMI-1 launcher started: Hydra (MPICH, Intel MPI), and Slurm's
// srun --mpi=pmi2, whose server speaks both.
#pragma once

#include <memory>

#include "weft/fabric/job.hpp"

namespace weft::fabric {

/// Joins the job that the environment (PMI_FD, PMI_RANK, PMI_SIZE) names. The process stays a
/// member until it exits, whatever becomes of the Job: another one made later is of the same job,
/// with the values that were published before. The protocol tells of no death: `on_peer_death`
/// keeps silent, and a fence that a rank never comes to ends when the launcher ends the job. Throws
/// Error(launcher).
std::unique_ptr<Job> join_pmi1_job();

}  // namespace weft::fabric
