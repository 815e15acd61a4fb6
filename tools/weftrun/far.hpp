// weftrun's side of a job of several hosts: the other hosts, as the launcher sees them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weftrun/branch.hpp"
#include "weftrun/exchange.hpp"
#include "weftrun/options.hpp"
#include "weftrun/pmix_server.hpp"

namespace weft::run {

/// Owner and lifetime: the launcher of a job with other hosts, for the whole job. Made after the
/// guardian was forked and before there are threads. Who may call: the main thread. Nothing waits
/// but `close`. Invariant: of a host that was lost nothing is told any more.
class Far final : public Branch::Owner {
 public:
  /// Whom it tells what happens on other hosts.
  class Owner {
   public:
    virtual ~Owner() = default;
    /// All hosts could start their ranks now.
    virtual void far_ready() = 0;
    virtual void far_started(int rank, int pid, const std::string& place) = 0;
    virtual void far_start_failed(int rank, int error, const std::string& step) = 0;
    virtual void far_ended(int rank, int status) = 0;
    virtual void far_joined(int rank) = 0;
    virtual void far_finalized(int rank) = 0;
    virtual void far_aborted(int rank, int code, const std::string& text) = 0;
    /// `rank` printed `text` to its stream (0, 1); none: it closed that.
    virtual void far_output(int rank, int stream, const std::string& text) = 0;
    virtual void far_host_lost(const NodePart& host, const std::string& how) = 0;
    virtual void far_said(const std::string& host, const std::string& line) = 0;
    /// `all_started` or `all_swept` may have come true.
    virtual void far_progress() = 0;
  };

  struct Plan {
    const Options* options = nullptr;
    std::string nspace;
    std::string key;
    Fd in;  ///< rank 0's standard input, if that rank is elsewhere
  };
  Far(Owner& owner, Plan plan);

  /// The server of the ranks that are here, which must live as long.
  void serve_through(PmixServer& server) { server_ = &server; }
  /// Readable when `serve` has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  void serve();
  [[nodiscard]] uint64_t next_deadline() const {
    return std::min(branch_->next_deadline(), look_at_input_at_);
  }
  void on_time(uint64_t now);

  void start();
  void signal_all(int signal) { branch_->send_all({.say = Say::signal, .value = signal}); }
  /// weftrun is about to be stopped.
  void pause() { branch_->send_all({.say = Say::pause}); }
  void tell_death(int rank, int status, const std::string& how);
  void tell_left(int rank);
  /// A rank of this host ended.
  void near_ended(int rank) { exchange_->rank_gone(rank, false); }
  void from_server(PmixServer::Event event) { exchange_->from_server(std::move(event)); }
  void sweep();
  /// Who prints to the stream (0, 1) may go on.
  void give_credit(int stream);
  void close() { branch_->close(); }

  [[nodiscard]] bool all_ready() const { return all(&Member::ready); }
  [[nodiscard]] bool all_started() const { return all(&Member::started); }
  /// Those that came to be ready have no process left.
  [[nodiscard]] bool all_swept() const;

 private:
  struct Member {
    bool ready = false;
    bool started = false;
    bool swept = false;
    bool lost = false;
    std::array<uint64_t, 2> owed{};  ///< bytes of a stream for which it got no credit yet
  };

  [[nodiscard]] bool all(bool Member::*flag) const;
  void from_child(int child, Message message) override;
  void child_lost(int child, const std::string& how) override;
  void child_said(int child, const std::string& line) override;
  void lose(int member, const std::string& how);
  void to(int member, const Message& message);
  void act(const Message& message);
  [[nodiscard]] bool may_read_input() const;
  void read_input();
  void watch_input();
  void close_input();

  Far::Owner& owner_;
  const JobSpec spec_;
  const Tree tree_;
  std::vector<Member> members_;
  Fd epoll_;
  std::optional<Branch> branch_;
  std::optional<Exchange> exchange_;
  PmixServer* server_ = nullptr;
  Fd in_;
  bool in_can_wait_ = true;  ///< epoll tells when something is there; else there always is
  bool in_watched_ = false;
  bool sweeping_ = false;                   ///< hosts were told to
  uint64_t look_at_input_at_ = UINT64_MAX;  ///< whether it is a terminal of ours again
  int64_t in_room_ = 0;                     ///< bytes that rank 0's host takes
};

}  // namespace weft::run
