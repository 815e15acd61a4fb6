// Completions of every kind at both ends, whatever the arrival and whichever way the bytes take.
//
// Each case runs for every pair of kinds, equal ones as well, each end with objects of its own. An
// operation that was posted is told once, with its context; one that was answered `done` is never.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/ranks.hpp"

namespace weft {
namespace {

using test::bytes_of;
using test::on_ranks;
using test::pattern;
using test::writable;

constexpr std::size_t kKinds = 5;
constexpr const char* kNames[kKinds] = {"queue", "synchronizer", "counter", "flag", "handler"};

/// A completion of one kind, and what it has told since it was made.
class Told {
 public:
  explicit Told(std::size_t kind)
      : kind_(kind),
        handler_(
            [](void* self, const Event& event) {
              auto& mine = *static_cast<Told*>(self);
              mine.handled_event_ = event;
              mine.handled_.fetch_add(1, std::memory_order_release);
            },
            this) {}
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;

  Completion& completion() {
    Completion* const all[kKinds] = {&queue_, &synchronizer_, &counter_, &flag_, &handler_};
    return *all[kind_];
  }
  /// How often; synchronizers and flags know but once.
  uint64_t times() {
    switch (kind_) {
      case 0:
        for (Event next; queue_.pop(next); ++popped_) event_ = next;
        return popped_;
      case 1:
        return synchronizer_.ready() ? 1 : 0;
      case 2:
        return counter_.value();
      case 3:
        return flag_.is_set() ? 1 : 0;
      default:
        return handled_.load(std::memory_order_acquire);
    }
  }
  /// Once told. A counter keeps no event, only whether it was an error.
  const Event* event() {
    switch (kind_) {
      case 0:
        return &event_;
      case 1:
        return &synchronizer_.event();
      case 2:
        EXPECT_EQ(counter_.errors(), 0U);
        return nullptr;
      case 3:
        return &flag_.event();
      default:
        return &handled_event_;
    }
  }

 private:
  const std::size_t kind_;
  CompletionQueue queue_{4};
  Synchronizer synchronizer_;
  Counter counter_;
  Flag flag_;
  HandlerCompletion handler_;
  Event event_;
  uint64_t popped_ = 0;
  Event handled_event_;
  std::atomic<uint64_t> handled_{0};
};

/// What one operation must have told when everything is over.
struct Expected {
  Rank peer;
  Tag tag;
  std::size_t bytes;
  void* context;
};

void expect_told(Told& told, Post answer, const Expected& expected) {
  ASSERT_NE(answer, Post::retry);
  ASSERT_EQ(told.times(), answer == Post::posted ? 1U : 0U);
  if (answer != Post::posted) return;
  const Event* const event = told.event();
  if (event == nullptr) return;
  EXPECT_EQ(event->error, Errc::ok);
  EXPECT_EQ(event->peer, expected.peer);
  EXPECT_EQ(event->tag, expected.tag);
  EXPECT_EQ(event->bytes, expected.bytes);
  EXPECT_EQ(event->context, expected.context);
}

/// Inside the ring, in a packet, by rendezvous.
constexpr std::size_t kSizesOfKinds[] = {0, 24, 5000, 30'000, 100'000};

/// Runs `each(source kind, target kind, size)` for all, and says where something failed.
template <class Each>
void for_all(Each each) {
  for (std::size_t at_source = 0; at_source < kKinds; ++at_source) {
    for (std::size_t at_target = 0; at_target < kKinds; ++at_target) {
      for (const std::size_t size : kSizesOfKinds) {
        SCOPED_TRACE(std::string(kNames[at_source]) + " at the source, " + kNames[at_target] +
                     " at the target, " + std::to_string(size) + " bytes");
        each(at_source, at_target, size);
      }
    }
  }
}

bool over(Told& told, Post answer) { return answer != Post::posted || told.times() != 0; }

class CompletionKinds : public testing::TestWithParam<Progress> {
 protected:
  [[nodiscard]] RuntimeOptions options() const { return {.progress = GetParam()}; }
};
INSTANTIATE_TEST_SUITE_P(Modes, CompletionKinds,
                         testing::Values(Progress::waiters, Progress::server),
                         [](const auto& mode) {
                           return std::string(mode.param == Progress::server ? "server"
                                                                             : "waiters");
                         });

TEST_P(CompletionKinds, OfMatchedMessages) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {});
        const Rank other{1 - rt.rank().value};
        for_all([&](std::size_t at_source, std::size_t at_target, std::size_t size) {
          const auto out = pattern(size, 4);
          for (const bool posted_first : {true, false}) {
            Told sent(at_source);
            Told received(at_target);
            std::vector<std::byte> in(size);
            Event now;
            Post s{};
            Post r{};
            const auto send = [&] {
              s = until_posted(
                  rt, [&] { return ep.send(other, Tag{1}, out, &sent.completion(), &sent); });
            };
            const auto receive = [&] {
              r = until_posted(rt, [&] {
                return ep.recv(other, Tag{1}, in, &received.completion(), &received, &now);
              });
            };
            if (posted_first) receive();
            rt.barrier();
            send();
            if (!posted_first) {
              rt.barrier();  // it is there, or announced
              receive();
            }
            rt.wait_until([&] { return over(sent, s) && over(received, r); });
            rt.barrier();
            EXPECT_TRUE(in == out);
            EXPECT_EQ(s, size <= rt.eager_bytes(other) ? Post::done : Post::posted);
            if (posted_first) {
              EXPECT_EQ(r, Post::posted);
            }
            expect_told(sent, s, {other, Tag{1}, size, &sent});
            expect_told(received, r, {other, Tag{1}, size, &received});
            if (r == Post::done) {
              EXPECT_EQ(now.bytes, size);
            }
          }
        });
      },
      options());
}

/// The target's end of a queue is what dequeue gives, of a handler its call: both for every kind at
/// the source.
TEST_P(CompletionKinds, OfQueuedMessages) {
  on_ranks(
      2,
      [](Runtime& rt) {
        Endpoint ep(rt, {.arrival = Arrival::queue});
        const Rank other{1 - rt.rank().value};
        for_all([&](std::size_t at_source, std::size_t at_target, std::size_t size) {
          if (at_target != 0) return;
          const auto out = pattern(size, 5);
          Told sent(at_source);
          const Post s = until_posted(
              rt, [&] { return ep.send(other, Tag{2}, out, &sent.completion(), &sent); });
          {
            const Message message = ep.dequeue_wait();
            EXPECT_TRUE(std::equal(out.begin(), out.end(), message.data().begin()));
            EXPECT_EQ(message.bytes(), size);
          }
          rt.wait_until([&] { return over(sent, s); });
          rt.barrier();
          EXPECT_EQ(s, size <= rt.eager_bytes(other) ? Post::done : Post::posted);
          expect_told(sent, s, {other, Tag{2}, size, &sent});
        });
      },
      options());
}

TEST_P(CompletionKinds, OfMessagesToAHandler) {
  on_ranks(
      2,
      [](Runtime& rt) {
        struct Came {
          std::atomic<uint32_t> messages{0};
          std::atomic<std::size_t> bytes{0};
        } came;
        Endpoint ep(rt, {.arrival = Arrival::handler,
                         .handler =
                             [](void* argument, const Incoming& message) {
                               auto& mine = *static_cast<Came*>(argument);
                               mine.bytes += message.data.size();
                               ++mine.messages;
                             },
                         .handler_argument = &came});
        const Rank other{1 - rt.rank().value};
        uint32_t messages = 0;
        std::size_t bytes = 0;
        for_all([&](std::size_t at_source, std::size_t at_target, std::size_t size) {
          if (at_target != 0) return;
          const auto out = pattern(size, 6);
          Told sent(at_source);
          const Post s = until_posted(
              rt, [&] { return ep.send(other, Tag{3}, out, &sent.completion(), &sent); });
          ++messages;
          bytes += size;
          rt.wait_until([&] { return over(sent, s) && came.messages == messages; });
          EXPECT_EQ(came.bytes, bytes);  // before the barrier: then the next one may come
          rt.barrier();
          EXPECT_EQ(s, size <= rt.eager_bytes(other) ? Post::done : Post::posted);
          expect_told(sent, s, {other, Tag{3}, size, &sent});
        });
      },
      options());
}

/// A region that the other rank puts to, weft's memory or ordinary memory.
class Place {
 public:
  Place(Runtime& rt, Endpoint& talk, bool shared)
      : rt_(rt),
        shared_(shared),
        own_(shared ? 0 : kBytes),
        memory_(shared ? rt.allocate_shared(kBytes) : std::span(own_)),
        region_(std::make_unique<Region>(rt, memory_)) {
    const Rank other{1 - rt.rank().value};
    talk.send_wait(other, Tag{0}, bytes_of(region_->key()));
    talk.recv_wait(other, Tag{0}, writable(theirs));
  }
  ~Place() {
    region_.reset();
    if (shared_) rt_.release_shared(memory_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] std::span<std::byte> memory() const { return memory_; }
  fabric::MemoryKey theirs;

 private:
  static constexpr std::size_t kBytes = 200'000;
  Runtime& rt_;
  bool shared_;
  std::vector<std::byte> own_;
  std::span<std::byte> memory_;
  std::unique_ptr<Region> region_;
};

TEST_P(CompletionKinds, OfPutsAndGets) {
  for (const bool shared : {true, false}) {
    on_ranks(
        2,
        [shared](Runtime& rt) {
          Endpoint talk(rt, {});
          Endpoint ep(rt, {.arrival = Arrival::memory});
          const Place place(rt, talk, shared);
          const Rank other{1 - rt.rank().value};
          for_all([&](std::size_t of_put, std::size_t of_get, std::size_t size) {
            const auto out = pattern(size, 7);
            Told put(of_put);
            const Post p = until_posted(
                rt, [&] { return ep.put(place.theirs, 64, out, &put.completion(), &put); });
            rt.wait_until([&] { return over(put, p); });
            Told got(of_get);
            std::vector<std::byte> back(size);
            const Post g = until_posted(
                rt, [&] { return ep.get(place.theirs, 64, back, &got.completion(), &got); });
            rt.wait_until([&] { return over(got, g); });
            EXPECT_TRUE(back == out);
            rt.barrier();
            EXPECT_EQ(p, shared ? Post::done : Post::posted);
            expect_told(put, p, {other, Tag{}, size, &put});
            expect_told(got, g, {other, Tag{}, size, &got});
          });
          rt.barrier();
        },
        options());
  }
}

TEST_P(CompletionKinds, OfPutsWithASignal) {
  for (const bool shared : {true, false}) {
    on_ranks(
        2,
        [shared](Runtime& rt) {
          Endpoint talk(rt, {});
          const Place place(rt, talk, shared);
          const Rank other{1 - rt.rank().value};
          for_all([&](std::size_t at_source, std::size_t at_target, std::size_t size) {
            const auto out = pattern(size, 8 + static_cast<uint32_t>(rt.rank().value));
            Told signalled(at_target);
            Told put(at_source);
            // What a signal tells is bound when the endpoint is made.
            Endpoint ep(rt, {.arrival = Arrival::memory, .at_target = &signalled.completion()});
            const Post p = until_posted(rt, [&] {
              return ep.put_signal(place.theirs, 8, out, Tag{9}, &put.completion(), &put);
            });
            rt.wait_until([&] { return over(put, p) && signalled.times() != 0; });
            const auto want = pattern(size, 8 + static_cast<uint32_t>(other.value));
            EXPECT_TRUE(std::equal(want.begin(), want.end(), place.memory().begin() + 8));
            rt.barrier();
            expect_told(put, p, {other, Tag{9}, size, &put});
            ASSERT_EQ(signalled.times(), 1U);
            if (const Event* const event = signalled.event()) {
              EXPECT_EQ(event->error, Errc::ok);
              EXPECT_EQ(event->peer, other);
              EXPECT_EQ(event->tag, Tag{9});
            }
          });
          rt.barrier();
        },
        options());
  }
}

}  // namespace
}  // namespace weft
