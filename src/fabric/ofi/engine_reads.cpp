// Memory that peers may read, reads of theirs, and what a peer's end means for them.
#include <rdma/fi_errno.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <utility>

#include "fabric/ofi/connections.hpp"
#include "fabric/ofi/engine.hpp"
#include "fabric/ofi/ofi_transport.hpp"
#include "weft/base/clock.hpp"

namespace weft::fabric::ofi {

namespace {

constexpr int kStepsAfterWithdrawal = 4;  ///< one tells the provider; another, what that led to
constexpr uint64_t kReadPatienceNs = 1'000'000'000;  ///< in which the provider may take none
constexpr uint64_t kReadQuestionNs = 400'000'000;    ///< after which one asks what became of it
/// Of every read by messages, which so has none of a frame's (SizeClasses); the highest bits are
/// some providers' own.
constexpr uint64_t kReadTag = uint64_t{1} << 56;

using Hold = std::scoped_lock<base::SpinLock>;

}  // namespace

// ---- offered ----

/// libfabric's providers do not all lock what they know of memory against their own progress: that
/// is made and taken back under the engine's lock, as everything else.
ReadOffer Engine::offer(const Peer& peer, std::span<const std::byte> memory) noexcept {
  if (endpoint_.reads() == Reads::never) return {};
  const bool by_messages = endpoint_.reads() == Reads::by_messages;
  std::unique_ptr<Offer> made(new (std::nothrow)
                                  Offer{.peer = peer, .memory = memory, .exposed = {}});
  if (made == nullptr) return {};
  if (by_messages) {
    ::randombytes_buf(&made->key, sizeof made->key);
    made->key >>= 1;  // so it is not kNone
  }
  {
    const Hold hold(lock_);
    if (!by_messages || endpoint_.registers()) {
      made->exposed = endpoint_.expose(memory);
      if (made->exposed == nullptr) return {};
    }
    if (!by_messages) made->key = ::fi_mr_key(made->exposed.get());
    if (made->key == ReadOffer::kNone) return made->exposed.reset(), ReadOffer{};
    made->next = std::exchange(offers_, made.get());
    if (made->next != nullptr) made->next->before = made.get();
    offers_something_.store(true, std::memory_order_relaxed);  // relaxed: whether to look
  }
  transport_.note_gathering();  // should nobody poll, readers depend on the keeper
  const uint64_t key = made->key;
  return {made.release(), by_messages ? 0 : endpoint_.exposed_address(memory), key};
}

void Engine::withdraw_offer(void* handle, bool cuts) noexcept {
  const std::unique_ptr<Offer> gone(static_cast<Offer*>(handle));
  {
    const Hold hold(lock_);
    if (gone->next != nullptr) gone->next->before = gone->before;
    (gone->before != nullptr ? gone->before->next : offers_) = gone->next;
    offers_something_.store(offers_ != nullptr, std::memory_order_relaxed);  // relaxed: as above
    for (std::size_t i = 0; gone->answers != 0 && i < all_.size(); ++i)
      if (&all_[i]->peer == &gone->peer) drop_answers(*all_[i], gone.get(), true);
    // What the reader has, the provider tells, if it has not yet.
    for (int i = 0; gone->answers != 0 && i < kStepsAfterWithdrawal; ++i) step();
    // By messages what was sent is whole: the kernel has copied it.
    cuts = gone->answers != 0 || (cuts && endpoint_.reads() == Reads::by_provider);
  }
  if (cuts) cut(gone->peer);
  const Hold hold(lock_);
  // What the provider had begun to send of it, it finds out now that it cannot.
  for (int i = 0; cuts && i < kStepsAfterWithdrawal; ++i) step();
  for (std::size_t i = 0; gone->answers != 0 && i < all_.size(); ++i)
    for (OutFrame* one = all_[i]->answers; one != nullptr; one = one->next)
      if (Answer& answer = answer_of(*one); answer.of == gone.get()) {
        answer.of = nullptr;
        --gone->answers;
      }
  gone->exposed.reset();
}

void Engine::end_offers() noexcept {
  while (offers_ != nullptr) delete std::exchange(offers_, offers_->next);
}

/// Shuts what connects this port with any of the peer's: over TCP; what other providers connect
/// they keep.
void Engine::cut(const Peer& peer) const noexcept {
  if (!transport_.is_over_tcp()) return;
  for (uint32_t port = 0; peer.known() && port < peer.ports(); ++port)
    shut_connections(endpoint_.address(), peer.address(port));
}

// ---- offered, by messages ----

/// A peer asks for a piece, or whether what it asked for is on its way.
Engine::Admitted Engine::admit_read(Channel& from, const Decoded& frame) noexcept {
  static_assert(sizeof(Answer) <= sizeof(WireHeader) + sizeof(ReadBody));  // room in every frame
  const bool by_messages = endpoint_.reads() == Reads::by_messages;        // else ranks disagree
  ReadBody asked;
  std::memcpy(&asked, frame.body.data(), sizeof asked);
  uint32_t count = 0;
  OutFrame** end = &from.answers;
  for (; *end != nullptr; end = &(*end)->next, ++count)
    if (answer_of(**end).tag == asked.tag) return Admitted::yes;
  const Offer* of = by_messages ? offers_ : nullptr;
  while (of != nullptr && (of->key != asked.key || &of->peer != &from.peer)) of = of->next;
  if (asked.bytes == 0 || of == nullptr || asked.offset > of->memory.size() ||
      asked.bytes > of->memory.size() - asked.offset) {
    // What was said before has been heard soon, as a rule; if not, the peer asks again later.
    if (from.outbox.acknowledged() > from.unread_first) from.unread_count = 0;
    if (from.unread_count == 0) from.unread_first = from.outbox.number_of_next();
    if (from.unread_count == kMostAnswers) return Admitted::not_now;
    if (!say_unread(from, asked.tag)) return Admitted::not_now;
    ++from.unread_count;
    return Admitted::yes;
  }
  if (count == kMostAnswers) return Admitted::nonsense;
  OutFrame* const answer = pool_.take();
  if (answer == nullptr) return Admitted::not_now;
  answer->channel = &from;
  answer->next = nullptr;
  answer->packet = {};
  answer->length = 0;
  answer->under_way = answer->kept = answer->is_batch = answer->abandoned = false;
  answer->stands_in = false;
  answer->is_answer = true;
  auto* const owner = const_cast<Offer*>(of);
  ::new (answer->bytes()) Answer{owner, of->memory.subspan(asked.offset, asked.bytes), asked.tag};
  ++owner->answers;
  *end = answer;
  ++from.unanswered_reads;
  enqueue(from);
  return Admitted::yes;
}

bool Engine::say_unread(Channel& to, uint64_t tag) noexcept {
  return post(to, WireKind::unread, bytes_of(tag), {});
}

/// Gives the provider what peers asked for. True: something.
bool Engine::send_answers(Channel& to) noexcept {
  bool moved = false;
  for (OutFrame* one = to.answers; one != nullptr && to.resume_ns == 0; one = one->next) {
    if (one->under_way) continue;
    if (!may_hand_over()) break;
    const Answer& answer = answer_of(*one);
    // Of a withdrawn offer none is left that the provider does not have.
    void* const descriptor = answer.of->exposed ? ::fi_mr_desc(answer.of->exposed.get()) : nullptr;
    const ssize_t taken =
        endpoint_.send_tagged(answer.piece, descriptor, to.address, answer.tag, one->context);
    if (taken != 0) {
      if (taken != -FI_EAGAIN) note_trouble(to, static_cast<int>(-taken));
      if (!may_wait(to.no_answers_ns)) drop_answers(to, nullptr, true);
      break;
    }
    to.no_answers_ns = 0;
    one->under_way = true;
    --to.unanswered_reads;
    ++to.under_way;
    ++under_way_;
    --sends_left_;
    moved = true;
  }
  if (to.unanswered_reads != 0) enqueue(to);
  return moved;
}

/// The provider has let go of it. What it did not send for sure is not sent again: the reader may
/// have half of it, and has been told, or is now, that it ends so.
void Engine::end_answer(OutFrame& frame, int error) noexcept {
  Channel& to = *frame.channel;
  const Answer answer = answer_of(frame);
  unlist(frame);
  free(frame);
  if (error == 0) return to.note_moved();
  // Memory was not there. libfabric 1.17's "net" goes on behind what it has sent of the message.
  if (error == FI_EFAULT) cut(to.peer);
  to.outbox.rewind();  // as in note_sent
  enqueue(to);
  note_trouble(to, error);
  // relaxed: under the lock. Without memory for it the reader asks.
  if (!to.peer.down.load(std::memory_order_relaxed)) (void)say_unread(to, answer.tag);
}

void Engine::unlist(OutFrame& answer) noexcept {
  OutFrame** at = &answer.channel->answers;
  while (*at != &answer) at = &(*at)->next;
  *at = answer.next;
  if (Offer* const of = answer_of(answer).of; of != nullptr) --of->answers;
}

void Engine::drop_answers(Channel& to, const Offer* of, bool tells) noexcept {
  for (OutFrame *one = to.answers, *next = nullptr; one != nullptr; one = next) {
    next = one->next;
    if (one->under_way || (of != nullptr && answer_of(*one).of != of)) continue;
    const uint64_t tag = answer_of(*one).tag;
    unlist(*one);
    free(*one);
    --to.unanswered_reads;
    if (tells) (void)say_unread(to, tag);  // without memory for it, the reader asks
  }
  if (to.unanswered_reads == 0) to.no_answers_ns = 0;
}

// ---- read ----

Post Engine::begin_read(Peer& peer, uint32_t port, uint64_t address, uint64_t key,
                        std::span<std::byte> into, uint64_t token) noexcept {
  if (endpoint_.reads() == Reads::never) return Post::done;
  const Hold hold(lock_);
  if (free_reads_.empty()) return Post::retry;
  Read& one = *free_reads_.front();
  one.from = nullptr;
  ssize_t answer = -FI_ENOTCONN;
  // relaxed: under the lock. Of the dead nothing is read any more.
  if (!peer.down.load(std::memory_order_relaxed)) [[likely]] {
    one.from = channel(peer, port % peer.ports());
    if (one.from == nullptr) return Post::retry;
    answer = read_remote(one, into, address, key);
    if (answer != -FI_EAGAIN) {
      one.from->no_reads_ns = 0;
    } else if (may_wait(one.from->no_reads_ns)) {
      one.into.reset();
      suspect(*one.from);
      return Post::retry;
    }
    if (answer == 0 && endpoint_.reads() == Reads::by_provider) one.from->note_moved();
    ++one.from->reads;
  }
  free_reads_.erase(free_reads_.begin());
  one.token = token;
  one.under_way = true;
  if (answer != 0) end_read(one, false);
  return Post::posted;
}

/// For a provider that takes nothing, since the time that is noted here. Not for ever: what is not
/// read comes in packets.
bool Engine::may_wait(uint64_t& since_ns) const noexcept {
  const uint64_t now = transport_.awake_ns();
  if (since_ns == 0) since_ns = std::max<uint64_t>(now, 1);
  return now - std::min(now, since_ns) <= kReadPatienceNs;
}

/// Where the provider must be told of the buffer, it is, for as long as the read lasts: those to
/// which that is dear keep what they were told, and watch for memory that goes away.
ssize_t Engine::read_remote(Read& one, std::span<std::byte> into, uint64_t address,
                            uint64_t key) noexcept {
  void* descriptor = nullptr;
  if (endpoint_.registers()) {
    one.into = endpoint_.enter_for_read(into);
    if (!one.into) return -FI_ENOMEM;  // it comes in packets
    descriptor = ::fi_mr_desc(one.into.get());
  }
  if (endpoint_.reads() == Reads::by_messages) return ask_for(one, into, descriptor, address, key);
  return endpoint_.read_remote(into, descriptor, one.from->address, address, key, one.context);
}

/// By messages: the buffer is a receive's, of one tag, and what is to come there is asked for.
ssize_t Engine::ask_for(Read& one, std::span<std::byte> into, void* descriptor, uint64_t offset,
                        uint64_t key) noexcept {
  one.tag = kReadTag | next_tag_ % kReadTag;
  const ssize_t answer = endpoint_.receive(into, descriptor, one.tag, one.context);
  if (answer != 0) return answer;
  ++next_tag_;
  one.bytes = into.size();
  one.asked_ns = base::now_ns();
  one.asked = one.request = one.from->outbox.number_of_next();
  const ReadBody asked{key, offset, into.size(), one.tag};
  if (post(*one.from, WireKind::read, bytes_of(asked), {}))
    pump(*one.from);  // the next step may take in a MiB first
  else
    (void)endpoint_.cancel(one.context);  // no memory to ask, so nothing comes
  return 0;
}

/// What was sent over a connection that broke may be lost, and its sender not know. One question at
/// a time: a frame that did not arrive is sent again anyway.
void Engine::ask_about_reads() noexcept {
  const uint64_t now = base::now_ns();
  for (Read& one : reads_) {
    // relaxed: under the lock.
    if (!one.under_way || one.from->peer.down.load(std::memory_order_relaxed) ||
        now - one.asked_ns < kReadQuestionNs || one.from->outbox.acknowledged() <= one.asked)
      continue;
    const uint64_t number = one.from->outbox.number_of_next();
    const ReadBody asked{ReadOffer::kNone, 0, 0, one.tag};
    if (!post(*one.from, WireKind::read, bytes_of(asked), {})) continue;  // no memory: later
    one.asked = number;
    one.asked_ns = now;
  }
}

/// What was on its way to us came before this, if it did, or is coming: the provider keeps a
/// receive that it fills. Everything else of it is lost.
void Engine::admit_unread(Channel& from, const Decoded& frame) noexcept {
  uint64_t tag;
  std::memcpy(&tag, frame.body.data(), sizeof tag);
  for (Read& one : reads_)
    if (one.under_way && one.from == &from && one.tag == tag) (void)endpoint_.cancel(one.context);
}

Engine::Read* Engine::read_of(const void* context) noexcept {
  if (std::less<>()(context, static_cast<const void*>(reads_.data())) ||
      !std::less<>()(context, static_cast<const void*>(reads_.data() + reads_.size())))
    return nullptr;
  return &reads_[static_cast<std::size_t>(static_cast<const Read*>(context) - reads_.data())];
}

/// It is over: the polling thread tells. Version 1.17 may say so twice of one that failed.
void Engine::end_read(Read& one, bool ok) noexcept {
  if (!std::exchange(one.under_way, false)) return;
  one.into.reset();
  if (one.from != nullptr) --one.from->reads;
  // Who sends what was asked for has got that frame, and those before it.
  if (ok && endpoint_.reads() == Reads::by_messages)
    one.from->outbox.acknowledge(static_cast<uint32_t>(one.request + 1),
                                 [this](OutFrame& frame) { free(frame); });
  one.ok = ok;
  ended_reads_.push_back(&one);                       // room for all
  has_reads_.store(true, std::memory_order_relaxed);  // as has_returned
  ring_if_armed();
}

void Engine::take_reads(std::vector<EndedRead>& into) noexcept {
  const Hold hold(lock_);
  for (Read* const one : ended_reads_) {
    into.push_back({one->token, one->ok});  // room for all
    free_reads_.push_back(one);
  }
  ended_reads_.clear();
  has_reads_.store(false, std::memory_order_relaxed);  // as above
}

void Engine::end_reads_of_the_dead() noexcept {
  for (std::size_t at = 0;; ++at) {
    const Peer* dead = nullptr;
    {
      const std::unique_lock hold(lock_, std::try_to_lock);
      if (!hold) return;  // the next look is soon
      // relaxed: under the lock, and looked at again.
      while (at < all_.size() &&
             (all_[at]->reads == 0 || !all_[at]->peer.down.load(std::memory_order_relaxed)))
        ++at;
      if (at == all_.size()) return;
      dead = &all_[at]->peer;
      // By messages: what is not being filled ends thus. Not before the next look, when nothing of
      // that connection is left that would look for its receive.
      const bool cancels = std::exchange(all_[at]->is_cut, true);
      for (Read& one : reads_)
        if (cancels && one.under_way && one.from == all_[at] &&
            endpoint_.reads() == Reads::by_messages)
          (void)endpoint_.cancel(one.context);
    }
    cut(*dead);
  }
}

}  // namespace weft::fabric::ofi
