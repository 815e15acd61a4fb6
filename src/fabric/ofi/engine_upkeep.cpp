// Packets that go back, sleeping, what the keeper does for peers that fall silent, and the end.
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <utility>

#include "fabric/ofi/engine.hpp"
#include "fabric/ofi/ofi_transport.hpp"
#include "weft/base/clock.hpp"
#include "weft/base/copy.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr uint32_t kMostPatience = 4;  ///< 2^4 looks between two questions
constexpr uint64_t kLeavingQuestionNs =
    5'000'000;                                ///< twice that between the first two, at the end
constexpr uint32_t kMostLeavingPatience = 6;  ///< 2^6 of it
constexpr uint32_t kLooksAtHeld = 5;          ///< before what the provider holds is copied
constexpr uint64_t kDrainNs = 20'000'000;     ///< what a peer sent before its end has come by then
constexpr uint64_t kMostDrainNs = 1'000'000'000;  ///< even if others keep us from looking at it all

using Hold = std::scoped_lock<base::SpinLock>;

}  // namespace

// ---- packets that go back ----

bool Engine::give_back(Peer& owner, uint32_t port, uint32_t index) noexcept {
  const Hold hold(lock_);
  // relaxed: under the lock. Its packets are nobody's any more.
  const bool down = owner.down.load(std::memory_order_relaxed);
  Channel* const to = down ? nullptr : channel(owner, port);
  if (to == nullptr && !down) return false;
  WEFT_CHECK(owner.set_lent(index, false), "a loan that a frame delivered");
  if (to == nullptr) return true;
  if (to->returns.empty()) to->returns_since = base::ticks();
  to->returns.push_back(index);
  enqueue(*to);
  if (to->returns.size() >= returns_at_once(*to) && !to->outbox.has_unsent()) serve(*to);
  return true;
}

void Engine::push_returned(uint32_t index) noexcept {
  const Hold hold(lock_);
  push_returned_locked(index);
}

void Engine::push_returned_locked(uint32_t index) noexcept {
  transport_.book().unlend(index);
  returned_.push_back(index);                            // reserved in full
  has_returned_.store(true, std::memory_order_relaxed);  // as in has_returned
  ring_if_armed();
}

void Engine::take_returned(std::vector<uint32_t>& into) noexcept {
  const Hold hold(lock_);
  into.insert(into.end(), returned_.begin(), returned_.end());
  returned_.clear();
  has_returned_.store(false, std::memory_order_relaxed);  // as above
}

// ---- a peer's end ----

bool Engine::is_drained(uint64_t since_ns) noexcept {
  const Hold hold(lock_);
  if (empty_ns_ < since_ns + kDrainNs) receive();
  return empty_ns_ >= since_ns + kDrainNs || base::now_ns() >= since_ns + kMostDrainNs;
}

void Engine::close(const Peer& peer) noexcept {
  const Hold hold(lock_);
  closed_[static_cast<std::size_t>(peer.rank().value)] = true;
}

void Engine::sweep(const Peer& peer, std::vector<uint32_t>& into) noexcept {
  const Hold hold(lock_);
  for (Channel* const one : all_) {
    if (&one->peer != &peer) continue;
    one->early.clear();
    one->early_bytes = 0;
    drop_outbox(*one);
  }
  LoanBook& book = transport_.book();
  for (uint32_t index = 0; index < book.packets(); ++index) {
    if (!book.is_lent(index, peer.rank().value, static_cast<uint16_t>(number_))) continue;
    book.unlend(index);
    into.push_back(index);
  }
}

// ---- sleeping ----

void Engine::arm() noexcept {
  const Hold hold(lock_);
  armed_ = true;
  rang_ = false;
  for (std::size_t i = 0; i < busy_.size(); ++i)
    if (may_wait(*busy_[i])) (void)serve(*busy_[i]);
  if (sends_left_ == 0 && !busy_.empty()) ring();  // a step is due
  if (endpoint_.wait_fd() < 0) return;             // the keeper rings
  epoll_event event{};
  event.events = EPOLLIN;
  const bool joined =
      ::epoll_ctl(bell_.get(), EPOLL_CTL_ADD, endpoint_.wait_fd(), &event) == 0 || errno == EEXIST;
  if (!joined || !endpoint_.may_sleep()) ring();
}

void Engine::disarm() noexcept {
  const Hold hold(lock_);
  armed_ = false;
  if (endpoint_.wait_fd() >= 0)
    ::epoll_ctl(bell_.get(), EPOLL_CTL_DEL, endpoint_.wait_fd(), nullptr);
  uint64_t rings;
  while (::read(self_bell_.get(), &rings, sizeof rings) < 0 && errno == EINTR) {
  }
}

void Engine::ring() const noexcept {
  const uint64_t one = 1;
  while (::write(self_bell_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Engine::ring_if_armed() noexcept {
  if (armed_ && !std::exchange(rang_, true)) ring();
}

// ---- the keeper's part ----

bool Engine::keep() noexcept {
  if (expects_end_.load(std::memory_order_relaxed)) ring();       // relaxed: looked at again
  const uint64_t polls = polls_.load(std::memory_order_relaxed);  // relaxed: a hint
  if (std::exchange(keeper_saw_, polls) != polls)                 // somebody polls, and may stop to
    return offers_something_.load(std::memory_order_relaxed);     // relaxed: a hint
  const std::unique_lock hold(lock_, std::try_to_lock);
  if (!hold) return false;
  const bool idle = busy_.empty() && !receives_->has_waiting() && !has_strangers();
  const bool looks = look_is_due_.load(std::memory_order_relaxed);  // relaxed: under the lock
  if (idle && !looks && armed_ && endpoint_.wait_fd() >= 0)
    return false;                             // its sleeper will be woken
  return step(false) | (offers_ != nullptr);  // what is read of ours shows nowhere
}

void Engine::ask(Channel& one) noexcept {
  if ((one.report_due & kAsks) == 0) ++one.unanswered;  // one that was not sent yet is the same
  one.report_due |= kAsks;
  one.looks = 0;
  enqueue(one);
}

/// Whoever has the lock next does it: waiting for a lock that a polling thread takes again as soon
/// as it has given it back would take a core for long.
void Engine::look_after() noexcept {
  look_is_due_.store(true, std::memory_order_relaxed);  // relaxed: looked at again and again
}

void Engine::look_after_locked() noexcept {
  look_is_due_.store(false, std::memory_order_relaxed);  // as above
  for (std::size_t i = 0; i < watched_.size();) {
    Channel& one = *watched_[i];
    // relaxed: under the lock.
    if (one.peer.down.load(std::memory_order_relaxed) || (one.outbox.is_empty() && !one.starved)) {
      one.watched = false;
      watched_[i] = watched_.back();
      watched_.pop_back();
      continue;
    }
    const uint64_t now = one.outbox.acknowledged();
    if (std::exchange(one.acknowledged_then, now) != now || one.outbox.is_empty()) {
      one.looks = one.held = one.replacements = 0;
      one.moved_ns = transport_.awake_ns();
    }
    check_way(one);
    if (one.outbox.is_held()) [[unlikely]]
      look_at_held(one);
    // Each unanswered question makes us wait twice as long for the next.
    if (one.looks++ >= 1u << std::min(one.unanswered, kMostPatience)) ask(one);
    ++i;
  }
  for (Channel* const one : all_) check_pulse(*one);
  if (endpoint_.reads() == Reads::by_messages) ask_about_reads();
}

/// A peer that is heard, but for so long got nothing of what is sent to it, whatever the provider
/// says: nothing can be sent to it any more.
void Engine::check_way(Channel& one) noexcept {
  const uint64_t patience = transport_.silence_ns();
  const uint64_t now = transport_.awake_ns();
  // It waits for its turn: others have all that may be in the provider's hands.
  if (one.under_way == 0 && one.waits_turn && one.outbox.has_unsent()) [[unlikely]]
    one.moved_ns = now;
  if (patience != 0 && now - std::min(now, one.moved_ns) > patience &&
      now - std::min(now, one.peer.heard_ns()) < patience / 2)
    transport_.mark_down(one.peer, fmt::format("got nothing of what was sent to it for {} s",
                                               patience / 1'000'000'000));
}

/// The peer answers that it misses a frame, which the provider has still in its hands: a connection
/// of which only one end knows that it is gone may keep it for ever (libfabric 1.17's ofi_rxm). A
/// copy goes instead; of two that arrive, the peer drops one.
void Engine::look_at_held(Channel& one) noexcept {
  if (++one.held < kLooksAtHeld << std::min(one.replacements, kMostPatience)) return;
  one.held = 0;
  ++one.replacements;
  one.outbox.replace_held([&](OutFrame& held) {
    OutFrame* const copy = pool_.take();
    if (copy == nullptr) return copy;
    copy->channel = &one;
    copy->packet = held.packet;
    copy->length = held.length;
    copy->under_way = copy->kept = copy->is_batch = copy->abandoned = copy->is_answer = false;
    copy->stands_in = true;
    base::copy_bytes(copy->bytes(), held.bytes(), held.length);
    held.abandoned = true;
    --one.under_way;
    --under_way_;
    return copy;
  });
  enqueue(one);
}

/// Asks a peer that was not heard for long, and gives it up when it was not for too long.
void Engine::check_pulse(Channel& one) noexcept {
  Peer& peer = one.peer;
  const uint64_t patience = transport_.silence_ns();
  // relaxed: as above.
  if (patience == 0 || peer.down.load(std::memory_order_relaxed) ||
      peer.rank() == transport_.self())
    return;
  const uint64_t now = transport_.awake_ns();
  const uint64_t silent = now - std::min(now, peer.heard_ns());
  if (silent > patience)
    transport_.mark_down(peer, fmt::format("was silent for {} s", patience / 1'000'000'000));
  else if (silent > patience / 4 && peer.is_time_to_ask(now, patience / 8))
    ask(one);
}

// ---- the end ----

/// The answer to an earlier question than the last counts for nothing: the way there and back may
/// be longer than what we wait at first.
bool Engine::is_time_to_ask_again(const Channel& one, uint64_t now) noexcept {
  return one.unanswered == 0 ||
         now - one.asked_ns >= kLeavingQuestionNs << std::min(one.unanswered, kMostLeavingPatience);
}

void Engine::begin_to_leave() noexcept {
  const Hold hold(lock_);
  for (Channel* const one : all_) one->unanswered = 0;
}

bool Engine::settle(bool asks) noexcept {
  const Hold hold(lock_);
  const uint64_t now = asks ? base::now_ns() : 0;
  bool settled = true;
  for (Channel* const one : all_) {
    if (is_settled_with(*one)) continue;
    settled = false;
    if (asks && is_time_to_ask_again(*one, now)) ask(*one);
  }
  step(false);
  return settled;
}

bool Engine::is_settled(const Peer& peer) noexcept {
  const Hold hold(lock_);
  return std::all_of(all_.begin(), all_.end(), [&](const Channel* one) {
    return &one->peer != &peer || is_settled_with(*one);
  });
}

/// All has arrived there, and nothing is owed.
bool Engine::is_settled_with(const Channel& one) const noexcept {
  // relaxed: under the lock.
  return one.peer.down.load(std::memory_order_relaxed) ||
         (one.outbox.is_empty() && one.returns.empty());
}

bool Engine::speaks_to(const Peer& peer) noexcept {
  const Hold hold(lock_);
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Channel* one) { return &one->peer == &peer; });
}

void Engine::leave(Peer& peer) noexcept {
  const Hold hold(lock_);
  if (peer.down.load(std::memory_order_relaxed)) return;  // relaxed: under the lock
  const auto open = std::find_if(all_.begin(), all_.end(),
                                 [&](const Channel* one) { return &one->peer == &peer; });
  Channel* const to = open != all_.end() ? *open : channel(peer, 0);
  if (to != nullptr) post(*to, WireKind::leave, {}, {});
}

bool Engine::is_quiet() noexcept {
  const Hold hold(lock_);
  step(false);
  return std::all_of(all_.begin(), all_.end(), [](const Channel* one) {
    // relaxed: under the lock, and asked again.
    const bool dead = one->peer.down.load(std::memory_order_relaxed) &&
                      !one->peer.departed.load(std::memory_order_relaxed);
    return dead || (one->under_way == 0 && one->report_due == 0);
  });
}

}  // namespace weft::fabric::ofi
