#include "comm/stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "comm/lane_cells.hpp"
#include "harness/laps.hpp"
#include "weft/base/clock.hpp"

namespace weft::bench {
namespace {

// Blocks for messages above the eager limit: two windows per pair.
std::size_t blocks_for(const StreamSetup& s) {
  return s.bytes > s.runtime.eager_bytes() ? std::size_t{2} * s.window * s.threads : 0;
}

}  // namespace

MatchedStream::Shared::Shared(const StreamSetup& s) : setup(s), endpoint(s.runtime, {}) {
  // Else early threads' second windows could take the records that the others' first ones need.
  const int64_t records = configured("comm.operations", 65536);
  if (int64_t{4} * s.window * s.threads > records) {
    throw std::runtime_error(
        fmt::format("two windows of {} receives for {} threads need too many of the {} operations "
                    "(comm.operations)",
                    s.window, s.threads, records));
  }
}

MatchedStream::MatchedStream(Shared& shared, unsigned number)
    : shared_(shared),
      setup_(shared.setup),
      number_(number),
      slots_(setup_.bytes, setup_.window),
      ends_(setup_.runtime, setup_.bytes, setup_.poll) {}

bool MatchedStream::send_window() {
  acknowledged_.reset(1);
  const Post asked = until_posted(setup_.runtime, [&] {
    return shared_.endpoint.recv(setup_.pair.peer(), Tag{number_ | kAcknowledgement}, {&over_, 1},
                                 &acknowledged_);
  });
  for (unsigned i = 0; i < setup_.window; ++i) {
    ends_.sent(until_posted(setup_.runtime, [&] {
      return shared_.endpoint.send(setup_.pair.peer(), tag_of(i), slots_.slot(i),
                                   ends_.completion());
    }));
  }
  if (asked == Post::posted) {
    wait_for(setup_.runtime, acknowledged_, setup_.poll);
    expect_ok(acknowledged_.event().error, "acknowledgement");
  }
  ends_.wait();
  return over_ == std::byte{0};
}

void MatchedStream::post(Window& window) {
  window.received.reset(setup_.window);
  window.posted = true;
  for (unsigned i = 0; i < setup_.window; ++i) {
    const auto slot = slots_.slot(i);
    const Post answer = until_posted(setup_.runtime, [&] {
      return shared_.endpoint.recv(setup_.pair.peer(), tag_of(i), slot, &window.received, &window);
    });
    if (answer == Post::done) window.received.arrive();
  }
}

void MatchedStream::receive() {
  for (Window& window : windows_) {
    if (!window.posted) post(window);
  }
  for (std::byte over{0}; over == std::byte{0}; next_ = 1 - next_) {
    Window& window = windows_[next_];
    wait_for(setup_.runtime, window.received, setup_.poll);
    expect_ok(window.received.event().error, "receive");
    window.posted = false;
    over = std::byte{turn_is_over(setup_.pair)};
    (void)until_posted(setup_.runtime, [&] {
      return shared_.endpoint.send(setup_.pair.peer(), Tag{number_ | kAcknowledgement}, {&over, 1});
    });
    if (over == std::byte{0}) post(window);
  }
}

MatchedStream::~MatchedStream() {
  for (Window& window : windows_) {
    if (!window.posted) continue;
    for (unsigned i = 0; i < setup_.window; ++i)
      (void)shared_.endpoint.cancel(setup_.pair.peer(), tag_of(i), &window);
    setup_.runtime.wait(window.received);
  }
}

QueueStream::Shared::Shared(const StreamSetup& s)
    : setup(s),
      blocks(s.bytes, blocks_for(s)),
      acknowledgements(s),
      endpoint(s.runtime, {.arrival = Arrival::queue, .allocator = &blocks}),
      taken(s.threads) {}

QueueStream::QueueStream(Shared& shared, unsigned number)
    : shared_(shared),
      setup_(shared.setup),
      number_(number),
      slots_(setup_.bytes, setup_.window),
      ends_(setup_.runtime, setup_.bytes, setup_.poll) {}

bool QueueStream::send_window() {
  for (unsigned i = 0; i < setup_.window; ++i) {
    ends_.sent(until_posted(setup_.runtime, [&] {
      return shared_.endpoint.send(setup_.pair.peer(), Tag{number_}, slots_.slot(i),
                                   ends_.completion());
    }));
  }
  const bool more = shared_.acknowledgements.take(number_);
  ends_.wait();
  return more;
}

void QueueStream::finish() {
  (void)until_posted(setup_.runtime,
                     [&] { return shared_.endpoint.send(setup_.pair.peer(), kEnd, {}); });
}

bool QueueStream::ends_window(unsigned sender) noexcept {
  auto& count = shared_.taken[sender].count;  // relaxed: counts, orders nothing
  if (setup_.threads != 1)
    return (count.fetch_add(1, std::memory_order_relaxed) + 1) % setup_.window == 0;
  // One taker. No division: it would be a tenth of what a message costs.
  const uint64_t now = count.load(std::memory_order_relaxed) + 1;
  count.store(now == setup_.window ? 0 : now, std::memory_order_relaxed);
  return now == setup_.window;
}

void QueueStream::receive() {
  Message message;
  unsigned empty = 0;
  for (;;) {
    if (setup_.poll) {
      while (!shared_.endpoint.dequeue(message)) {
        if (++empty % 4096 == 0) yield_core();
      }
    } else {
      message = shared_.endpoint.dequeue_wait();
    }
    if (message.tag() == kEnd) return;
    if (!message.ready()) setup_.runtime.wait(message);
    expect_ok(message.error(), "dequeue");
    const unsigned sender = message.tag().value;
    if (ends_window(sender)) {
      shared_.acknowledgements.give(sender, turn_is_over(setup_.pair));
    }
  }
}

void receive_windows(const StreamSetup& setup, WindowSlot& slot, unsigned number,
                     Acknowledgements& acknowledgements) {
  for (bool over = false; !over;) {
    wait_for(setup.runtime, slot.whole, setup.poll);
    expect_ok(slot.whole.event().error, "window");
    slot.whole.reset(1);  // the next window comes after our acknowledgement
    over = turn_is_over(setup.pair);
    acknowledgements.give(number, over);
  }
}

HandlerStream::Shared::Shared(const StreamSetup& s)
    : setup(s),
      blocks(s.bytes, blocks_for(s)),
      slots(s.threads),
      acknowledgements(s),
      endpoint(s.runtime, {.arrival = Arrival::handler,
                           .allocator = &blocks,
                           .handler = &on_message,
                           .handler_argument = this}) {}

void HandlerStream::Shared::on_message(void* shared, const Incoming& message) {
  auto& self = *static_cast<Shared*>(shared);
  WindowSlot& slot = self.slots[message.tag.value];
  if (message.error != Errc::ok || message.data.size() != self.setup.bytes) {
    base::broken("a message of the stream failed", __FILE__, __LINE__);
  }
  if (++slot.count == self.setup.window) {
    slot.count = 0;
    slot.whole.arrive();
  }
}

HandlerStream::HandlerStream(Shared& shared, unsigned number)
    : shared_(shared),
      setup_(shared.setup),
      number_(number),
      slots_(setup_.bytes, setup_.window),
      ends_(setup_.runtime, setup_.bytes, setup_.poll) {}

bool HandlerStream::send_window() {
  for (unsigned i = 0; i < setup_.window; ++i) {
    ends_.sent(until_posted(setup_.runtime, [&] {
      return shared_.endpoint.send(setup_.pair.peer(), Tag{number_}, slots_.slot(i),
                                   ends_.completion());
    }));
  }
  const bool more = shared_.acknowledgements.take(number_);
  ends_.wait();
  return more;
}

PutStream::Shared::Shared(const StreamSetup& s)
    : setup(s),
      each_signals(s.ordinary_memory && s.bytes > s.runtime.eager_bytes()),
      slots(s.threads),
      on_signal(&signalled, this),
      acknowledgements(s),
      target(s.pair, s.runtime, s.bytes * s.window * s.threads, s.ordinary_memory),
      endpoint(s.runtime, {.arrival = Arrival::memory, .at_target = &on_signal}) {}

void PutStream::Shared::signalled(void* shared, const Event& event) {
  auto& self = *static_cast<Shared*>(shared);
  WindowSlot& slot = self.slots[event.tag.value];
  if (++slot.count == (self.each_signals ? self.setup.window : 1)) {
    slot.count = 0;
    slot.whole.arrive();
  }
}

PutStream::PutStream(Shared& shared, unsigned number)
    : shared_(shared),
      setup_(shared.setup),
      number_(number),
      slots_(setup_.bytes, setup_.window),
      ends_(setup_.runtime, setup_.bytes, setup_.poll, true) {}

bool PutStream::send_window() {
  const std::size_t first = std::size_t{number_} * setup_.window;
  const auto& key = shared_.target.peer_key();
  for (unsigned i = 0; i < setup_.window; ++i) {
    const std::size_t at = (first + i) * setup_.bytes;
    ends_.sent(until_posted(setup_.runtime, [&] {
      return shared_.each_signals || i + 1 == setup_.window
                 ? shared_.endpoint.put_signal(key, at, slots_.slot(i), Tag{number_},
                                               ends_.completion())
                 : shared_.endpoint.put(key, at, slots_.slot(i), ends_.completion());
    }));
  }
  const bool more = shared_.acknowledgements.take(number_);
  ends_.wait();
  return more;
}

GetStream::Shared::Shared(const StreamSetup& s)
    : setup(s),
      target(s.pair, s.runtime, s.bytes * s.window * s.threads, s.ordinary_memory),
      endpoint(s.runtime, {.arrival = Arrival::memory}) {}

GetStream::GetStream(Shared& shared, unsigned number)
    : shared_(shared),
      setup_(shared.setup),
      number_(number),
      slots_(setup_.bytes, setup_.window),
      ends_(setup_.runtime, setup_.bytes, setup_.poll, true) {}

bool GetStream::send_window() {
  const std::size_t first = std::size_t{number_} * setup_.window;
  for (unsigned i = 0; i < setup_.window; ++i) {
    ends_.sent(until_posted(setup_.runtime, [&] {
      return shared_.endpoint.get(shared_.target.peer_key(), (first + i) * setup_.bytes,
                                  slots_.slot(i), ends_.completion());
    }));
  }
  ends_.wait();
  return !turn_is_over(setup_.pair);
}

void GetStream::receive() { progress_until_finished(setup_.pair, setup_.runtime, setup_.threads); }

namespace {

template <class Of>
class StreamOf final : public Stream {
 public:
  explicit StreamOf(const StreamSetup& setup)
      : setup_(setup), shared_(setup), served_(setup.threads), crew_(setup.threads) {
    for (unsigned i = 0; i < setup.threads; ++i) {
      threads_.push_back(std::make_unique<Of>(shared_, i));
    }
  }

  Rate turn(double seconds) override {
    const bool sends = setup_.pair.leads();
    work_for(setup_.pair, crew_, seconds, [this, sends](unsigned i) {
      if (!sends) return threads_[i]->receive();
      Served& served = served_[i];
      Laps laps(setup_.bytes * setup_.window <= 65536 ? 8 : 1);
      // The first window finds the receiver still waking up for this turn; if it was the last, too,
      // it counts, late as it is.
      served.start = base::now_ns();
      bool more = threads_[i]->send_window();
      served.messages = setup_.window;
      if (more) {
        served.messages = 0;
        served.start = base::now_ns();
        laps.start();
      }
      while (more) {
        more = threads_[i]->send_window();
        served.messages += setup_.window;
        laps.count();
      }
      served.window_ns = laps.median_ns();
      served.end = base::now_ns();
      threads_[i]->finish();
    });
    return sends ? sum() : Rate{};
  }

 private:
  struct alignas(base::kCacheLine) Served {
    uint64_t messages = 0, start = 0, end = 0;
    double window_ns = 0;
  };

  Rate sum() const {
    if (setup_.threads == 1 && served_[0].window_ns > 0) {
      return {setup_.window * 1e9 / served_[0].window_ns, 1};
    }
    double all = 0;
    std::vector<double> each;
    uint64_t first = ~uint64_t{0};
    uint64_t last = 0;
    for (const Served& served : served_) {
      all += static_cast<double>(served.messages);
      each.push_back(static_cast<double>(served.messages));
      first = std::min(first, served.start);
      last = std::max(last, served.end);
    }
    return {all * 1e9 / static_cast<double>(last - first), fairness_of(each)};
  }

  StreamSetup setup_;
  typename Of::Shared shared_;
  std::vector<std::unique_ptr<Of>> threads_;
  std::vector<Served> served_;
  Crew crew_;
};

}  // namespace

std::unique_ptr<Stream> make_stream(Mode mode, const StreamSetup& setup) {
  switch (mode) {
    case Mode::queue:
      return std::make_unique<StreamOf<QueueStream>>(setup);
    case Mode::handler:
      return std::make_unique<StreamOf<HandlerStream>>(setup);
    case Mode::put:
      return std::make_unique<StreamOf<PutStream>>(setup);
    case Mode::get:
      return std::make_unique<StreamOf<GetStream>>(setup);
    default:
      return std::make_unique<StreamOf<MatchedStream>>(setup);
  }
}

}  // namespace weft::bench
