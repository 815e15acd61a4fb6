// What /proc says about processes.
#pragma once

#include <cstdint>

namespace weft::fabric {

/// When process `pid` started, in the kernel's ticks since boot; 0 if it cannot be known.
uint64_t start_time_of(int64_t pid) noexcept;
uint64_t own_start_time() noexcept;

/// The number of this process's pid namespace; 0 if it cannot be known.
uint64_t pid_namespace() noexcept;

inline constexpr int64_t kNoThread = 0;         ///< none lives
inline constexpr int64_t kThreadNotKnown = -1;  ///< there was no looking
/// A thread of process `pid` that lives: the first, which has its number, unless that ended before
/// others (pthread_exit). Then nothing of the process is to be had by its number.
int64_t living_thread_of(int64_t pid) noexcept;

/// A number of this boot of this machine, which no other has; 0 if it cannot be known.
uint64_t boot_number() noexcept;

/// A number of this machine, the same in each of its boots; 0 if it cannot be known.
uint64_t machine_number() noexcept;

/// False only if it is certain that no process `pid` that started at `start_time` lives.
bool may_be_alive(int64_t pid, uint64_t start_time) noexcept;

}  // namespace weft::fabric
