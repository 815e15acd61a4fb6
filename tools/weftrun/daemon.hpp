// weftrun's other role: the daemon of one host of a job, which another weftrun had started.
#pragma once

namespace weft::run {

/// A daemon's main function: reads its summons from standard input, joins the job, runs this host's
/// ranks. Returns the process's exit code when the job is over or its parent is gone, with nothing
/// left of the job on this host.
int run_daemon(char** argv_area);

}  // namespace weft::run
