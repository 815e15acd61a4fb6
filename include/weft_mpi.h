/* Tasks for MPI programs that run on weft: as many activities as there are conversations, each with plain
 * blocking MPI calls, on as few threads as there are cores.
 *
 * A blocking MPI call in a task suspends that task only; its thread runs another one meanwhile. So may a
 * test or a probe of a task that has asked in vain for fifty microseconds: hold no lock of a thread's
 * (std::mutex) across either. Tasks are
 * what docs/scheduler.md describes. These functions are in weft's libmpi_abi alone: a program that shall
 * also run on other MPI libraries looks them up with dlsym and uses threads where they are not there.
 *
 * All answer MPI_SUCCESS or an error class; no error handler is called.
 */
#ifndef WEFT_MPI_H
#define WEFT_MPI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs body(number, argument) for number = 0 … count - 1, each in a task of its own, and returns when they
 * and all that they spawned have ended. `workers`: threads to run them on; 0: one for each core that
 * this process may use. The calling thread waits, and may not be in a task itself.
 *
 * MPI_ERR_OTHER: MPI is not initialized, or not with MPI_THREAD_MULTIPLE, or the caller is a task.
 * MPI_ERR_ARG: no body, or a negative number. MPI_ERR_NO_MEM: no memory for stacks or threads. */
int weft_mpi_run(int workers, int64_t count, void (*body)(int64_t number, void* argument),
                 void* argument);

/* In a task: begins another one, body(argument), which weft_mpi_run waits for.
 * MPI_ERR_OTHER: the caller is no task. MPI_ERR_ARG: no body. MPI_ERR_NO_MEM. */
int weft_mpi_spawn(void (*body)(void* argument), void* argument);

/* In a task: lets others of its thread run. Elsewhere nothing happens. */
void weft_mpi_yield(void);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_MPI_H */
