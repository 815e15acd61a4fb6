// A job that checks itself: every thread of every rank exchanges messages of every size class with
// its partner on every other rank, by each arrival mode, and compares the bytes.
//
//   exchange THREADS ROUNDS      prints "exchange: N messages, checksum C" on rank 0; exit 1 if
//   wrong
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr std::size_t kSizes[] = {0, 8, 40, 64, 232, 233, 3000, 8192, 8193, 65536, 1 << 20};
constexpr std::size_t kSlot = 1 << 20;

std::vector<std::byte> pattern(std::size_t bytes, uint32_t seed) {
  std::vector<std::byte> data(bytes);
  uint32_t x = seed * 2654435761U + 1;
  for (auto& byte : data) {
    x = x * 1664525U + 1013904223U;
    byte = static_cast<std::byte>(x >> 24);
  }
  return data;
}

uint32_t seed_of(int from, int to, uint32_t thread, uint32_t round, std::size_t size) {
  return static_cast<uint32_t>(from * 1000003 + to * 10007) + thread * 101 + round * 13 +
         static_cast<uint32_t>(size);
}

struct Check {
  std::atomic<uint64_t> messages{0};
  std::atomic<uint64_t> checksum{0};
  std::atomic<uint64_t> wrong{0};
  void bytes(std::span<const std::byte> got, uint32_t seed, std::size_t size) {
    const auto want = pattern(size, seed);
    if (got.size() != size || !std::equal(want.begin(), want.end(), got.begin())) ++wrong;
    uint64_t sum = size;
    for (const std::byte b : got) sum = sum * 31 + static_cast<uint8_t>(b);
    checksum += sum;
    ++messages;
  }
};

struct Handled {
  Check* check;
  std::atomic<uint64_t> count{0};
};

/// Sends every size by queue and by handler, and takes as many messages from the queue, whoever
/// they are for: the tag tells the seed. Takes while it cannot send: a queue's messages hold their
/// sender's packets, and a large one leaves its sender only when somebody takes it, so whoever
/// waited here for one before the other could wait in a circle.
void by_queue_and_handler(Runtime& rt, Endpoint& queue, Endpoint& handler, uint32_t thread,
                          uint32_t rounds, Rank to, Check& check) {
  const auto count = static_cast<uint32_t>(rounds * std::size(kSizes));
  Synchronizer over(2 * count);
  std::vector<std::vector<std::byte>> lent;
  for (uint32_t i = 0; i < count; ++i) {
    const std::size_t size = kSizes[i % std::size(kSizes)];
    lent.push_back(pattern(size, seed_of(rt.rank().value, to.value, thread, i, size)));
  }
  uint32_t sent = 0;
  for (uint32_t taken = 0; sent < 2 * count || taken < count;) {
    bool moved = false;
    if (sent < 2 * count) {
      const std::vector<std::byte>& data = lent[sent / 2];
      const Tag seed{seed_of(rt.rank().value, to.value, thread, sent / 2, data.size())};
      const Post answer = (sent % 2 == 0 ? queue : handler).send(to, seed, data, &over);
      if (answer == Post::done) over.arrive();
      moved = answer != Post::retry;
      sent += moved ? 1 : 0;
    }
    Message message;
    if (taken < count && queue.dequeue(message)) {
      rt.wait(message);
      check.bytes(message.data(), message.tag().value, message.bytes());
      ++taken;
      moved = true;
    }
    if (!moved) rt.relax();
  }
  rt.wait(over);
  if (over.event().error != Errc::ok) ++check.wrong;
}

void exchange(Runtime& rt, uint32_t threads, uint32_t rounds, Check& check) {
  const int me = rt.rank().value;
  const int n = rt.size();
  Handled handled{&check};
  Endpoint matched(rt, {});
  Endpoint queue(rt, {.arrival = Arrival::queue});
  Endpoint handler(rt, {.arrival = Arrival::handler,
                        .handler =
                            [](void* argument, const Incoming& message) {
                              auto& mine = *static_cast<Handled*>(argument);
                              mine.check->bytes(message.data, message.tag.value,
                                                message.data.size());
                              ++mine.count;
                            },
                        .handler_argument = &handled});
  CompletionQueue signals;
  Endpoint memory(rt, {.arrival = Arrival::memory, .at_target = &signals});
  const auto window = rt.allocate_shared(kSlot * threads);
  std::vector<std::byte> ordinary(kSlot * threads);
  Region shared_region(rt, window);
  Region ordinary_region(rt, ordinary);
  Team team(rt);
  const fabric::MemoryKey mine[2] = {shared_region.key(), ordinary_region.key()};
  std::vector<fabric::MemoryKey> keys(2 * static_cast<std::size_t>(n));
  team.allgather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(keys)));

  for (int step = 0; step < n; ++step) {
    const int to = (me + step) % n;
    const int from = (me + n - step) % n;
    std::vector<std::jthread> crew;
    for (uint32_t t = 0; t < threads; ++t) {
      crew.emplace_back([&, t] {
        for (uint32_t round = 0; round < rounds; ++round) {
          for (const std::size_t size : kSizes) {
            const auto out = pattern(size, seed_of(me, to, t, round, size));
            std::vector<std::byte> in(size);
            Synchronizer sent;
            Synchronizer received;
            // A tag of its own: with devices in turn, messages of one key may overtake each other.
            const auto number = static_cast<uint32_t>(std::find(kSizes, std::end(kSizes), size) -
                                                      std::begin(kSizes));
            const Tag tag{(t * rounds + round) * 16 + number};
            const Post r =
                until_posted(rt, [&] { return matched.recv(Rank{from}, tag, in, &received); });
            const Post s =
                until_posted(rt, [&] { return matched.send(Rank{to}, tag, out, &sent); });
            if (r == Post::posted) rt.wait(received);
            if (s == Post::posted) rt.wait(sent);
            check.bytes(in, seed_of(from, me, t, round, size), size);
            // Into and out of the peer's memory, ordinary and shared.
            for (int kind = 0; kind < 2; ++kind) {
              const auto& key =
                  keys[2 * static_cast<std::size_t>(to) + static_cast<std::size_t>(kind)];
              std::vector<std::byte> back(size);
              if (memory.put_wait(key, t * kSlot, out).error != Errc::ok ||
                  memory.get_wait(key, t * kSlot, back).error != Errc::ok) {
                ++check.wrong;
              }
              check.bytes(back, seed_of(me, to, t, round, size), size);
            }
          }
        }
        by_queue_and_handler(rt, queue, handler, t, rounds, Rank{to}, check);
      });
    }
    crew.clear();
    const uint64_t all = (static_cast<uint64_t>(step) + 1) * threads * rounds * std::size(kSizes);
    rt.wait_until([&] { return handled.count == all; });
    team.barrier();
  }
  team.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 2);
  const auto rounds = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 3);
  Check check;
  uint64_t wrong = 0;
  {
    Runtime rt;
    exchange(rt, threads, rounds, check);
    Team team(rt);
    wrong = team.sum(check.wrong.load());
    const uint64_t messages = team.sum(check.messages.load());
    const uint64_t checksum = team.sum(check.checksum.load());
    if (rt.rank() == Rank{0}) {
      fmt::print("exchange: {} messages, {} wrong, checksum {:016x}\n", messages, wrong, checksum);
    }
  }
  return wrong == 0 ? 0 : 1;
}
