// One launch agent: the process that starts a daemon on another host.
#include "weftrun/agent.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "weftrun/options.hpp"
#include "weftrun/process_table.hpp"

namespace weft::run {
namespace {

/// A longer line is told in pieces.
constexpr std::size_t kLongestLine = 4096;

}  // namespace

Agent::Agent(const std::vector<std::string>& words, char** environment, std::string_view input) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe for a launch agent");
  const Fd in_read(in[0]);
  const Fd in_write(in[1]);
  if (pipe2(out, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe for a launch agent");
  said_ = Fd(out[0]);
  const Fd out_write(out[1]);
  fcntl(said_.get(), F_SETFL, O_NONBLOCK);
  // A pipe takes this much at once.
  if (write(in_write.get(), input.data(), input.size()) != static_cast<ssize_t>(input.size()))
    throw std::system_error(errno, std::generic_category(), "writing for a launch agent");

  std::string program;
  if (const auto usage = find_program(words.front(), program)) {
    failure_ = usage->text;
    return;
  }
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  SpawnPlan plan;
  plan.program = program.c_str();
  plan.argv = argv.data();
  plan.envp = environment;
  plan.in = in_read.get();
  plan.out = plan.err = out_write.get();
  sigemptyset(&plan.signal_mask);
  getrlimit(RLIMIT_NOFILE, &plan.descriptors);
  const SpawnResult result = spawn(plan);
  if (result.pid < 0) {
    failure_ = fmt::format("{} {}: {}", result.step, program, error_text(result.error));
    return;
  }
  pid_ = result.pid;
  end_ = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));  // since Linux 5.3
}

void Agent::listen(const std::function<void(const std::string&)>& line) {
  std::array<char, 4096> buffer;
  while (said_) {
    const ssize_t got = read(said_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) said_.reset();
    if (got > 0) partial_.append(buffer.data(), static_cast<std::size_t>(got));
    for (std::size_t end = partial_.find('\n'); end != std::string::npos;
         end = partial_.find('\n')) {
      line(partial_.substr(0, partial_.find_first_of("\r\n")));
      partial_.erase(0, end + 1);
    }
    if (!partial_.empty() && (!said_ || partial_.size() > kLongestLine)) {
      line(partial_);
      partial_.clear();
    }
  }
}

std::optional<std::string> Agent::take_end() {
  if (!failure_.empty())
    return fmt::format("could not be started ({})", std::exchange(failure_, {}));
  if (pid_ <= 0) return std::nullopt;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  end_.reset();
  return describe_end(status);
}

void Agent::end_it() const noexcept {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

}  // namespace weft::run
