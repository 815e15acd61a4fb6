// weftrun's other role: the daemon of one host of a job.
//
// It decides nothing: what happens here goes up to weftrun, which sends down what is to be done.
// Only the end of its parent, or its silence, it takes for the end of the job by itself.
#include "weftrun/daemon.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "fabric/job_secret.hpp"
#include "weft/base/clock.hpp"
#include "weftrun/branch.hpp"
#include "weftrun/breakdown.hpp"
#include "weftrun/exchange.hpp"
#include "weftrun/far_pipes.hpp"
#include "weftrun/guardian.hpp"
#include "weftrun/job_environment.hpp"
#include "weftrun/pmix_server.hpp"
#include "weftrun/process_table.hpp"
#include "weftrun/uplink.hpp"

namespace weft::run {
namespace {

/// What a daemon that has to give up takes at most to say so.
constexpr uint64_t kLastWordsTime = 1000 * kMillisecond;

class Daemon final : public Branch::Owner {
 public:
  Daemon(const Summons& summons, char** argv_area);
  ~Daemon() override = default;
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  int run();

 private:
  /// What epoll watches; a pipe's is kPipes plus its index.
  enum Tag : uint64_t { kUp, kBranch, kGuardian, kServer, kAnswers, kInput, kPipes };

  void settle_in();
  void start_guardian(char** argv_area);
  void loop();
  void say_last_words(const std::string& problem);
  void on_up();
  void from_above(const Message& message);
  void act(const Message& message);
  void on_guardian();
  void on_server();
  void on_time();
  [[nodiscard]] int milliseconds_to_next_deadline() const;
  void up(const Message& message);
  void to(int member, const Message& message);
  void watch(int fd, uint64_t tag, uint32_t events, int operation = EPOLL_CTL_ADD);
  void from_child(int child, Message message) override;
  void child_lost(int child, const std::string& how) override;
  void child_said(int child, const std::string& line) override;

  Joined joined_;
  const JobSpec& spec_;
  const int member_;
  const NodePart here_;
  const Tree tree_;
  Options options_;
  Placement placement_;
  std::string temp_dir_;
  std::string key_;
  std::vector<std::string> own_environment_;
  Fd epoll_;
  FarPipes pipes_;
  std::optional<Guardian> guardian_;
  std::optional<Branch> branch_;
  std::optional<Exchange> exchange_;
  std::unique_ptr<PmixServer> server_;
  std::string shm_dir_;
  bool up_waits_for_room_ = false;
  bool paused_ = false;  ///< weftrun said that it would be silent
  bool over_ = false;
};

/// The options that ranks are started by, from what weftrun sent.
Options options_of(const JobSpec& spec) {
  Options options;
  options.ranks = spec.ranks();
  options.bind = spec.bind;
  options.env = spec.env;
  options.apps = spec.apps;
  options.quiet = true;
  return options;
}

Daemon::Daemon(const Summons& summons, char** argv_area)
    : joined_(join(summons)),
      spec_(joined_.spec),
      member_(summons.member),
      here_(spec_.node_part(member_)),
      tree_{spec_.members(), spec_.degree},
      options_(options_of(spec_)),
      key_(summons.key),
      epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  try {
    settle_in();
    start_guardian(argv_area);
  } catch (const std::exception& error) {
    // There is nothing yet that could be left behind, and no need to say it twice.
    up({.say = Say::lost, .member = member_, .text = error.what()});
    _exit(1);
  }
}

/// This process as the ranks are to find it: folder, environment.
void Daemon::settle_in() {
  for (char** pair = environ; *pair != nullptr; ++pair) own_environment_.emplace_back(*pair);
  take_environment(spec_.environment);
  if (chdir(spec_.folder.c_str()) != 0)
    throw std::runtime_error(
        fmt::format("cannot change to the folder {}: {}", spec_.folder, error_text(errno)));
  take_own_temp(own_environment_);  // in that folder
  placement_ = make_placement(options_.bind, here_.ranks);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  temp_dir_ = server_folder();
  shm_dir_ = segments_folder(options_);
}

void Daemon::start_guardian(char** argv_area) {
  GuardPlan plan;
  plan.options = &options_;
  plan.placement = &placement_;
  plan.first_rank = here_.first;
  plan.ranks = here_.ranks;
  plan.temp_dir = temp_dir_;
  plan.shm_dir = shm_dir_;
  plan.argv_area = argv_area;
  plan.not_yours = {joined_.link.fd(), epoll_.get()};
  sigemptyset(&plan.signal_mask);
  plan.descriptors = take_descriptors(here_.ranks, tree_.children(member_));
  pipes_.open(here_, plan);
  guardian_.emplace(std::move(plan));
}

int Daemon::run() {
  std::string problem;
  try {
    std::vector<char*> environment;
    for (std::string& pair : own_environment_) environment.push_back(pair.data());
    environment.push_back(nullptr);
    branch_.emplace(*this, spec_, joined_.spec_bytes, key_, member_, environment.data());
    exchange_.emplace(
        spec_, member_,
        Exchange::Ways{.up = [this](const Message& message) { up(message); },
                       .down = [this](const Message& message) { branch_->send_all(message); },
                       .to = [this](int member, const Message& message) { to(member, message); }});
    if (mkdir(temp_dir_.c_str(), 0700) != 0)
      throw std::runtime_error(
          fmt::format("cannot make a folder {} (TMPDIR): {}", temp_dir_, error_text(errno)));
    server_ = std::make_unique<PmixServer>(
        PmixServer::Plan{spec_.nspace, spec_.nodes, spec_.node_of_member(member_), 1, temp_dir_});
    survive_breakdowns({server_->fd(), guardian_->fd(), guardian_->pid(), true});
    up({.say = Say::ready, .member = member_});
    loop();
  } catch (const std::exception& error) {
    problem = error.what();
  }
  // First the ranks end and leave nothing, then whoever watches us may know: who hears our last
  // words may end our agent, and us with it.
  guardian_->dismiss();
  remove_tree(temp_dir_);
  if (!problem.empty()) say_last_words(problem);
  note_job_is_over();
  branch_->close();
  return over_ ? 0 : 1;
}

/// What the ranks had still printed, and why this host is lost: after that, nobody listens.
void Daemon::say_last_words(const std::string& problem) {
  pipes_.drain(member_, [this](const Message& message) { joined_.link.send(message); });
  joined_.link.send({.say = Say::lost, .member = member_, .text = problem});
  const uint64_t until = base::now_ns() + kLastWordsTime;
  const int fd = joined_.link.fd();
  constexpr int kPauseMs = 50;
  while (joined_.link.wants_room() && base::now_ns() < until) {
    pollfd one{fd, POLLOUT, 0};
    poll(&one, 1, kPauseMs);
    joined_.link.flush();
  }
  // What nobody read here would reset the connection, and with it what is still on its way.
  shutdown(fd, SHUT_WR);
  std::array<char, 4096> unread;
  while (base::now_ns() < until) {
    pollfd one{fd, POLLIN, 0};
    if (poll(&one, 1, kPauseMs) <= 0) continue;
    const ssize_t got = recv(fd, unread.data(), unread.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) break;
  }
}

void Daemon::watch(int fd, uint64_t tag, uint32_t events, int operation) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

void Daemon::loop() {
  watch(joined_.link.fd(), kUp, EPOLLIN);
  watch(branch_->fd(), kBranch, EPOLLIN);
  watch(guardian_->fd(), kGuardian, EPOLLIN);
  watch(server_->fd(), kServer, EPOLLIN);
  watch(exchange_->fd(), kAnswers, EPOLLIN);
  pipes_.watch(epoll_.get(), kInput, kPipes);
  std::array<epoll_event, 64> events;
  on_up();  // what came with the job
  while (!over_ && joined_.link.broken().empty()) {
    const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 milliseconds_to_next_deadline());
    if (ready < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "epoll_wait");
    for (int i = 0; i < ready; ++i) {
      switch (const uint64_t tag = events[static_cast<std::size_t>(i)].data.u64) {
        case kUp:
          on_up();
          break;
        case kBranch:
          branch_->serve();
          break;
        case kGuardian:
          on_guardian();
          break;
        case kServer:
          on_server();
          break;
        case kAnswers:
          exchange_->serve();
          break;
        case kInput:
          pipes_.write_input([this](const Message& message) { up(message); });
          break;
        default:
          pipes_.read(static_cast<std::size_t>(tag - kPipes), member_,
                      [this](const Message& message) { up(message); });
      }
    }
    if (breakdown() != 0)
      throw std::runtime_error(
          fmt::format("its PMIx server broke down ({})", signal_name(breakdown())));
    on_time();
  }
}

int Daemon::milliseconds_to_next_deadline() const {
  const uint64_t silence = static_cast<uint64_t>(spec_.silence_ms) * kMillisecond;
  uint64_t next = std::min(branch_->next_deadline(), joined_.link.said_at() + silence / kBeats);
  if (!paused_) next = std::min(next, joined_.link.heard_at() + silence);
  const uint64_t now = base::now_ns();
  return next <= now ? 0 : static_cast<int>((next - now) / kMillisecond + 1);
}

void Daemon::on_time() {
  const uint64_t silence = static_cast<uint64_t>(spec_.silence_ms) * kMillisecond;
  uint64_t now = base::now_ns();
  branch_->on_time(now);
  Link& link = joined_.link;
  if (link.said_at() + silence / kBeats <= now) up({});
  if (paused_ || link.heard_at() + silence > now) return;
  // We may have been stopped: what it said meanwhile lies there.
  on_up();
  now = base::now_ns();
  if (!over_ && link.heard_at() + silence <= now)
    throw std::runtime_error("nothing was heard from above");
}

void Daemon::up(const Message& message) {
  Link& link = joined_.link;
  link.send(message);
  if (link.wants_room() == up_waits_for_room_) return;
  up_waits_for_room_ = link.wants_room();
  epoll_event event{};
  event.events = up_waits_for_room_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = kUp;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, link.fd(), &event);
}

/// Sends a message to one member.
void Daemon::to(int member, const Message& message) {
  if (member == member_) return act(message);
  const int child = tree_.child_towards(member_, member);
  if (child >= 0)
    branch_->send(child, message);
  else
    up(message);
}

void Daemon::on_up() {
  Link& link = joined_.link;
  link.flush();
  link.read_some();
  while (const std::optional<Message> message = link.next()) {
    paused_ = false;
    from_above(*message);
    if (over_) return;
  }
  if (up_waits_for_room_ && !link.wants_room()) {
    up_waits_for_room_ = false;
    watch(link.fd(), kUp, EPOLLIN, EPOLL_CTL_MOD);
  }
}

void Daemon::from_above(const Message& message) {
  switch (message.say) {
    case Say::beat:
      return;
    case Say::credit:
    case Say::modex_answer:
      return to(message.member, message);
    case Say::modex_ask:
      return to(spec_.member_of_rank(message.rank), message);
    case Say::input:
    case Say::input_end:
      return to(spec_.member_of_rank(0), message);
    default:
      branch_->send_all(message);
      act(message);
  }
}

/// Does what a message to this host asks for.
void Daemon::act(const Message& message) {
  switch (message.say) {
    case Say::start:
      guardian_->start(server_->environment(key_));
      break;
    case Say::signal:
      guardian_->signal_all(message.value);
      break;
    case Say::pause:
      paused_ = true;
      break;
    case Say::death:
      exchange_->rank_gone(message.rank, true);
      server_->tell_death(message.rank, message.value, message.text);
      break;
    case Say::left:
      exchange_->rank_gone(message.rank, false);
      server_->tell_left(message.rank);
      break;
    case Say::fence_out:
      exchange_->fence_out(message);
      break;
    case Say::credit:
      pipes_.credit(message.value, message.number);
      break;
    case Say::input:
      pipes_.input(message.text, [this](const Message& answer) { up(answer); });
      break;
    case Say::input_end:
      pipes_.input_end();
      break;
    case Say::sweep:
      guardian_->sweep();
      break;
    case Say::modex_ask:
      exchange_->modex_ask(message, *server_);
      break;
    case Say::modex_answer:
      exchange_->modex_answer(message);
      break;
    case Say::bye:
      over_ = true;
      break;
    default:
      throw std::runtime_error("a message from above that only goes up");
  }
}

void Daemon::on_guardian() {
  while (const std::optional<Guardian::Heard> heard = guardian_->hear()) {
    const GuardWord& word = heard->word;
    const Place* const place = placement_.of(word.rank - here_.first);
    switch (word.kind) {
      case GuardWord::started:
        up({.say = Say::started,
            .rank = word.rank,
            .value = word.value,
            .text = place != nullptr ? place->text : ""});
        break;
      case GuardWord::start_failed:
        up({.say = Say::start_failed, .rank = word.rank, .value = word.value, .text = heard->text});
        break;
      case GuardWord::all_started:
        up({.say = Say::all_started, .member = member_});
        break;
      case GuardWord::ended:
        up({.say = Say::ended, .rank = word.rank, .value = word.value});
        exchange_->rank_gone(word.rank, false);
        break;
      case GuardWord::swept:
        pipes_.drain(member_, [this](const Message& message) { up(message); });
        up({.say = Say::swept, .member = member_});
        break;
      default:
        break;
    }
  }
  if (guardian_->lost() && !over_) {
    // First those below us, who clean up their hosts: an agent may be their parent, and ours.
    branch_->close();
    end_job_wholly(shm_dir_);
    throw std::runtime_error("the guardian process died");
  }
}

void Daemon::on_server() {
  while (std::optional<PmixServer::Event> event = server_->next_event()) {
    if (event->kind == PmixServer::Event::joined) {
      up({.say = Say::joined, .rank = event->rank});
    } else if (event->kind == PmixServer::Event::finalized) {
      up({.say = Say::finalized, .rank = event->rank});
    } else if (event->kind == PmixServer::Event::aborted) {
      // In front of its end, so that this and not how it ends is what counts.
      constexpr std::size_t kMostWords = 65536;
      up({.say = Say::aborted,
          .rank = event->rank,
          .value = event->code,
          .text = event->text.substr(0, kMostWords)});
      event->release();
    } else {
      // PMIx ends a fence without a rank as soon as that is gone, before we hear of it.
      if (event->kind == PmixServer::Event::fence)
        for (const int rank : guardian_->ending()) exchange_->rank_gone(rank, false);
      exchange_->from_server(*std::move(event));
    }
  }
}

void Daemon::from_child(int, Message message) {
  switch (message.say) {
    case Say::fence_in:
      return exchange_->fence_in(message);
    case Say::modex_ask:
      return to(spec_.member_of_rank(message.rank), message);
    case Say::modex_answer:
      return to(message.member, message);
    default:
      up(message);
  }
}

void Daemon::child_lost(int child, const std::string& how) {
  up({.say = Say::lost, .member = child, .text = how});
}

void Daemon::child_said(int child, const std::string& line) {
  up({.say = Say::said, .member = child, .text = line});
}

}  // namespace

int run_daemon(char** argv_area) {
  // The agent's parent may end before the job does; what ends us is the end of our connection.
  prctl(PR_SET_PDEATHSIG, 0);
  ignore_sigpipe();
  try {
    const Summons summons = read_summons(STDIN_FILENO);
    const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(null.get(), STDIN_FILENO);
    Daemon daemon(summons, argv_area);
    const int code = daemon.run();
    _exit(code);  // PMIx's threads still run
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace weft::run
