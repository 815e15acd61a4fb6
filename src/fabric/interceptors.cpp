#include "weft/fabric/interceptors.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <random>

#include "fabric/interceptor_base.hpp"

namespace weft::fabric {

namespace {

/// A seeded source of decisions for any thread; each port has its own.
class Dice {
 public:
  Dice(uint64_t seed, uint32_t port) : random_(seed * 0x9e3779b97f4a7c15u + port) {}
  bool chance(double share) {
    const std::scoped_lock hold(lock_);
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }
  uint32_t up_to(uint32_t most) {
    const std::scoped_lock hold(lock_);
    return std::uniform_int_distribution<uint32_t>(0, most)(random_);
  }

 private:
  std::mutex lock_;
  std::mt19937_64 random_;
};

class RefusingPort final : public PassingPort {
 public:
  RefusingPort(std::unique_ptr<Port> inner, double share, uint64_t seed, uint32_t port)
      : PassingPort(std::move(inner)), share_(share), dice_(seed, port) {}
  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override {
    return dice_.chance(share_) ? Post::retry : inner().try_send(to, to_port, header, payload);
  }
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       PacketPart part) noexcept override {
    return dice_.chance(share_) ? Post::retry : inner().try_send_packet(to, to_port, header, part);
  }
  Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                     const OpenSend& packets) noexcept override {
    return dice_.chance(share_) ? Post::retry : inner().try_send_open(to, to_port, header, packets);
  }
  Post try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept override {
    return dice_.chance(share_) ? Post::retry : inner().try_control(to, to_port, header);
  }

 private:
  double share_;
  Dice dice_;
};

/// A control frame that waits: it cannot stay in its ring, so its bytes are copied.
struct WaitingControl {
  Rank source;
  std::vector<std::byte> bytes;
  uint32_t polls_left;
};

class DelayingPort final : public PassingPort {
 public:
  DelayingPort(std::unique_ptr<Port> inner, uint32_t most, uint64_t seed, uint32_t port)
      : PassingPort(std::move(inner)), most_(most), dice_(seed, port) {}

  uint32_t poll(Sink& sink, uint32_t budget) override {
    for (auto& [source, lane] : lanes_)
      if (lane.polls_left > 0) --lane.polls_left;
    uint32_t delivered = 0;
    for (WaitingControl& one : control_)
      if (one.polls_left > 0) --one.polls_left;
    while (!control_.empty() && control_.front().polls_left == 0) {
      sink.on_control({control_.front().source, control_.front().bytes, {}, {}});
      control_.pop_front();
      ++delivered;
    }
    Between between(*this, sink);
    const uint32_t taken = inner().poll(between, budget);
    if (between.kept_back || !control_.empty()) inner().ring_self();
    return delivered + taken - between.queued;
  }

 private:
  struct Lane {
    uint32_t polls_left = 0;
    bool drawn = false;  ///< the wait of the frame in front was drawn already
  };
  struct Between final : PassingSink {
    Between(DelayingPort& wrapped, Sink& sink) : PassingSink(sink), port(wrapped) {}
    Taken on_frame(const Frame& frame) override {
      Lane& lane = port.lanes_[frame.source.value];
      if (!lane.drawn) {
        lane.polls_left = port.dice_.up_to(port.most_);
        lane.drawn = true;
      }
      if (lane.polls_left > 0) {
        kept_back = true;
        return Taken::hold;
      }
      const Taken answer = inner().on_frame(frame);
      lane.drawn = answer == Taken::hold;
      return answer;
    }
    void on_control(const Frame& frame) override {
      port.control_.push_back(
          {frame.source, {frame.head.begin(), frame.head.end()}, port.dice_.up_to(port.most_)});
      ++queued;
    }
    void on_peer_down(Rank peer, std::string_view cause) override {
      // What it sent before comes before.
      for (const WaitingControl& one : port.control_)
        inner().on_control({one.source, one.bytes, {}, {}});
      port.control_.clear();
      inner().on_peer_down(peer, cause);
    }
    DelayingPort& port;
    bool kept_back = false;
    uint32_t queued = 0;
  };

  uint32_t most_;
  Dice dice_;
  std::map<int32_t, Lane> lanes_;
  std::deque<WaitingControl> control_;
};

class RestingPort final : public PassingPort {
 public:
  RestingPort(std::unique_ptr<Port> inner, uint32_t most, uint64_t seed, uint32_t port)
      : PassingPort(std::move(inner)), most_(most), dice_(seed, port) {}
  uint32_t poll(Sink& sink, uint32_t budget) override {
    if (rest_ > 0) {
      --rest_;
      inner().ring_self();
      return 0;
    }
    rest_ = dice_.up_to(most_);
    const uint32_t taken = inner().poll(sink, budget);
    if (taken > 0) inner().ring_self();  // more may have come, and the next poll may rest
    return taken;
  }

 private:
  uint32_t most_;
  Dice dice_;
  uint32_t rest_ = 0;
};

}  // namespace

/// Named in the header: StopSwitch knows it.
class StoppedPort final : public PassingPort {
 public:
  StoppedPort(std::unique_ptr<Port> inner, Rank self, std::shared_ptr<StopSwitch> stops)
      : PassingPort(std::move(inner)), self_(self), stops_(std::move(stops)) {
    stops_->join(this);
  }
  ~StoppedPort() override { stops_->leave(this); }

  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override {
    return stops_->is_stopped(self_) ? Post::retry : inner().try_send(to, to_port, header, payload);
  }
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       PacketPart part) noexcept override {
    return stops_->is_stopped(self_) ? Post::retry
                                     : inner().try_send_packet(to, to_port, header, part);
  }
  Post try_send_open(Rank to, uint32_t to_port, std::span<const std::byte> header,
                     const OpenSend& packets) noexcept override {
    return stops_->is_stopped(self_) ? Post::retry
                                     : inner().try_send_open(to, to_port, header, packets);
  }
  Post try_control(Rank to, uint32_t to_port, std::span<const std::byte> header) noexcept override {
    return stops_->is_stopped(self_) ? Post::retry : inner().try_control(to, to_port, header);
  }
  uint32_t poll(Sink& sink, uint32_t budget) override {
    if (stops_->is_stopped(self_)) return 0;
    uint32_t delivered = 0;
    for (auto one = control_.begin(); one != control_.end();) {
      if (stops_->is_stopped(one->source)) {
        ++one;
        continue;
      }
      sink.on_control({one->source, one->bytes, {}, {}});
      one = control_.erase(one);
      ++delivered;
    }
    Between between(*this, sink);
    const uint32_t taken = inner().poll(between, budget);
    return delivered + taken - between.queued;
  }

 private:
  struct Between final : PassingSink {
    Between(StoppedPort& wrapped, Sink& sink) : PassingSink(sink), port(wrapped) {}
    Taken on_frame(const Frame& frame) override {
      return port.stops_->is_stopped(frame.source) ? Taken::hold : inner().on_frame(frame);
    }
    void on_control(const Frame& frame) override {
      const bool behind = std::any_of(port.control_.begin(), port.control_.end(),
                                      [&](const auto& one) { return one.source == frame.source; });
      if (!behind && !port.stops_->is_stopped(frame.source)) return inner().on_control(frame);
      port.control_.push_back({frame.source, {frame.head.begin(), frame.head.end()}, 0});
      ++queued;
    }
    StoppedPort& port;
    uint32_t queued = 0;
  };

  Rank self_;
  std::shared_ptr<StopSwitch> stops_;
  std::deque<WaitingControl> control_;
};

void StopSwitch::stop(Rank rank) {
  const std::scoped_lock hold(lock_);
  stopped_.insert(rank.value);
}

void StopSwitch::resume(Rank rank) {
  const std::scoped_lock hold(lock_);
  stopped_.erase(rank.value);
  for (Port* const port : ports_) port->ring_self();
}

bool StopSwitch::is_stopped(Rank rank) const {
  const std::scoped_lock hold(lock_);
  return stopped_.contains(rank.value);
}

void StopSwitch::join(Port* port) {
  const std::scoped_lock hold(lock_);
  ports_.insert(port);
}

void StopSwitch::leave(Port* port) {
  const std::scoped_lock hold(lock_);
  ports_.erase(port);
}

std::unique_ptr<Transport> refuse(std::unique_ptr<Transport> inner, double share, uint64_t seed) {
  return wrap_ports(std::move(inner), [=](std::unique_ptr<Port> port, uint32_t number) {
    return std::make_unique<RefusingPort>(std::move(port), share, seed, number);
  });
}

std::unique_ptr<Transport> delay(std::unique_ptr<Transport> inner, uint32_t most_polls,
                                 uint64_t seed) {
  return wrap_ports(std::move(inner), [=](std::unique_ptr<Port> port, uint32_t number) {
    return std::make_unique<DelayingPort>(std::move(port), most_polls, seed, number);
  });
}

std::unique_ptr<Transport> reorder_ports(std::unique_ptr<Transport> inner, uint32_t most_polls,
                                         uint64_t seed) {
  return wrap_ports(std::move(inner), [=](std::unique_ptr<Port> port, uint32_t number) {
    return std::make_unique<RestingPort>(std::move(port), most_polls, seed, number);
  });
}

std::unique_ptr<Transport> stoppable(std::unique_ptr<Transport> inner, Rank self,
                                     std::shared_ptr<StopSwitch> stops) {
  return wrap_ports(std::move(inner), [=](std::unique_ptr<Port> port, uint32_t) {
    return std::make_unique<StoppedPort>(std::move(port), self, stops);
  });
}

}  // namespace weft::fabric
