// Streams: windows of messages in one direction, acknowledged once a window. One class per mode:
//   send_window()  rank 0: a window and its acknowledgement; false: it was the last
//   finish()       rank 0: what must still be sent after the last window
//   receive()      rank 1: windows until the turn is over
// An object belongs to one thread of one rank; `Shared` to the rank, made collectively.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/session.hpp"
#include "harness/statistics.hpp"

namespace weft::bench {

struct StreamSetup {
  Pair& pair;
  Runtime& runtime;
  std::size_t bytes;
  unsigned window;
  unsigned threads;
  bool poll;
  bool ordinary_memory;
  bool own_tags = false;  ///< matched: each message of a window has a tag of its own
};

/// Window after window of one size from a slot of its own per message.
class Slots {
 public:
  Slots(std::size_t bytes, unsigned count)
      : bytes_(bytes),
        stride_((bytes + base::kCacheLine - 1) / base::kCacheLine * base::kCacheLine),
        memory_(std::max(stride_, base::kCacheLine) * count) {}
  [[nodiscard]] std::span<std::byte> slot(unsigned number) const noexcept {
    return {memory_.data() + number * stride_, bytes_};
  }

 private:
  std::size_t bytes_, stride_;
  Buffer memory_;
};

/// Ends of sends that were answered `posted`; small sends are never, and are not even asked.
class SendEnds {
 public:
  SendEnds(Runtime& runtime, std::size_t bytes, bool poll, bool always = false)
      : runtime_(runtime), poll_(poll), asked_(always || bytes > runtime.eager_bytes()) {}
  [[nodiscard]] Completion* completion() noexcept { return asked_ ? &ended_ : nullptr; }
  void sent(Post answer) noexcept { posted_ += answer == Post::posted ? 1 : 0; }
  void wait() {
    const auto all = [this] { return ended_.value() >= posted_; };
    if (!asked_ || all()) return;
    if (poll_) {
      poll_until(runtime_, all);
    } else {
      runtime_.wait_until(all);
    }
    if (ended_.errors() != 0) throw std::runtime_error("a send of the stream failed");
  }

 private:
  Runtime& runtime_;
  bool poll_;
  bool asked_;
  uint64_t posted_ = 0;
  Counter ended_;
};

/// Acknowledgements of all modes but matched: empty active messages, a slot per sending thread.
class Acknowledgements {
 public:
  explicit Acknowledgements(const StreamSetup& setup)
      : setup_(setup),
        slots_(setup.threads),
        endpoint_(setup.runtime,
                  {.arrival = Arrival::handler, .handler = &on_message, .handler_argument = this}) {
  }
  /// Rank 1: the window of thread `number` is here; `over`: it was the last of this turn.
  void give(unsigned number, bool over) {
    (void)until_posted(setup_.runtime, [&] {
      return endpoint_.send(setup_.pair.peer(), Tag{number | (over ? kOver : 0)}, {});
    });
  }
  /// Rank 0: waits for it; false: it was the last.
  bool take(unsigned number) {
    Slot& slot = slots_[number];
    wait_for(setup_.runtime, slot.given, setup_.poll);
    const bool more = !slot.over;
    slot.given.reset(1);  // before the next window goes out
    return more;
  }

 private:
  static constexpr uint32_t kOver = 1U << 31;
  struct alignas(base::kCacheLine) Slot {
    Synchronizer given{1};
    bool over = false;
  };
  static void on_message(void* self, const Incoming& message) {
    Slot& slot = static_cast<Acknowledgements*>(self)->slots_[message.tag.value & ~kOver];
    slot.over = (message.tag.value & kOver) != 0;
    slot.given.arrive();
  }
  StreamSetup setup_;
  std::vector<Slot> slots_;
  Endpoint endpoint_;
};

// Matched: a tag per pair. Two windows of receives: while one is sent, the other is posted --------
class MatchedStream {
 public:
  struct Shared {
    explicit Shared(const StreamSetup& s);
    StreamSetup setup;
    Endpoint endpoint;
  };
  MatchedStream(Shared& shared, unsigned number);
  /// Takes back what was posted for a window that was never sent.
  ~MatchedStream();
  MatchedStream(const MatchedStream&) = delete;
  MatchedStream& operator=(const MatchedStream&) = delete;
  bool send_window();
  void finish() {}
  void receive();

 private:
  static constexpr uint32_t kAcknowledgement = 1U << 31;
  static constexpr uint32_t kThreadBits = 10;  ///< there are up to 1024 threads
  struct Window {
    Synchronizer received{1};
    bool posted = false;
  };
  void post(Window& window);
  [[nodiscard]] Tag tag_of(unsigned message) const noexcept {
    return Tag{number_ | (setup_.own_tags ? (message + 1) << kThreadBits : 0)};
  }
  Shared& shared_;
  StreamSetup& setup_;
  unsigned number_;
  Slots slots_;  // of both windows: one is filled only after the other was acknowledged
  Window windows_[2];
  unsigned next_ = 0;  // which of them is received next
  SendEnds ends_;
  Synchronizer acknowledged_{1};
  std::byte over_{};
};

// Queue: any receiving thread takes the next message, of whatever sender -------------------------
class QueueStream {
 public:
  struct Shared {
    explicit Shared(const StreamSetup& s);
    StreamSetup setup;
    BlockAllocator blocks;
    Acknowledgements acknowledgements;
    Endpoint endpoint;
    struct alignas(base::kCacheLine) Taken {
      std::atomic<uint64_t> count{0};
    };
    std::vector<Taken> taken;
  };
  QueueStream(Shared& shared, unsigned number);
  bool send_window();
  /// One message that ends one receiving thread: there are as many of both.
  void finish();
  void receive();

 private:
  static constexpr Tag kEnd{~uint32_t{0}};
  /// Counts a message: whether it is the last of its sender's window.
  bool ends_window(unsigned sender) noexcept;
  Shared& shared_;
  StreamSetup& setup_;
  unsigned number_;
  Slots slots_;
  SendEnds ends_;
};

/// Whole windows counted by handlers or signals, one waiting thread each.
struct alignas(base::kCacheLine) WindowSlot {
  Synchronizer whole{1};
  uint64_t count = 0;  // written by whoever serves the sender's device: one thread at a time
};

/// Rank 1 of the handler and put streams.
void receive_windows(const StreamSetup& setup, WindowSlot& slot, unsigned number,
                     Acknowledgements& acknowledgements);

// Handler ----------------------------------------------------------------------------------------
class HandlerStream {
 public:
  struct Shared {
    explicit Shared(const StreamSetup& s);
    static void on_message(void* shared, const Incoming& message);
    StreamSetup setup;
    BlockAllocator blocks;
    std::vector<WindowSlot> slots;
    Acknowledgements acknowledgements;
    Endpoint endpoint;
  };
  HandlerStream(Shared& shared, unsigned number);
  bool send_window();
  void finish() {}
  void receive() {
    receive_windows(setup_, shared_.slots[number_], number_, shared_.acknowledgements);
  }

 private:
  Shared& shared_;
  StreamSetup& setup_;
  unsigned number_;
  Slots slots_;
  SendEnds ends_;
};

// Put: the last of each window carries the signal ------------------------------------------------
class PutStream {
 public:
  struct Shared {
    explicit Shared(const StreamSetup& s);
    static void signalled(void* shared, const Event& event);
    StreamSetup setup;
    /// All puts of a window signal, or only the last: what the owner copies in its progress
    /// overtakes, and it has to progress until all is there.
    bool each_signals;
    std::vector<WindowSlot> slots;
    HandlerCompletion on_signal;
    Acknowledgements acknowledgements;
    PutTarget target;
    Endpoint endpoint;
  };
  PutStream(Shared& shared, unsigned number);
  bool send_window();
  void finish() {}
  void receive() {
    receive_windows(setup_, shared_.slots[number_], number_, shared_.acknowledgements);
  }

 private:
  Shared& shared_;
  StreamSetup& setup_;
  unsigned number_;
  Slots slots_;
  SendEnds ends_;
};

// Get: windows without an acknowledgement; the owner only progresses -----------------------------
class GetStream {
 public:
  struct Shared {
    explicit Shared(const StreamSetup& s);
    StreamSetup setup;
    PutTarget target;
    Endpoint endpoint;
  };
  GetStream(Shared& shared, unsigned number);
  bool send_window();
  void finish() { say_finished(setup_.pair); }
  void receive();

 private:
  Shared& shared_;
  StreamSetup& setup_;
  unsigned number_;
  Slots slots_;
  SendEnds ends_;
};

/// A rank's side of a stream with all its threads. Made, and called, by both ranks together.
class Stream {
 public:
  virtual ~Stream() = default;
  /// Messages a second, on rank 0: of one pair, from the median of its windows; of several, of all
  /// from the first thread's start to the last one's end, with the fairness between them.
  struct Rate {
    double per_second = 0;
    double fairness = 1;
  };
  virtual Rate turn(double seconds) = 0;
};

std::unique_ptr<Stream> make_stream(Mode mode, const StreamSetup& setup);

}  // namespace weft::bench
