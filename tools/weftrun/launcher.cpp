// weftrun's life from start to end: one loop over everything that can happen to a job.
#include "weftrun/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "fabric/job_secret.hpp"
#include "fabric/shm_store.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/config.hpp"
#include "weftrun/breakdown.hpp"
#include "weftrun/classic.hpp"
#include "weftrun/job_environment.hpp"

namespace weft::run {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
/// From asking the ranks to end (SIGTERM) to killing them.
constexpr uint64_t kTermToKill = 2 * kSecond;
/// What the other ranks get to end by themselves after one that had left the job failed.
constexpr uint64_t kGrace = kSecond;
constexpr int kToldCrashes = 4;
/// The same signal again within so long counts once.
constexpr uint64_t kOneSignal = kSecond / 5;
/// How long after a rank's end with code 0 the others are told: most jobs are over by then.
constexpr uint64_t kTellLeft = kSecond;
constexpr int kTimeoutCode = 124;
constexpr std::array kPassedOn{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                               SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

/// Whoever started us has it ignored (nohup, the background of a shell script). SIGCONT goes on
/// with us all the same.
bool is_ignored(int signal) {
  struct sigaction found {};
  return signal != SIGCONT && sigaction(signal, nullptr, &found) == 0 &&
         found.sa_handler == SIG_IGN;
}

bool same_file(int a, int b) {
  struct stat first {
  }, second{};
  return fstat(a, &first) == 0 && fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Standard input for rank 0: ours, unless it is a terminal that belongs to another job of the
/// shell at the moment.
Fd rank_input() {
  if (isatty(STDIN_FILENO) != 0 && tcgetpgrp(STDIN_FILENO) != getpgrp()) return {};
  return Fd(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
}

/// The nodes of the job: one, if the user named no other host.
std::vector<NodePart> nodes_of(const Options& options) {
  return options.nodes.empty() ? std::vector<NodePart>{{this_host(), 0, options.ranks}}
                               : options.nodes;
}

NodePart here_of(const Options& options) {
  if (options.nodes.empty()) return {this_host(), 0, options.ranks};
  if (options.this_node < 0) return {};
  return options.nodes.at(static_cast<std::size_t>(options.this_node));
}

}  // namespace

Launcher::Launcher(Options options, char** argv_area)
    : options_(std::move(options)),
      host_(this_host()),
      start_ns_(base::now_ns()),
      key_(fabric::random_job_key()),
      nodes_(nodes_of(options_)),
      here_(here_of(options_)),
      placement_(make_placement(options_.bind, here_.ranks)),
      out_(STDOUT_FILENO),
      table_(options_.ranks) {
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) err_.emplace(STDERR_FILENO);
  for (const std::string& note : options_.notes) say(note);
  prepare();
  start_guardian(argv_area);
}

Launcher::~Launcher() {
  if (guardian_) guardian_->dismiss();
}

void Launcher::prepare() {
  forget_outer_job();
  // Orphans come to the guardian; should that die, to us.
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  take_signals();
  epoll_ = Fd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) fail("epoll_create1");
  temp_dir_ = server_folder();
  shm_dir_ = segments_folder(options_);
}

void Launcher::take_signals() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : kPassedOn)
    if (!is_ignored(signal)) sigaddset(&ours, signal);  // a blocked one would be read
  pthread_sigmask(SIG_BLOCK, &ours, &signals_before_);
  // Reading a terminal that is another job's by now is an error, and does not stop us.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTTIN);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  signals_ = Fd(signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) fail("signalfd");
}

void Launcher::start_guardian(char** argv_area) {
  GuardPlan plan;
  plan.options = &options_;
  plan.placement = &placement_;
  plan.first_rank = here_.first;
  plan.ranks = here_.ranks;
  plan.temp_dir = temp_dir_;
  plan.shm_dir = shm_dir_;
  plan.signal_mask = signals_before_;
  plan.argv_area = argv_area;
  if (here_.ranks > 0 && here_.first == 0) plan.in = rank_input();
  plan.not_yours = {out_.own_fd(), err_ ? err_->own_fd() : -1};
  const int others = static_cast<int>(nodes_.size()) - (here_.ranks > 0 ? 1 : 0);
  plan.descriptors = take_descriptors(here_.ranks, std::min(others, options_.launch_degree));
  const bool raw = options_.ranks == 1 && !options_.tag_output;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::string tag = options_.tag_output ? fmt::format("[{}] ", rank) : "";
    for (int error = 0; error < 2; ++error) {
      const int source = raw ? 0 : 2 * rank + error;
      Sink& sink = error == 1 && err_ ? *err_ : out_;
      if (rank < here_.first || rank >= here_.first + here_.ranks) {
        streams_.emplace_back(source, Fd(), sink, tag, raw);
        continue;
      }
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) fail("making pipes for the ranks' output");
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      streams_.emplace_back(source, Fd(ends[0]), sink, tag, raw);
      (error == 1 ? plan.err : plan.out).emplace_back(ends[1]);
      plan.not_yours.push_back(ends[0]);
    }
  }
  guardian_.emplace(std::move(plan));
}

int Launcher::run() {
  try {
    ignore_sigpipe();
    // Only now that the guardian knows of it: so that it is removed whenever we are killed.
    if (mkdir(temp_dir_.c_str(), 0700) != 0)
      throw std::runtime_error(
          fmt::format("cannot make a folder {} (TMPDIR): {}", temp_dir_, error_text(errno)));
    const std::string nspace = PmixServer::new_nspace();
    if (!options_.nodes.empty())
      far_.emplace(*this, Far::Plan{&options_, nspace, key_,
                                    here_.first > 0 || here_.ranks == 0 ? rank_input() : Fd()});
    server_ = std::make_unique<PmixServer>(
        PmixServer::Plan{nspace, nodes_, options_.nodes.empty() ? 0 : options_.this_node,
                         options_.fake_nodes, temp_dir_});
    survive_breakdowns({server_->fd(), guardian_->fd(), guardian_->pid(), options_.quiet});
    if (far_)
      far_->serve_through(*server_);
    else
      start();
    if (options_.timeout_s > 0)
      timeout_at_ = start_ns_ + static_cast<uint64_t>(options_.timeout_s * double{kSecond});
    loop();
  } catch (const std::exception& error) {
    say(error.what());
    table_.fail_with(1);
  }
  finish();
  return table_.exit_code();
}

void Launcher::start() {
  started_ = true;
  guardian_->start(server_->environment(key_));
  if (far_) far_->start();
}

void Launcher::tell_death(int rank, int status, const std::string& how) {
  if (far_) far_->tell_death(rank, status, how);
  server_->tell_death(rank, status, how);
}

void Launcher::signal_ranks(int signal) {
  guardian_->signal_all(signal);
  if (far_) far_->signal_all(signal);
}

void Launcher::watch(int fd, uint64_t tag, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
}

void Launcher::loop() {
  watch(guardian_->fd(), kGuardian, EPOLLIN);
  watch(server_->fd(), kServer, EPOLLIN);
  watch(signals_.get(), kSignals, EPOLLIN);
  if (far_) watch(far_->fd(), kFar, EPOLLIN);
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i].fd() >= 0) watch(streams_[i].fd(), kStreams + i, EPOLLIN);
  std::array<epoll_event, 64> events;
  while (phase_ != Phase::over) {
    const int ready = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 milliseconds_to_next_deadline());
    if (ready < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < ready; ++i) {
      switch (const uint64_t tag = events[static_cast<std::size_t>(i)].data.u64) {
        case kGuardian:
          on_guardian();
          break;
        case kServer:
          on_server();
          break;
        case kSignals:
          on_signal();
          break;
        case kFar:
          far_->serve();
          break;
        case kOut:
        case kErr:
          break;
        default:
          on_stream(static_cast<std::size_t>(tag - kStreams));
      }
    }
    if (breakdown() != 0) on_breakdown();
    on_deadlines();
    serve_sinks();
    note_exit_code(table_.exit_code());
  }
}

int Launcher::milliseconds_to_next_deadline() const {
  uint64_t next = UINT64_MAX;
  for (const Deadline& deadline : {timeout_at_, missing_at_, end_at_, kill_at_})
    if (deadline) next = std::min(next, *deadline);
  if (!left_.empty()) next = std::min(next, left_.front().tell_at);
  if (far_) next = std::min(next, far_->next_deadline());
  if (next == UINT64_MAX) return -1;
  const uint64_t now = base::now_ns();
  return next <= now ? 0
                     : static_cast<int>(std::min<uint64_t>((next - now) / 1'000'000 + 1, INT_MAX));
}

void Launcher::on_deadlines() {
  const uint64_t now = base::now_ns();
  const auto passed = [now](Deadline& deadline) {
    if (!deadline || *deadline > now) return false;
    deadline.reset();
    return true;
  };
  if (passed(timeout_at_) && phase_ <= Phase::ending) {
    say(fmt::format("the job ran for {} s, its limit; ending it", options_.timeout_s));
    table_.fail_with(kTimeoutCode);
    end_job();
  }
  if (passed(missing_at_)) tell_missing();
  if (passed(end_at_)) {
    if (breakdown() != 0) table_.fail_with(1);
    end_job();
  }
  if (passed(kill_at_) && phase_ == Phase::ending) signal_ranks(SIGKILL);
  if (far_) far_->on_time(now);
  while (!left_.empty() && left_.front().tell_at <= now) {
    const int rank = left_.front().rank;
    left_.erase(left_.begin());
    if (phase_ != Phase::running) continue;
    if (table_.has_finalized(rank)) {
      server_->tell_left(rank);
      if (far_) far_->tell_left(rank);
    } else {
      // It may have been in the middle of something: as good as dead for who waits for it.
      tell_death(rank, 0, fmt::format("on {} ended without leaving the job", host_of(rank)));
    }
  }
}

void Launcher::on_guardian() {
  while (const std::optional<Guardian::Heard> heard = guardian_->hear()) {
    const GuardWord& word = heard->word;
    switch (word.kind) {
      case GuardWord::started: {
        const Place* place = placement_.of(word.rank - here_.first);
        on_started(word.rank, word.value, place != nullptr ? place->text : "");
        break;
      }
      case GuardWord::start_failed:
        on_start_failed(word.rank, word.value, heard->text);
        break;
      case GuardWord::all_started:
        all_started_ = true;
        if (options_.verbose && !far_)
          say(fmt::format("{} ranks started in {:.1f} ms", table_.running(),
                          static_cast<double>(base::now_ns() - start_ns_) / 1e6));
        sweep_when_all_ended();
        break;
      case GuardWord::ended:
        if (far_) far_->near_ended(word.rank);
        on_rank_end(word.rank, word.value);
        break;
      case GuardWord::swept:
        swept_ = true;
        if (!far_ || far_->all_swept()) phase_ = Phase::over;
        break;
      default:
        break;
    }
  }
  if (guardian_->lost()) on_guardian_lost();
}

void Launcher::on_started(int rank, int pid, const std::string& place) {
  table_.started(rank, pid);
  if (options_.verbose)
    say(fmt::format("rank {}: pid {} on {}{}{}", rank, pid, host_of(rank),
                    place.empty() ? "" : ", ", place));
}

void Launcher::on_start_failed(int rank, int error, const std::string& step) {
  const App& app = options_.app_of(rank);
  const std::string& program = step.starts_with("enter") ? app.folder : app.program;
  const bool is_there = error == ENOENT && step == "exec" && access(program.c_str(), F_OK) == 0;
  say(fmt::format(
      "rank {} could not be started{}: {} {}: {}{}", rank,
      far_ ? fmt::format(" on {}", host_of(rank)) : "", step, program, error_text(error),
      is_there && !far_ ? " (of what it is to be run by: its first line, or its loader)" : ""));
  table_.lost(rank);
  table_.fail_with(error == ENOENT ? 127 : 126);
  phase_ = Phase::ending;
  signal_ranks(SIGKILL);
}

/// The ranks died with their guardian; what they had started came to us.
void Launcher::on_guardian_lost() {
  if (phase_ == Phase::over) return;
  say("the guardian process died; the job is over");
  table_.fail_with(1);
  // First the daemons, each of which cleans up its host: an agent may be their parent, and ours.
  if (far_) far_->close();
  end_job_wholly(shm_dir_);
  phase_ = Phase::over;
}

void Launcher::on_rank_end(int rank, int status) {
  const bool failed = table_.ended(rank, status);
  note_exit_code(table_.exit_code());
  const std::string how = describe_end(status);
  // It may be why the first to be heard of ended: the kernel takes its time over a crash.
  const bool is_late = failed && phase_ == Phase::ending && is_crash(status);
  if (is_late && !options_.verbose && late_crashes_++ < kToldCrashes)
    say(fmt::format("meanwhile {} {}", name_of(rank), how));
  if (failed && phase_ == Phase::running) {
    const bool as_asked = passed_on_ != 0 && exit_code_of(status) == 128 + passed_on_;
    const bool ends_others = options_.on_failure == OnFailure::end && table_.running() > 0;
    if (!as_asked || options_.verbose)
      say(fmt::format("{} {}{}", name_of(rank), how, ends_others ? "; ending the job" : ""));
    if (options_.on_failure == OnFailure::go_on) {
      serve_sinks();  // should PMIx break down in the next call, this was said
      tell_death(rank, status, fmt::format("on {} {}", host_of(rank), how));
    } else if (table_.has_finalized(rank)) {
      if (!end_at_) end_at_ = base::now_ns() + kGrace;
    } else {
      end_job();
    }
  } else if (options_.verbose) {
    say(fmt::format("{} {}", name_of(rank), how));
  }
  if (!failed) left_.push_back({base::now_ns() + kTellLeft, rank});
  sweep_when_all_ended();
}

void Launcher::on_server() {
  while (std::optional<PmixServer::Event> event = server_->next_event()) {
    if (event->kind == PmixServer::Event::joined) {
      on_joined(event->rank);
    } else if (event->kind == PmixServer::Event::finalized) {
      on_finalized(event->rank);
    } else if (event->kind == PmixServer::Event::aborted) {
      on_aborted(event->rank, event->code, event->text);
      event->release();
      end_job();
    } else {
      // PMIx ends a fence without a rank as soon as that is gone, before we hear of it.
      if (event->kind == PmixServer::Event::fence)
        for (const int rank : guardian_->ending()) far_->near_ended(rank);
      far_->from_server(*std::move(event));
    }
  }
}

void Launcher::on_joined(int rank) {
  table_.joined(rank);
  if (options_.report_missing_s <= 0 || std::exchange(first_joined_, true)) return;
  missing_at_ = base::now_ns() + static_cast<uint64_t>(options_.report_missing_s * double{kSecond});
}

/// Those that have joined the job wait for the rest, which may never come: it may be another
/// program, or stand still before its MPI_Init.
void Launcher::tell_missing() {
  const std::vector<int> missing = table_.missing();
  if (missing.empty() || phase_ != Phase::running) return;
  constexpr std::size_t kMost = 16;
  const bool all = missing.size() <= kMost;
  const auto end = all ? missing.end() : missing.begin() + kMost;
  const std::string where = missing.size() == 1 ? " on " + host_of(missing.front()) : "";
  say(
      fmt::format("rank{} {}{}{} not joined the job (MPI_Init, for example), {} s after the first "
                  "one did; those that have may wait for {}",
                  missing.size() == 1 ? "" : "s", fmt::join(missing.begin(), end, ", "),
                  all ? where : fmt::format(" and {} more", missing.size() - kMost),
                  missing.size() == 1 ? " has" : " have", options_.report_missing_s,
                  missing.size() == 1 ? "it" : "them"));
}

void Launcher::on_aborted(int rank, int code, const std::string& text) {
  if (phase_ == Phase::running)
    say(fmt::format("{} ended the job with code {}: {}", name_of(rank), code, text));
  table_.fail_with(code);
}

/// PMIx is no more: no rank can join or leave. The death that led to this, if one did, is heard of
/// in a moment and counts.
void Launcher::on_breakdown() {
  if (broken_) return;
  broken_ = true;
  if (phase_ != Phase::running) return;
  say(describe_breakdown());
  if (!end_at_) end_at_ = base::now_ns() + kGrace;
}

void Launcher::on_signal() {
  signalfd_siginfo about;
  while (read(signals_.get(), &about, sizeof about) == sizeof about) {
    const int signal = static_cast<int>(about.ssi_signo);
    if (signal == SIGTSTP) {
      signal_ranks(SIGSTOP);
      if (far_) far_->pause();
      kill(getpid(), SIGSTOP);
      continue;
    }
    const bool deadly =
        signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (deadly && !started_) {
      say(fmt::format("{} before all hosts were ready; ending the job", signal_name(signal)));
      table_.fail_with(128 + signal);
      end_job();
    } else if (deadly && signal == passed_on_ && base::now_ns() - passed_on_at_ < kOneSignal) {
      // timeout(1) and terminals send one to weftrun and one to its group.
    } else if (deadly && std::exchange(passed_on_, signal) != 0) {
      say(fmt::format("a second signal, {}; ending the job", signal_name(signal)));
      table_.fail_with(128 + signal);
      end_job();
    } else {
      passed_on_at_ = base::now_ns();
      // Whoever finds a job ended in a log asks by whom; a terminal shows ^C by itself.
      if (deadly && !(signal == SIGINT && isatty(STDIN_FILENO) != 0))
        say(fmt::format("{} came; passed on to the ranks", signal_name(signal)));
      signal_ranks(signal);
    }
  }
}

/// Asks all ranks to end, and kills them soon after. A stopped one has to run to hear it.
void Launcher::end_job() {
  if (phase_ != Phase::running) return;
  phase_ = Phase::ending;
  signal_ranks(SIGTERM);
  signal_ranks(SIGCONT);
  kill_at_ = base::now_ns() + kTermToKill;
  sweep_when_all_ended();
}

void Launcher::sweep_when_all_ended() {
  // Ranks that never were told to start need no waiting for.
  const bool all_there = !started_ || (all_started_ && (!far_ || far_->all_started()));
  if (!all_there || table_.running() > 0 || phase_ > Phase::ending) return;
  phase_ = Phase::sweeping;
  guardian_->sweep();
  if (far_) far_->sweep();
}

void Launcher::say(std::string_view text) {
  if (!options_.quiet) (err_ ? *err_ : out_).add_line(fmt::format("weftrun: {}", text));
}

const std::string& Launcher::host_of(int rank) const {
  for (const NodePart& node : nodes_)
    if (rank < node.first + node.ranks) return node.host;
  return host_;
}

std::string Launcher::name_of(int rank) const {
  return fmt::format("rank {} on {}", rank, host_of(rank));
}

}  // namespace weft::run
