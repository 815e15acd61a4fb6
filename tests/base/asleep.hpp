// Waiting until another thread sleeps: for tests in which the order of sleepers matters.
#pragma once

#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace weft::test {

inline pid_t this_thread_id() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

/// Returns once the thread that names itself in `id` sleeps in the kernel.
inline void wait_until_asleep(const std::atomic<pid_t>& id) {
  for (int looks = 0; looks < 3;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (id == 0) continue;
    std::ifstream file("/proc/self/task/" + std::to_string(id) + "/stat");
    std::string stat;
    std::getline(file, stat);
    const auto end_of_name = stat.rfind(')');
    const bool asleep = end_of_name != std::string::npos && stat.substr(end_of_name, 4) == ") S ";
    looks = asleep ? looks + 1 : 0;
  }
}

}  // namespace weft::test
