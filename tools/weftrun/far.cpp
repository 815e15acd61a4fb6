// weftrun's side of a job of several hosts.
#include "weftrun/far.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "weft/base/clock.hpp"
#include "weftrun/far_pipes.hpp"
#include "weftrun/job_environment.hpp"

namespace weft::run {
namespace {

/// How often it is seen whether a terminal is ours again.
constexpr uint64_t kLookAtInput = 500 * kMillisecond;

enum FarTag : uint64_t { kFarBranch, kFarAnswers, kFarInput };

void add_to(int epoll, int fd, uint64_t tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

int milliseconds(double seconds) {
  constexpr double kInOne = 1000;
  return std::max(1, static_cast<int>(seconds * kInOne));
}

JobSpec spec_of(const Options& options, const std::string& nspace) {
  JobSpec spec;
  spec.nspace = nspace;
  spec.folder = std::filesystem::current_path();
  spec.environment = environment_for_others();
  spec.agent = options.launch_agent;
  spec.daemon = std::filesystem::read_symlink("/proc/self/exe");
  spec.root_node = options.this_node;
  spec.degree = options.launch_degree;
  spec.silence_ms = milliseconds(options.host_timeout_s);
  spec.launch_ms = milliseconds(options.launch_timeout_s);
  spec.bind = options.bind;
  spec.env = options.env;
  spec.apps = options.apps;
  spec.nodes = options.nodes;
  return spec;
}

}  // namespace

Far::Far(Far::Owner& owner, Plan plan)
    : owner_(owner),
      spec_(spec_of(*plan.options, plan.nspace)),
      tree_{spec_.members(), spec_.degree},
      members_(static_cast<std::size_t>(spec_.members())),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      in_(std::move(plan.in)),
      in_room_(kPipeWindow) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  branch_.emplace(*this, spec_, encode_spec(spec_), plan.key, 0, environ);
  exchange_.emplace(
      spec_, 0,
      Exchange::Ways{.up = {},
                     .down = [this](const Message& message) { branch_->send_all(message); },
                     .to = [this](int member, const Message& message) { to(member, message); }});
  add_to(epoll_.get(), branch_->fd(), kFarBranch);
  add_to(epoll_.get(), exchange_->fd(), kFarAnswers);
}

void Far::serve() {
  std::array<epoll_event, 4> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < ready; ++i) {
    switch (events[static_cast<std::size_t>(i)].data.u64) {
      case kFarBranch:
        branch_->serve();
        break;
      case kFarAnswers:
        exchange_->serve();
        break;
      default:
        read_input();
    }
  }
}

void Far::on_time(uint64_t now) {
  branch_->on_time(now);
  if (look_at_input_at_ > now) return;
  look_at_input_at_ = UINT64_MAX;
  watch_input();
}

bool Far::all(bool Member::*flag) const {
  return std::all_of(members_.begin() + 1, members_.end(),
                     [flag](const Member& member) { return member.lost || member.*flag; });
}

bool Far::all_swept() const {
  return std::all_of(members_.begin() + 1, members_.end(), [](const Member& member) {
    return member.lost || member.swept || !member.ready;
  });
}

void Far::start() {
  branch_->send_all({.say = Say::start});
  if (spec_.member_of_rank(0) == 0) return;
  if (!in_) return to(spec_.member_of_rank(0), {.say = Say::input_end});
  watch_input();
}

void Far::tell_death(int rank, int status, const std::string& how) {
  exchange_->rank_gone(rank, true);
  branch_->send_all({.say = Say::death, .rank = rank, .value = status, .text = how});
}

void Far::tell_left(int rank) {
  exchange_->rank_gone(rank, false);
  branch_->send_all({.say = Say::left, .rank = rank});
}

void Far::sweep() {
  sweeping_ = true;
  branch_->send_all({.say = Say::sweep});
}

void Far::give_credit(int stream) {
  for (std::size_t member = 1; member < members_.size(); ++member) {
    const uint64_t owed =
        std::exchange(members_[member].owed.at(static_cast<std::size_t>(stream)), 0);
    if (owed == 0) continue;
    const int number = static_cast<int>(member);
    to(number, {.say = Say::credit, .member = number, .value = stream, .number = owed});
  }
}

void Far::to(int member, const Message& message) {
  if (member == 0) return act(message);
  branch_->send(tree_.child_towards(0, member), message);
}

void Far::act(const Message& message) {
  if (message.say == Say::modex_answer)
    exchange_->modex_answer(message);
  else if (message.say == Say::modex_ask && server_ != nullptr)
    exchange_->modex_ask(message, *server_);
}

void Far::from_child(int, Message message) {
  Member& member = members_.at(static_cast<std::size_t>(message.member));
  switch (message.say) {
    case Say::ready:
      member.ready = true;
      if (sweeping_) to(message.member, {.say = Say::sweep});  // which it came too late to hear
      if (all_ready()) owner_.far_ready();
      break;
    case Say::all_started:
      member.started = true;
      owner_.far_progress();
      break;
    case Say::swept:
      member.swept = true;
      owner_.far_progress();
      break;
    case Say::output:
      member.owed.at(static_cast<std::size_t>(message.value)) += message.text.size();
      owner_.far_output(message.rank, message.value, message.text);
      break;
    case Say::output_end:
      owner_.far_output(message.rank, message.value, {});
      break;
    case Say::input_credit:
      in_room_ += static_cast<int64_t>(std::min<uint64_t>(message.number, kPipeWindow));
      if (message.value != 0) close_input();
      watch_input();
      break;
    case Say::fence_in:
      exchange_->fence_in(message);
      break;
    case Say::modex_ask:
      to(spec_.member_of_rank(message.rank), message);
      break;
    case Say::modex_answer:
      to(message.member, message);
      break;
    case Say::lost:
      lose(message.member, message.text);
      break;
    case Say::said:
      child_said(message.member, message.text);
      break;
    default: {
      // What happened to one rank.
      if (members_.at(static_cast<std::size_t>(spec_.member_of_rank(message.rank))).lost) return;
      if (message.say == Say::started)
        owner_.far_started(message.rank, message.value, message.text);
      else if (message.say == Say::start_failed)
        owner_.far_start_failed(message.rank, message.value, message.text);
      else if (message.say == Say::ended)
        owner_.far_ended(message.rank, message.value);
      else if (message.say == Say::joined)
        owner_.far_joined(message.rank);
      else if (message.say == Say::finalized)
        owner_.far_finalized(message.rank);
      else if (message.say == Say::aborted)
        owner_.far_aborted(message.rank, message.value, message.text);
    }
  }
}

void Far::child_lost(int child, const std::string& how) { lose(child, how); }

void Far::child_said(int child, const std::string& line) {
  owner_.far_said(spec_.node_part(child).host, line);
}

/// A host is gone, and with it the way to those below it.
void Far::lose(int member, const std::string& how) {
  if (member < 1) return;
  for (int other = member; other < spec_.members(); ++other) {
    if (other != member && tree_.child_towards(member, other) < 0) continue;
    if (std::exchange(members_.at(static_cast<std::size_t>(other)).lost, true)) continue;
    const NodePart& host = spec_.node_part(other);
    owner_.far_host_lost(host, other == member ? how
                                               : fmt::format("it was reached through {}, which is "
                                                             "lost",
                                                             spec_.node_part(member).host));
  }
  owner_.far_progress();
}

/// Not from a terminal that belongs to another job of the shell now: that would stop us (SIGTTIN),
/// and the daemons would take our silence for our end.
bool Far::may_read_input() const {
  const pid_t owner = tcgetpgrp(in_.get());  // -1: no terminal, or none of our session
  return owner < 0 || owner == getpgrp();
}

/// Listens to our standard input while there is somebody to take it, and room there.
void Far::watch_input() {
  const bool has_room = in_ && in_room_ > 0;
  const bool wanted = has_room && may_read_input();
  // Nobody tells us when it is ours again.
  if (has_room && !wanted) look_at_input_at_ = base::now_ns() + kLookAtInput;
  if (!in_can_wait_) {
    while (in_ && in_room_ > 0 && may_read_input()) read_input();
    return;
  }
  if (wanted == in_watched_) return;
  if (!wanted) {
    if (in_) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, in_.get(), nullptr);
    in_watched_ = false;
    return;
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kFarInput;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, in_.get(), &event) == 0) {
    in_watched_ = true;
  } else {
    // A file: there always is something to read, or its end.
    in_can_wait_ = false;
    watch_input();
  }
}

void Far::close_input() {
  // Not only our descriptor may lead to the file, and epoll goes by files.
  if (in_watched_) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, in_.get(), nullptr);
  in_watched_ = false;
  in_.reset();
}

void Far::read_input() {
  std::array<char, 65536> buffer;
  if (!in_) return;
  if (!may_read_input()) return watch_input();
  const ssize_t got = read(in_.get(), buffer.data(), buffer.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  // It is another job's since we looked.
  if (got < 0 && errno == EIO && !may_read_input()) return;
  const int reader = spec_.member_of_rank(0);
  if (got <= 0) {
    close_input();
    return to(reader, {.say = Say::input_end});
  }
  in_room_ -= got;
  to(reader,
     {.say = Say::input, .text = std::string(buffer.data(), static_cast<std::size_t>(got))});
  if (in_can_wait_) watch_input();
}

}  // namespace weft::run
