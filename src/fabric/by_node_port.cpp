#include "fabric/by_node_port.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "weft/base/clock.hpp"
#include "weft/base/error.hpp"
#include "weft/base/log.hpp"

namespace weft::fabric {

namespace {

// Looks at far in vain before it rests, and the share of the time since far last yielded or was
// spoken to that a rest may take at most: where an answer is likely, whose way is long, and else.
constexpr uint32_t kEagerLooks = 64;
constexpr uint32_t kLooks = 4;
constexpr uint32_t kEagerShare = 8;
constexpr uint32_t kShare = 2;
constexpr uint32_t kMostRest = 128;  ///< polls between two looks
constexpr double kMostRestNs = 2e5;  ///< and time, where polls are turns on a shared core
constexpr uint32_t kBusyPoll = 8;    ///< a poll that yielded, as rests count: what take_short took
                                     ///< since the one before counts as well

}  // namespace

/// Between far and the sink: notes what was held, and lets nothing pass that only near can bring.
class ByNodePort::FarSink final : public Sink {
 public:
  FarSink(ByNodePort& port, Sink& sink) : port_(port), sink_(sink) {}

  Taken on_frame(const Frame& frame) override {
    if (is_stray(frame.source)) {
      if (frame.loan) port_.far_->give_back(frame.loan);
      return Taken::yes;
    }
    return noted(sink_.on_frame(frame));
  }
  Taken on_short(Rank source, ShortHeader header, std::span<const std::byte> payload) override {
    if (is_stray(source)) return Taken::yes;
    return noted(sink_.on_short(source, header, payload));
  }
  uint32_t on_run(const ShortRun& run) override {
    if (is_stray(run.source)) return run.count;
    const uint32_t taken = sink_.on_run(run);
    held_ |= taken < run.count;
    return taken;
  }
  void on_control(const Frame& frame) override {
    if (!is_stray(frame.source)) sink_.on_control(frame);
  }
  void on_returned(std::span<const uint32_t> packets) override { sink_.on_returned(packets); }
  void on_read(uint64_t token, bool ok) override { sink_.on_read(token, ok); }
  void on_peer_down(Rank peer, std::string_view cause) override {
    // Of a neighbour near will tell.
    if (!is_stray(peer)) sink_.on_peer_down(peer, cause);
  }
  [[nodiscard]] bool held() const noexcept { return held_; }

 private:
  Taken noted(Taken answer) noexcept {
    held_ |= answer == Taken::hold;
    return answer;
  }
  bool is_stray(Rank source) {
    if (port_.is_near_[source.value] == 0) [[likely]]
      return false;
    port_.last_ = port_.near_.get();  // the short way passes this by: no more of it from far
    if (!std::exchange(port_.stray_told_, true))
      base::log(base::LogLevel::warn,
                fmt::format("rank {} is of this node and speaks over the network, which is not "
                            "listened to: is fabric.transport the same in all ranks?",
                            source.value));
    return true;
  }

  ByNodePort& port_;
  Sink& sink_;
  bool held_ = false;
};

ByNodePort::ByNodePort(const uint8_t* is_near, std::unique_ptr<Port> near,
                       std::unique_ptr<Port> far)
    : is_near_(is_near),
      near_(std::move(near)),
      far_(std::move(far)),
      max_inline_(std::min(near_->max_inline(), far_->max_inline())),
      max_control_(std::min(near_->max_control(), far_->max_control())),
      most_rest_ticks_(base::to_ticks(kMostRestNs)),
      bell_(::epoll_create1(EPOLL_CLOEXEC)),
      last_(near_.get()) {
  for (const int fd : {near_->bell_fd(), far_->bell_fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!bell_ || ::epoll_ctl(bell_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      throw Error(Errc::no_memory,
                  fmt::format("no epoll set for two doorbells: {}", std::strerror(errno)));
  }
}

// ---- polling ----

uint32_t ByNodePort::poll(Sink& sink, uint32_t budget) {
  if (far_first_) [[unlikely]] {
    far_first_ = false;
    const uint32_t taken = poll_far(sink, budget);
    return taken < budget ? taken + poll_near(sink, budget - taken) : taken;
  }
  const uint32_t taken = poll_near(sink, budget);
  rested_ += taken != 0 ? kBusyPoll : 1;
  const bool spoke = spoke_far_.load(std::memory_order_relaxed);  // relaxed: a hint
  // A poll that took something is no turn in vain: its time is not asked for.
  if (rested_ < rest_ && !spoke && (taken != 0 || base::ticks() - looked_ < rest_ticks_)) [[likely]]
    return taken;
  if (taken >= budget) {
    far_first_ = true;
    return taken;
  }
  return taken + poll_far(sink, budget - taken);
}

inline uint32_t ByNodePort::poll_near(Sink& sink, uint32_t budget) {
  const uint32_t taken = near_->poll(sink, budget);
  if (taken != 0) last_ = near_.get();
  return taken;
}

uint32_t ByNodePort::poll_far(Sink& sink, uint32_t budget) {
  const bool spoke = spoke_far_.load(std::memory_order_relaxed);  // relaxed: a hint, here and there
  if (spoke) {
    spoke_far_.store(false, std::memory_order_relaxed);
    is_eager_ = std::exchange(yielded_, false);
  }
  FarSink between(*this, sink);
  const uint32_t taken = far_->poll(between, budget);
  if (taken != 0) count_far(taken);
  looked_ = base::ticks();
  rested_ = 0;
  if (taken != 0 && !stray_told_) last_ = far_.get();
  const bool yielded = taken != 0 || between.held();
  if (yielded) is_eager_ = yielded_ = true;
  if (yielded || spoke) {
    active_ = looked_;
    fruitless_ = rest_ = 0;
  } else if (const uint32_t most = is_eager_ ? kEagerLooks : kLooks;
             !armed_ && ++fruitless_ > most) {
    fruitless_ = most;
    rest_ = std::clamp(2 * rest_, 1U, kMostRest);
    rest_ticks_ =
        std::min((looked_ - active_) / (is_eager_ ? kEagerShare : kShare), most_rest_ticks_);
  }
  return taken;
}

uint32_t ByNodePort::linger(Sink& sink, uint32_t budget) {
  // Who waits for far is kept from looking there.
  if (last_ == far_.get()) return 0;
  const uint32_t taken = near_->linger(sink, budget);
  if (taken != 0) last_ = near_.get();
  return taken;
}

// ---- sleeping ----

void ByNodePort::arm() noexcept {
  armed_ = true;
  fruitless_ = rest_ = 0;  // and they stay so until `disarm`
  near_->arm();
  far_->arm();
}

void ByNodePort::disarm() noexcept {
  armed_ = false;
  near_->disarm();
  far_->disarm();
}

}  // namespace weft::fabric
