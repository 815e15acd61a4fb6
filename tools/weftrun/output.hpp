// What the ranks print: read from their pipes, put together to lines, and written out whole.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "weftrun/spawn.hpp"

namespace weft::run {

/// Where lines go: weftrun's own standard output or error.
///
/// Writes only as much as can be written without waiting, so that weftrun goes on watching its
/// ranks when nobody reads what they print; the rest waits here, and readers of ranks' pipes stop
/// while more than kFull bytes do. Main thread only.
class Sink {
 public:
  static constexpr std::size_t kFull = std::size_t{1} << 20;

  explicit Sink(int fd);

  /// Adds text that `source` (any number that is its own) printed. Text of another source that
  /// did not end its line is ended first.
  void add(int source, std::string_view text);
  /// A whole line of weftrun's own.
  void add_line(std::string_view line);
  /// Writes what can be written now.
  void flush();
  /// Writes everything, waiting for the reader as long as that takes.
  void drain();

  /// What it writes to.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// The same if it was opened for that, or -1.
  [[nodiscard]] int own_fd() const noexcept { return terminal_.get(); }
  [[nodiscard]] bool waits() const noexcept { return !pending_.empty(); }
  [[nodiscard]] bool full() const noexcept { return pending_bytes_ > kFull; }
  /// Nobody reads any more (EPIPE), or the disk is full: everything is dropped from now on.
  [[nodiscard]] int error() const noexcept { return error_; }

 private:
  Fd terminal_;  ///< a description of our own of `fd`, which does not block; if it is a terminal
  int fd_;
  bool can_wait_;  ///< pipes, terminals, sockets: poll(2) says when to write
  std::deque<std::string> pending_;
  std::size_t pending_bytes_ = 0;
  std::size_t written_of_front_ = 0;
  int open_line_of_ = -1;  ///< the source whose unfinished line was added last, or -1
  int error_ = 0;
};

/// One rank's standard output or error. Of a rank on another host: without a pipe.
class Stream {
 public:
  /// `tag` goes in front of each line. `raw`: pass on what comes as it comes, for a job of one.
  Stream(int source, Fd pipe, Sink& sink, std::string tag, bool raw)
      : source_(source), pipe_(std::move(pipe)), sink_(&sink), tag_(std::move(tag)), raw_(raw) {}

  /// Reads what is there, at most about `most` bytes: true if there may be more now. At the end of
  /// the stream, closes it.
  bool read_some(std::size_t most);
  /// Passes on what came some other way.
  void take(std::string_view text);
  /// Passes on a last line without an end.
  void finish();

  [[nodiscard]] int fd() const noexcept { return pipe_.get(); }
  [[nodiscard]] Sink& sink() noexcept { return *sink_; }

 private:
  /// A longer line is passed on in pieces.
  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;

  void emit(std::string_view text);

  int source_;
  Fd pipe_;
  Sink* sink_;
  std::string tag_;
  bool raw_;
  bool line_is_open_ = false;  ///< part of a long line was passed on: no tag before the rest
  std::string partial_;
};

}  // namespace weft::run
