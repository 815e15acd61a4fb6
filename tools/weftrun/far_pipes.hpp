// A daemon's pipes to its ranks: what they print goes up to weftrun, what weftrun reads comes to
// rank 0.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weftrun/guardian.hpp"
#include "weftrun/hosts.hpp"
#include "weftrun/wire.hpp"

namespace weft::run {

/// How many bytes of one host's output, and as many of its errors, may be on their way to weftrun,
/// which gives credit for what it could pass on. (And of weftrun's input on its way to rank 0.)
constexpr int64_t kPipeWindow = int64_t{256} << 10;

/// Owner and lifetime: a daemon, for the whole job. Who may call: the main thread. Nothing waits.
/// Invariant: nobody reads a pipe whose stream has no room in its window, but for `drain`, at the
/// end.
class FarPipes {
 public:
  using Up = std::function<void(const Message&)>;

  /// Makes the pipes of this host's ranks, and gives the guardian its ends. Before the fork.
  void open(const NodePart& here, GuardPlan& plan);
  /// From now on epoll tells: `input_tag` when `write_input` can, `first_tag` + i when `read(i)`
  /// can.
  void watch(int epoll, uint64_t input_tag, uint64_t first_tag);

  void read(std::size_t index, int member, const Up& up);
  void credit(int stream, uint64_t bytes);
  /// The ranks ended: passes on all that is left.
  void drain(int member, const Up& up);

  void input(const std::string& text, const Up& up);
  void input_end();
  void write_input(const Up& up);

 private:
  struct Pipe {
    int rank = 0;
    int stream = 0;
    Fd fd;
    bool watched = false;
  };
  /// Reads once: true if there may be more.
  bool pass_on(Pipe& pipe, int member, const Up& up);
  void update_watches(int stream);

  int epoll_ = -1;
  uint64_t input_tag_ = 0, first_tag_ = 0;
  std::vector<Pipe> pipes_;  ///< the i-th rank's output is 2 i, its errors 2 i + 1
  std::array<int64_t, 2> window_{kPipeWindow, kPipeWindow};
  Fd input_;  ///< to rank 0
  std::string unwritten_;
  bool input_ends_ = false;
  bool input_watched_ = false;
};

}  // namespace weft::run
