// weftrun's life from start to end: one loop over everything that can happen to a job.
#include "weftrun/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
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

namespace weft::run {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
/// From asking the ranks to end (SIGTERM) to killing them.
constexpr uint64_t kTermToKill = 2 * kSecond;
/// What the other ranks get to end by themselves after one that had left the job failed.
constexpr uint64_t kGrace = kSecond;
/// How long after a rank's good end the others are told: most jobs are over by then.
constexpr uint64_t kTellLeft = kSecond;
constexpr int kTimeoutCode = 124;
/// Bytes taken from one stream before the others get their turn.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 18;

/// Tags of what epoll watches; a stream's is kStreams plus its index.
enum Tag : uint64_t { kGuardian, kServer, kSignals, kOut, kErr, kStreams };

constexpr std::array kPassedOn{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                               SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
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

/// Where the ranks put named segments, unless their program says otherwise.
std::string segments_folder(const Options& options) {
  constexpr std::string_view kVariable = "WEFT_FABRIC_SHM_DIR=";
  const base::Environment ours = base::environment("WEFT_FABRIC_SHM_DIR");
  std::string folder = ours.found ? ours.value : std::string(fabric::kDefaultShmDir);
  for (const auto* pairs : {&options.env, &options.apps.front().env})
    for (const std::string& pair : *pairs)
      if (pair.starts_with(kVariable)) folder = pair.substr(kVariable.size());
  return folder;
}

/// What an outer launcher told this process is not for our ranks.
void forget_outer_job() {
  std::vector<std::string> names;
  for (char** pair = environ; *pair != nullptr; ++pair) {
    const std::string_view name(*pair, std::strcspn(*pair, "="));
    const bool theirs = name.starts_with("PMIX_") && !name.starts_with("PMIX_MCA_");
    const bool pmi1s = name == "PMI_FD" || name == "PMI_RANK" || name == "PMI_SIZE";
    if (theirs || pmi1s || name.starts_with("WEFTRUN_")) names.emplace_back(name);
  }
  for (const std::string& name : names)
    unsetenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): no threads yet
}

}  // namespace

Launcher::Launcher(Options options, char** argv_area)
    : options_(std::move(options)),
      host_(host_name()),
      start_ns_(base::now_ns()),
      placement_(make_placement(options_.bind)),
      out_(STDOUT_FILENO),
      table_(options_.ranks) {
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) err_.emplace(STDERR_FILENO);
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
  const base::Environment folder = base::environment("TMPDIR");
  temp_dir_ =
      fmt::format("{}/weftrun-{}", folder.found && !folder.value.empty() ? folder.value : "/tmp",
                  fabric::random_hex(8));
  shm_dir_ = segments_folder(options_);
}

void Launcher::take_signals() {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int signal : kPassedOn) sigaddset(&ours, signal);
  pthread_sigmask(SIG_BLOCK, &ours, &signals_before_);
  signals_ = Fd(signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) fail("signalfd");
}

void Launcher::start_guardian(char** argv_area) {
  GuardPlan plan;
  plan.options = &options_;
  plan.placement = &placement_;
  plan.temp_dir = temp_dir_;
  plan.shm_dir = shm_dir_;
  plan.signal_mask = signals_before_;
  plan.argv_area = argv_area;
  plan.in = rank_input();
  getrlimit(RLIMIT_NOFILE, &plan.descriptors);
  rlimit most = plan.descriptors;
  most.rlim_cur = most.rlim_max;
  setrlimit(RLIMIT_NOFILE, &most);
  const bool raw = options_.ranks == 1 && !options_.tag_output;
  for (int rank = 0; rank < options_.ranks; ++rank) {
    const std::string tag = options_.tag_output ? fmt::format("[{}] ", rank) : "";
    for (int error = 0; error < 2; ++error) {
      int ends[2];
      if (pipe2(ends, O_CLOEXEC) != 0) fail("making pipes for the ranks' output");
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      const int source = raw ? 0 : 2 * rank + error;
      streams_.emplace_back(source, Fd(ends[0]), error == 1 && err_ ? *err_ : out_, tag, raw);
      (error == 1 ? plan.err : plan.out).emplace_back(ends[1]);
      plan.not_yours.push_back(ends[0]);
    }
  }
  guardian_.emplace(std::move(plan));
}

int Launcher::run() {
  try {
    std::signal(SIGPIPE, SIG_IGN);
    // Only now that the guardian knows of it: so that it is removed whenever we are killed.
    if (mkdir(temp_dir_.c_str(), 0700) != 0)
      throw std::runtime_error(
          fmt::format("cannot make a folder {}: {}", temp_dir_, error_text(errno)));
    server_ = std::make_unique<PmixServer>(
        PmixServer::Plan{options_.ranks, options_.fake_nodes, temp_dir_, host_});
    survive_breakdowns({server_->fd(), guardian_->fd(), guardian_->pid(), options_.quiet});
    guardian_->start(server_->environment());
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
  for (std::size_t i = 0; i < streams_.size(); ++i) watch(streams_[i].fd(), kStreams + i, EPOLLIN);
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
  for (const Deadline& deadline : {timeout_at_, end_at_, kill_at_})
    if (deadline) next = std::min(next, *deadline);
  if (!left_.empty()) next = std::min(next, left_.front().tell_at);
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
  if (passed(end_at_)) {
    if (breakdown() != 0) table_.fail_with(1);
    end_job();
  }
  if (passed(kill_at_) && phase_ == Phase::ending) guardian_->signal_all(SIGKILL);
  while (!left_.empty() && left_.front().tell_at <= now) {
    if (phase_ == Phase::running) server_->tell_left(left_.front().rank);
    left_.erase(left_.begin());
  }
}

void Launcher::on_guardian() {
  while (const std::optional<Guardian::Heard> heard = guardian_->hear()) {
    const GuardWord& word = heard->word;
    switch (word.kind) {
      case GuardWord::started:
        table_.started(word.rank, word.value);
        if (options_.verbose) {
          const Place* place = placement_.of(word.rank);
          say(fmt::format("rank {}: pid {} on {}{}{}", word.rank, word.value, host_,
                          place != nullptr ? ", " : "", place != nullptr ? place->text : ""));
        }
        break;
      case GuardWord::start_failed:
        say(fmt::format("rank {} could not be started: {} {}: {}", word.rank, heard->text,
                        options_.app_of(word.rank).program, error_text(word.value)));
        table_.fail_with(word.value == ENOENT ? 127 : 126);
        phase_ = Phase::ending;
        guardian_->signal_all(SIGKILL);
        break;
      case GuardWord::all_started:
        all_started_ = true;
        if (options_.verbose)
          say(fmt::format("{} ranks started in {:.1f} ms", table_.running(),
                          static_cast<double>(base::now_ns() - start_ns_) / 1e6));
        sweep_when_all_ended();
        break;
      case GuardWord::ended:
        on_rank_end(word.rank, word.value);
        break;
      case GuardWord::swept:
        phase_ = Phase::over;
        break;
      default:
        break;
    }
  }
  if (guardian_->lost()) on_guardian_lost();
}

/// The ranks died with their guardian; what they had started came to us.
void Launcher::on_guardian_lost() {
  if (phase_ == Phase::over) return;
  say("the guardian process died; the job is over");
  table_.fail_with(1);
  end_job_wholly(shm_dir_);
  phase_ = Phase::over;
}

void Launcher::on_rank_end(int rank, int status) {
  const bool failed = table_.ended(rank, status);
  note_exit_code(table_.exit_code());
  const std::string how = describe_end(status);
  if (failed && phase_ == Phase::running) {
    const bool as_asked = passed_on_ != 0 && exit_code_of(status) == 128 + passed_on_;
    const bool ends_others = options_.on_failure == OnFailure::end && table_.running() > 0;
    if (!as_asked || options_.verbose)
      say(fmt::format("{} {}{}", name_of(rank), how, ends_others ? "; ending the job" : ""));
    if (options_.on_failure == OnFailure::go_on) {
      serve_sinks();  // should PMIx break down in the next call, this was said
      server_->tell_death(rank, status, fmt::format("on {} {}", host_, how));
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
    if (event->kind == PmixServer::Event::finalized) {
      table_.finalized(event->rank);
      continue;
    }
    if (phase_ == Phase::running)
      say(fmt::format("{} ended the job with code {}: {}", name_of(event->rank), event->code,
                      event->text));
    table_.fail_with(event->code);
    event->release();
    end_job();
  }
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
      guardian_->signal_all(SIGSTOP);
      kill(getpid(), SIGSTOP);
      continue;
    }
    const bool deadly =
        signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (deadly && std::exchange(passed_on_, signal) != 0) {
      say(fmt::format("a second signal, {}; ending the job", signal_name(signal)));
      table_.fail_with(128 + signal);
      end_job();
    } else {
      guardian_->signal_all(signal);
    }
  }
}

/// Asks all ranks to end, and kills them soon after. A stopped one has to run to hear it.
void Launcher::end_job() {
  if (phase_ != Phase::running) return;
  phase_ = Phase::ending;
  guardian_->signal_all(SIGTERM);
  guardian_->signal_all(SIGCONT);
  kill_at_ = base::now_ns() + kTermToKill;
}

void Launcher::sweep_when_all_ended() {
  if (!all_started_ || table_.running() > 0 || phase_ > Phase::ending) return;
  phase_ = Phase::sweeping;
  guardian_->sweep();
}

void Launcher::on_stream(std::size_t index) {
  Stream& stream = streams_[index];
  if (stream.fd() >= 0) stream.read_some(kReadAtOnce);
}

/// Writes what the ranks printed; stops listening to them while nobody reads it.
void Launcher::serve_sinks() {
  for (std::size_t i = 0; i < 2; ++i) {
    if (i == 1 && !err_) continue;
    Sink& sink = i == 0 ? out_ : *err_;
    sink.flush();
    if (sink.waits() != watched_[i]) {
      watched_[i] = sink.waits();
      if (watched_[i])
        watch(sink.fd(), i == 0 ? kOut : kErr, EPOLLOUT);
      else
        epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, sink.fd(), nullptr);
    }
    if (sink.full() != paused_[i]) {
      paused_[i] = sink.full();
      set_reading(sink, !paused_[i]);
    }
    note_output_error(sink);
    if (sink.error() != 0 && phase_ == Phase::running) end_job();
  }
}

/// The first error of each sink is told, whenever it comes, and makes the job fail.
void Launcher::note_output_error(const Sink& sink) {
  bool& told = output_errors_told_[&sink == &out_ ? 0 : 1];
  if (sink.error() == 0 || told) return;
  told = true;
  if (sink.error() != EPIPE)
    say(fmt::format("cannot write output: {}; ending the job", error_text(sink.error())));
  table_.fail_with(sink.error() == EPIPE ? 128 + SIGPIPE : 1);
}

void Launcher::set_reading(Sink& sink, bool reading) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (&streams_[i].sink() != &sink || streams_[i].fd() < 0) continue;
    if (reading)
      watch(streams_[i].fd(), kStreams + i, EPOLLIN);
    else
      epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, streams_[i].fd(), nullptr);
  }
}

/// No process of the job is left: takes the rest of its output, and cleans up.
void Launcher::finish() {
  for (Stream& stream : streams_) {
    while (stream.fd() >= 0 && stream.read_some(kReadAtOnce)) {
    }
    if (stream.fd() >= 0) stream.finish();
    serve_sinks();
  }
  remove_tree(temp_dir_);
  guardian_->dismiss();
  note_job_is_over();
  // Whoever reads our output may take as long as he likes; signals end us as they end any program.
  pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
  out_.drain();
  note_output_error(out_);
  if (err_) {
    err_->drain();
    note_output_error(*err_);
  }
}

void Launcher::say(std::string_view text) {
  if (!options_.quiet) (err_ ? *err_ : out_).add_line(fmt::format("weftrun: {}", text));
}

std::string Launcher::name_of(int rank) const { return fmt::format("rank {} on {}", rank, host_); }

}  // namespace weft::run
