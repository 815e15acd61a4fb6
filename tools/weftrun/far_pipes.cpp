// A daemon's pipes to its ranks.
#include "weftrun/far_pipes.hpp"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace weft::run {
namespace {

void control(int epoll, int operation, int fd, uint32_t events, uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll, operation, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

/// A pipe whose `ours` end does not block.
void make_pipe(int (&ends)[2], int ours) {
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "making pipes for the ranks");
  fcntl(ends[ours], F_SETFL, O_NONBLOCK);
}

}  // namespace

void FarPipes::open(const NodePart& here, GuardPlan& plan) {
  int ends[2];
  for (int rank = here.first; rank < here.first + here.ranks; ++rank) {
    for (int stream = 0; stream < 2; ++stream) {
      make_pipe(ends, 0);
      pipes_.push_back({rank, stream, Fd(ends[0]), false});
      (stream == 1 ? plan.err : plan.out).emplace_back(ends[1]);
      plan.not_yours.push_back(ends[0]);
    }
  }
  if (here.first != 0) return;
  make_pipe(ends, 1);
  plan.in = Fd(ends[0]);
  input_ = Fd(ends[1]);
  plan.not_yours.push_back(ends[1]);
}

void FarPipes::watch(int epoll, uint64_t input_tag, uint64_t first_tag) {
  epoll_ = epoll;
  input_tag_ = input_tag;
  first_tag_ = first_tag;
  for (const int stream : {0, 1}) update_watches(stream);
}

void FarPipes::update_watches(int stream) {
  const bool wanted = window_.at(static_cast<std::size_t>(stream)) > 0;
  for (std::size_t i = 0; i < pipes_.size(); ++i) {
    Pipe& pipe = pipes_[i];
    if (pipe.stream != stream || !pipe.fd || pipe.watched == wanted) continue;
    control(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, pipe.fd.get(), EPOLLIN, first_tag_ + i);
    pipe.watched = wanted;
  }
}

bool FarPipes::pass_on(Pipe& pipe, int member, const Up& up) {
  std::array<char, 65536> buffer;
  const ssize_t got = ::read(pipe.fd.get(), buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && errno == EAGAIN) return false;
  if (got <= 0) {
    pipe.fd.reset();
    up({.say = Say::output_end, .member = member, .rank = pipe.rank, .value = pipe.stream});
    return false;
  }
  window_.at(static_cast<std::size_t>(pipe.stream)) -= got;
  up({.say = Say::output,
      .member = member,
      .rank = pipe.rank,
      .value = pipe.stream,
      .text = std::string(buffer.data(), static_cast<std::size_t>(got))});
  return true;
}

void FarPipes::read(std::size_t index, int member, const Up& up) {
  Pipe& pipe = pipes_.at(index);
  if (!pipe.fd || window_.at(static_cast<std::size_t>(pipe.stream)) <= 0) return;
  pass_on(pipe, member, up);
  update_watches(pipe.stream);
}

void FarPipes::credit(int stream, uint64_t bytes) {
  int64_t& window = window_.at(static_cast<std::size_t>(stream));
  if (bytes > static_cast<uint64_t>(INT32_MAX)) return;
  window += static_cast<int64_t>(bytes);
  update_watches(stream);
}

void FarPipes::drain(int member, const Up& up) {
  for (Pipe& pipe : pipes_)
    while (pipe.fd && pass_on(pipe, member, up)) {
    }
}

void FarPipes::input(const std::string& text, const Up& up) {
  if (!input_) return;
  unwritten_ += text;
  write_input(up);
}

void FarPipes::input_end() {
  input_ends_ = true;
  if (unwritten_.empty()) input_.reset();
}

void FarPipes::write_input(const Up& up) {
  std::size_t written = 0;
  bool closed = false;
  while (input_ && written < unwritten_.size()) {
    const ssize_t wrote =
        write(input_.get(), unwritten_.data() + written, unwritten_.size() - written);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && errno == EAGAIN) break;
    if (wrote < 0) {
      closed = true;
      break;
    }
    written += static_cast<std::size_t>(wrote);
  }
  unwritten_.erase(0, written);
  if (closed || (unwritten_.empty() && input_ends_)) input_.reset();
  if (written > 0 || closed)
    up({.say = Say::input_credit, .value = closed ? 1 : 0, .number = written});
  if (!input_) {
    unwritten_.clear();
    input_watched_ = false;
    return;
  }
  const bool wanted = !unwritten_.empty();
  if (wanted == input_watched_) return;
  control(epoll_, wanted ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, input_.get(), EPOLLOUT, input_tag_);
  input_watched_ = wanted;
}

}  // namespace weft::run
