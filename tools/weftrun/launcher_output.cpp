// What the ranks print, on its way through weftrun; and the job's end, when all of it is taken.
#include <fmt/format.h>
#include <sys/epoll.h>

#include <csignal>

#include "weftrun/breakdown.hpp"
#include "weftrun/launcher.hpp"

namespace weft::run {
namespace {

/// Bytes taken from one stream before the others get their turn.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 18;

}  // namespace

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
    if (far_ && !sink.full()) give_credit(sink);
    note_output_error(sink);
    if (sink.error() != 0 && phase_ == Phase::running) end_job();
  }
}

/// Those on other hosts who print to this sink may go on.
void Launcher::give_credit(const Sink& sink) {
  if (&sink == &out_) far_->give_credit(0);
  if (&sink != &out_ || !err_) far_->give_credit(1);
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
    stream.finish();  // of hosts that were lost, too: nobody said that these end
    serve_sinks();
  }
  remove_tree(temp_dir_);
  guardian_->dismiss();
  if (far_) far_->close();
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

}  // namespace weft::run
