// What the launcher does about news from other hosts.
#include <fmt/format.h>

#include <csignal>

#include "weft/base/clock.hpp"
#include "weftrun/launcher.hpp"

namespace weft::run {

void Launcher::far_ready() {
  if (phase_ != Phase::running || started_) return;
  start();
}

void Launcher::far_started(int rank, int pid, const std::string& place) {
  if (!table_.is_running(rank)) on_started(rank, pid, place);
}

void Launcher::far_start_failed(int rank, int error, const std::string& step) {
  if (phase_ <= Phase::ending) on_start_failed(rank, error, step);
}

void Launcher::far_ended(int rank, int status) {
  if (table_.is_running(rank)) on_rank_end(rank, status);
}

void Launcher::far_aborted(int rank, int code, const std::string& text) {
  on_aborted(rank, code, text);
  end_job();
}

void Launcher::far_output(int rank, int stream, const std::string& text) {
  Stream& to = streams_.at(2 * static_cast<std::size_t>(rank) + static_cast<std::size_t>(stream));
  if (text.empty())
    to.finish();
  else
    to.take(text);
}

void Launcher::far_said(const std::string& host, const std::string& line) {
  say(fmt::format("{}: {}", host, line));
}

void Launcher::far_host_lost(const NodePart& host, const std::string& how) {
  if (phase_ > Phase::ending) return;
  const bool go_on = started_ && options_.on_failure == OnFailure::go_on;
  std::vector<int> ranks;
  for (int rank = host.first; rank < host.first + host.ranks; ++rank)
    // Those that were told to start and were not heard of yet, too.
    if (started_ && !table_.is_over(rank)) ranks.push_back(rank);
  const std::string whom =
      ranks.empty()
          ? ""
          : fmt::format("; rank{} {}{} lost", ranks.size() == 1 ? "" : "s", ranks.front(),
                        ranks.size() == 1 ? " is" : fmt::format(" to {} are", ranks.back()));
  if (phase_ == Phase::running || !ranks.empty())
    say(fmt::format("host {}: {}{}{}", host.host, how, whom,
                    !go_on && phase_ == Phase::running ? "; ending the job" : ""));
  table_.fail_with(1);
  for (const int rank : ranks) {
    table_.lost(rank);
    if (phase_ == Phase::running && go_on)
      tell_death(rank, SIGKILL, fmt::format("on {} is lost with its host: {}", host.host, how));
  }
  if (!go_on) end_job();
  sweep_when_all_ended();
}

void Launcher::far_progress() {
  if (phase_ == Phase::sweeping) {
    if (swept_ && far_->all_swept()) phase_ = Phase::over;
    return;
  }
  sweep_when_all_ended();
}

}  // namespace weft::run
