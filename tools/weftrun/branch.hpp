// A launcher's side of the fan-out tree towards its children: it has daemons started on their
// hosts, lets them in, hears them, and notices when one is lost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weftrun/agent.hpp"
#include "weftrun/link.hpp"
#include "weftrun/tree.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {

/// Owner and lifetime: weftrun, or a daemon that has children; for the whole job. Made after the
/// guardian was forked and before there are threads.
/// Who may call: the main thread. Nothing waits but `close`.
/// Invariants: (1) a connection becomes a child's only by proof that it knows the key, and only
/// while that child has none. (2) A child that was lost stays lost, and is told of once.
class Branch {
 public:
  /// Whom it tells.
  class Owner {
   public:
    virtual ~Owner() = default;
    virtual void from_child(int child, Message message) = 0;
    /// It and all below it are gone.
    virtual void child_lost(int child, const std::string& how) = 0;
    /// Its launch agent, or it on its standard error, printed a line.
    virtual void child_said(int child, const std::string& line) = 0;
  };

  /// `spec` must live on. `bytes`: the spec, for the children; `environment`: the agents'.
  Branch(Owner& owner, const JobSpec& spec, std::string bytes, std::string key, int member,
         char** environment);

  /// Readable when `serve` has something to do.
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  void serve();
  /// When `on_time` has something to do, at the latest (base::now_ns).
  [[nodiscard]] uint64_t next_deadline() const;
  void on_time(uint64_t now);

  /// To all children that are connected.
  void send_all(const Message& message);
  /// To the child, if it is connected.
  void send(int child, const Message& message);

  /// Says good-bye to all, and waits a little for their agents to end.
  void close();

 private:
  struct Child {
    int member = 0;
    std::optional<Agent> agent;
    std::optional<Link> link;
    bool waits_for_room = false;
    bool lost = false;
  };
  /// A connection whose other end has not shown yet who it is.
  struct Stranger {
    Link link;
    int member = -1;
    std::string own_nonce, their_nonce;
    uint64_t until = 0;
  };

  void listen();
  void start_agents(char** environment);
  void accept_some();
  void on_stranger(uint32_t id);
  bool greet(uint32_t id, Stranger& stranger, const Message& message);
  void on_link(Child& child);
  void on_agent(Child& child);
  void lose(Child& child, const std::string& how);
  void watch_room(Child& child);
  void watch(int fd, uint32_t kind, uint32_t index, uint32_t events, int operation) const;
  Child* child_of(int member);
  [[nodiscard]] WireLimits limits() const { return {spec_.members(), spec_.ranks()}; }

  Owner& owner_;
  const JobSpec& spec_;
  const std::string bytes_;
  const std::string key_;
  const int member_;
  const Tree tree_;
  const uint64_t silence_ns_;
  const uint64_t launch_until_;
  Fd epoll_;
  Fd listener_;
  int port_ = 0;
  std::vector<Child> children_;
  std::map<uint32_t, Stranger> strangers_;
  uint32_t next_stranger_ = 0;
  bool closing_ = false;
};

/// The numeric addresses by which other hosts may reach this one, those of its loopback last.
std::vector<std::string> own_addresses();

}  // namespace weft::run
