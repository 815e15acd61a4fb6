// The flags that every benchmark shares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::bench {

enum class Mode { matched, queue, handler, put, get };
std::string name_of(Mode mode);

/// How a thread waits: polling `progress` by itself, or in a blocking call of the library.
enum class Waiting { automatic, poll, block };

/// How long each figure of `quick` is measured when nobody says.
constexpr double kQuickSeconds = 0.5;

struct Options {
  Mode mode = Mode::matched;
  std::size_t size = 8;  ///< bytes of one message
  unsigned threads = 1;  ///< per rank; thread i talks to thread i of the peer
  unsigned devices = 0;  ///< 0: the library's default
  double seconds = 2;    ///< length of the whole measurement; quick: of each figure
  bool json = false;
  Waiting waiting = Waiting::automatic;  ///< automatic: poll with one thread, block with more
  unsigned window = 0;                   ///< messages per acknowledgement; 0: by size
  std::string progress;                  ///< "", "explicit", "waiters", "server"
  std::string assignment;                ///< "", "dedicated", "round_robin"
  bool ordinary_memory = false;          ///< puts go to malloc'd memory, not weft's own
  bool own_tags = false;                 ///< rate, matched: a tag for each message of a window
  uint32_t tasks = 64;                   ///< talk: tasks a rank
  bool one = false;                      ///< talk: one pair at a time
  uint64_t compute_ns = 0;               ///< talk: between messages
  bool explain = false;                  ///< latency: the parts alone
  unsigned length = 1024;                ///< matching: entries of each queue
  bool posted_only = false;              ///< matching: no messages wait
  unsigned ranks = 0;                    ///< start, memory: only this many; 0: 2 and 64
  std::string mpich;                     ///< start: folder of a rival's mpiexec and mpicc
  std::string file;                      ///< all, report: where results go or come from
  std::string other_file;                ///< compare: the second file
  std::string only;                      ///< all: benches whose name contains this

  [[nodiscard]] bool polls() const noexcept {
    return waiting == Waiting::poll || (waiting == Waiting::automatic && threads == 1);
  }
};

}  // namespace weft::bench
