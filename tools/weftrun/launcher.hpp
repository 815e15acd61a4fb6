// weftrun's life from start to end: one loop over everything that can happen to a job.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weftrun/far.hpp"
#include "weftrun/guardian.hpp"
#include "weftrun/options.hpp"
#include "weftrun/output.hpp"
#include "weftrun/placement.hpp"
#include "weftrun/pmix_server.hpp"
#include "weftrun/process_table.hpp"
#include "weftrun/spawn.hpp"

namespace weft::run {

/// Tags of what the launcher's epoll watches; a stream's is kStreams plus its index.
enum LauncherTag : uint64_t { kGuardian, kServer, kSignals, kFar, kOut, kErr, kStreams };

class Launcher final : public Far::Owner {
 public:
  /// `argv_area`: main's argv, whose memory the guardian takes for its name.
  Launcher(Options options, char** argv_area);
  ~Launcher() override;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// Runs the job; weftrun's exit code. The process should end by _exit then, because PMIx's thread
  /// still runs.
  int run();

 private:
  enum class Phase {
    running,
    ending,    ///< ranks were told to end, and will be killed
    sweeping,  ///< all ended; the guardian looks for what they left
    over,
  };
  /// A moment on base::now_ns's clock at which something is to be done.
  using Deadline = std::optional<uint64_t>;
  struct Left {
    uint64_t tell_at;
    int rank;
  };

  void prepare();
  void start();
  void take_signals();
  void start_guardian(char** argv_area);
  void loop();
  [[nodiscard]] int milliseconds_to_next_deadline() const;
  void on_deadlines();
  void on_guardian();
  void on_guardian_lost();
  void on_started(int rank, int pid, const std::string& place);
  void on_start_failed(int rank, int error, const std::string& step);
  void on_rank_end(int rank, int status);
  void on_joined(int rank);
  void on_finalized(int rank) { table_.finalized(rank); }
  void tell_missing();
  void on_aborted(int rank, int code, const std::string& text);
  void on_server();
  void on_breakdown();
  void on_signal();
  void on_stream(std::size_t index);
  void serve_sinks();
  void give_credit(const Sink& sink);
  void note_output_error(const Sink& sink);
  void set_reading(Sink& sink, bool reading);
  void watch(int fd, uint64_t tag, uint32_t events);
  void tell_death(int rank, int status, const std::string& how);
  void signal_ranks(int signal);
  void end_job();
  void sweep_when_all_ended();
  void finish();
  void say(std::string_view text);
  [[nodiscard]] const std::string& host_of(int rank) const;
  [[nodiscard]] std::string name_of(int rank) const;

  void far_ready() override;
  void far_started(int rank, int pid, const std::string& place) override;
  void far_start_failed(int rank, int error, const std::string& step) override;
  void far_ended(int rank, int status) override;
  void far_joined(int rank) override { on_joined(rank); }
  void far_finalized(int rank) override { on_finalized(rank); }
  void far_aborted(int rank, int code, const std::string& text) override;
  void far_output(int rank, int stream, const std::string& text) override;
  void far_host_lost(const NodePart& host, const std::string& how) override;
  void far_said(const std::string& host, const std::string& line) override;
  void far_progress() override;

  const Options options_;
  const std::string host_;
  const uint64_t start_ns_;
  const std::string key_;
  /// The job's nodes; the ranks of this one, none if it is no node.
  const std::vector<NodePart> nodes_;
  const NodePart here_;
  Placement placement_;
  std::string temp_dir_;
  std::string shm_dir_;
  sigset_t signals_before_{};
  Fd epoll_;
  Fd signals_;
  Sink out_;
  std::optional<Sink> err_;  ///< empty when standard error is the same file as standard output
  std::array<bool, 2> paused_{};
  std::array<bool, 2> watched_{};
  std::array<bool, 2> output_errors_told_{};
  /// Rank r's output is 2r, its errors 2r+1. Those of ranks on other hosts have no pipe.
  std::vector<Stream> streams_;
  ProcessTable table_;
  std::optional<Guardian> guardian_;
  std::unique_ptr<PmixServer> server_;
  std::optional<Far> far_;  ///< if the job has other hosts

  Phase phase_ = Phase::running;
  bool started_ = false;       ///< the ranks were told to
  bool all_started_ = false;   ///< those of this host
  bool swept_ = false;         ///< this host
  bool broken_ = false;        ///< a breakdown was seen
  int late_crashes_ = 0;       ///< of ranks, told while the job was ending
  int passed_on_ = 0;          ///< the last signal of those that end a program by default
  uint64_t passed_on_at_ = 0;  ///< when that was
  Deadline timeout_at_;
  bool first_joined_ = false;
  Deadline missing_at_;  ///< when those that have not joined are told
  Deadline end_at_;      ///< a rank that had left in order failed: the others get a moment
  Deadline kill_at_;
  std::vector<Left> left_;  ///< ranks that ended well, the first first
};

}  // namespace weft::run
