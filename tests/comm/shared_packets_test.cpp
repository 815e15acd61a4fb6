// Packets that several ranks read: free when all have given their tickets back; what is sent so
// arrives at all, and what cannot go is left to the sender. And packets that are lent written.
#include "comm/shared_packets.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "comm/runtime_impl.hpp"
#include "weft/base/clock.hpp"
#include "weft/comm/config.hpp"
#include "weft/comm/runtime.hpp"

namespace weft::test {
namespace {

constexpr uint32_t kNumbers = 8;

struct SharedPackets : ::testing::Test {
  base::SlotPool pool{kNumbers};
  comm::SharedPackets shared{pool, kNumbers};
};

TEST_F(SharedPackets, AreFreeWhenAllHaveLetGo) {
  const std::array<uint32_t, 3> packets{pool.alloc(), pool.alloc(), pool.alloc()};
  shared.begin(packets, true);
  const uint32_t one = shared.issue(packets[0]);
  const uint32_t two = shared.issue(packets[0]);
  EXPECT_TRUE(shared.is_ticket(one) && shared.is_ticket(two));
  EXPECT_FALSE(shared.is_ticket(kNumbers - 1));
  EXPECT_NE(one, two);
  shared.came_back(two);
  shared.end(packets[0]);
  EXPECT_EQ(pool.available(), kNumbers - 3);
  shared.came_back(one);
  EXPECT_EQ(pool.available(), kNumbers);
  EXPECT_EQ(shared.available(), fabric::kTickets);
}

TEST_F(SharedPackets, AreFreeWhenNobodyTookThem) {
  const std::array<uint32_t, 1> packets{pool.alloc()};
  shared.begin(packets, true);
  shared.withdraw(shared.issue(packets[0]));
  EXPECT_EQ(pool.available(), kNumbers - 1);
  shared.end(packets[0]);
  EXPECT_EQ(pool.available(), kNumbers);
}

TEST_F(SharedPackets, RunOutOfTickets) {
  const std::array<uint32_t, 1> packets{pool.alloc()};
  shared.begin(packets, true);
  std::vector<uint32_t> tickets;
  for (uint32_t ticket; (ticket = shared.issue(packets[0])) != comm::SharedPackets::kNone;)
    tickets.push_back(ticket);
  EXPECT_EQ(tickets.size(), fabric::kTickets);
  for (const uint32_t ticket : tickets) shared.came_back(ticket);
  shared.end(packets[0]);
  EXPECT_EQ(pool.available(), kNumbers);
}

/// The same packets again and again; now and then writer and readers let go at the same time.
TEST_F(SharedPackets, AreFreedOnceByWhoeverIsLast) {
  constexpr int kReaders = 3;
  for (int time = 0; time < 2000; ++time) {
    const std::array<uint32_t, 2> packets{pool.alloc(), pool.alloc()};
    ASSERT_NE(packets[1], base::SlotPool::kNone);
    shared.begin(packets, true);
    std::array<uint32_t, kReaders> tickets;
    for (uint32_t& ticket : tickets) ticket = shared.issue(packets[0]);
    if (time % 100 != 0) {
      for (const uint32_t ticket : tickets) shared.came_back(ticket);
      shared.end(packets[0]);
      continue;
    }
    std::vector<std::jthread> readers;
    for (const uint32_t ticket : tickets)
      readers.emplace_back([&, ticket] { shared.came_back(ticket); });
    shared.end(packets[0]);
  }
  EXPECT_EQ(pool.available(), kNumbers);
  EXPECT_EQ(shared.available(), fabric::kTickets);
}

/// Of few packets, which are freed one by one: who gets the first may make a group of it at once.
TEST(SharedPacketsOfFew, AreNobodysOnceOneIsFree) {
  constexpr uint32_t kFew = 16;
  base::SlotPool pool(kFew, base::SlotPool::Checks::on);
  comm::SharedPackets shared(pool, kFew);
  on_threads(4, [&](int) {
    for (int time = 0; time < 20'000; ++time) {
      std::array<uint32_t, 4> packets;
      uint32_t count = 0;
      while (count < packets.size()) {
        const uint32_t index = pool.alloc();
        if (index != base::SlotPool::kNone) {
          packets[count++] = index;
        } else {
          std::this_thread::yield();
        }
      }
      shared.begin(packets, true);
      const uint32_t ticket = shared.issue(packets[0]);
      shared.end(packets[0]);
      shared.came_back(ticket);
    }
  });
  EXPECT_EQ(pool.available(), kFew);
  EXPECT_EQ(shared.open(), 0U);
}

// --- Messages ------------------------------------------------------------------------------------

/// Keeps what came.
class Kept final : public Matcher {
 public:
  bool arrive(const Delivery& message) noexcept override {
    if (holds != nullptr && holds->load()) return false;
    std::vector<std::byte> bytes(message.payload.size());
    if (message.payload.copy(bytes) != Errc::ok) bytes.clear();
    all.push_back(std::move(bytes));
    return true;
  }
  bool announced(const Envelope&, const Announcement&,
                 std::span<const std::byte>) noexcept override {
    return true;
  }
  Tried try_again() noexcept override { return Tried::all; }
  void peer_down(Rank) noexcept override {}

  std::atomic<bool>* holds = nullptr;  ///< nothing is taken while it is set
  std::vector<std::vector<std::byte>> all;
};

const std::vector<std::size_t> kSharedSizes{1, 4'096, 24'576, 65'536, 65'537, 200'001, 262'144};
/// Several share a packet, one behind the other, once all have had their turn.
const std::vector<std::size_t> kShortShared{4'096, 24'576, 10'000, 4'097};

/// Rank 0 sends to all at once, or one by one to whom it did not go; and all packets come back.
void send_to_all(const char* open, const std::vector<std::size_t>& sizes = kSharedSizes) {
  register_comm_config();
  const test::ConfigOverride how(test::ConfigOverride::List{{"comm.open_packets", open}});
  constexpr int kRanks = 4;
  on_ranks(kRanks, [&](Runtime& runtime) {
    Kept matcher;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
    runtime.barrier();
    const std::array<Rank, kRanks> to{Rank{2}, Rank{0}, Rank{3}, Rank{1}};
    std::size_t sent = 0;
    const int times = 560 / static_cast<int>(sizes.size());  // more than there are packets
    for (int time = 0; time < times; ++time) {
      for (const std::size_t size : sizes) {
        const auto data = pattern(size, static_cast<uint32_t>(sent++));
        if (runtime.rank() == Rank{0}) {
          runtime.impl().core_is_shared = false;  // whatever these threads do to each other
          uint64_t went = endpoint.send_shared(to, {.tag = 7}, data);
          EXPECT_EQ(went & 2, 0U) << "not to this rank itself";
          for (std::size_t i = 0; i < to.size(); ++i) {
            const std::span<const Rank> one(&to[i], 1);
            for (; i != 1 && (went >> i & 1) == 0; runtime.relax())
              went |= endpoint.send_shared(one, {.tag = 7}, data) << i;
          }
        } else {
          while (matcher.all.size() < sent) runtime.relax();
          EXPECT_TRUE(matcher.all[sent - 1] == data) << size;
        }
      }
    }
    runtime.barrier();
    const auto& impl = runtime.impl();
    while (impl.shared_packets->available() != fabric::kTickets ||
           impl.packets->available() != impl.packets->capacity())
      runtime.relax();
  });
}

TEST(SharedMessages, ArriveAtAll) { send_to_all("never"); }
TEST(SharedMessages, ArriveAtAllWhoReadThemAsTheyAreWritten) { send_to_all("always"); }
TEST(SharedMessages, ThatShareAPacketArrive) {
  send_to_all("never", kShortShared);
  send_to_all("always", kShortShared);
}

/// To all near ranks by one call, from as many packets as it fills.
TEST(SharedMessages, AreWrittenOnce) {
  std::atomic<bool> holds{true};
  on_ranks(4, [&](Runtime& runtime) {
    Kept matcher;
    matcher.holds = &holds;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
    runtime.barrier();
    const auto data = pattern(200'001, 4);
    if (runtime.rank() == Rank{0}) {
      const std::array<Rank, 4> to{Rank{2}, Rank{0}, Rank{3}, Rank{1}};
      EXPECT_EQ(endpoint.send_shared(to, {}, data), 0b1101U);
      const auto& impl = runtime.impl();
      EXPECT_EQ(impl.packets->available(), impl.packets->capacity() - 4);
      EXPECT_EQ(impl.shared_packets->available(), fabric::kTickets - 3);
      holds.store(false);
    } else {
      while (matcher.all.empty()) runtime.relax();
      EXPECT_TRUE(matcher.all[0] == data);
    }
    runtime.barrier();
  });
}

TEST(SharedMessages, WhatCannotGoIsLeftToTheSender) {
  on_ranks(3, [&](Runtime& runtime) {
    Kept matcher;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
    runtime.barrier();
    if (runtime.rank() == Rank{0}) {
      const std::array<Rank, 2> to{Rank{1}, Rank{2}};
      const auto data = pattern(10'000, 3);
      EXPECT_EQ(endpoint.send_shared(to, {}, pattern(runtime.shared_bytes() + 1, 3)), 0U);
      EXPECT_EQ(endpoint.send_shared(to, {}, {}), 0U);
      EXPECT_EQ(endpoint.send_shared({}, {}, data), 0U);
      const std::array<Rank, 2> beyond{Rank{1}, Rank{3}};
      EXPECT_THROW((void)endpoint.send_shared(beyond, {}, data), Error);
      EXPECT_THROW((void)endpoint.send_shared(std::vector<Rank>(65, Rank{1}), {}, data), Error);
      // Without packets.
      base::SlotPool& pool = *runtime.impl().packets;
      std::vector<uint32_t> taken;
      for (uint32_t index; (index = pool.alloc()) != base::SlotPool::kNone;) taken.push_back(index);
      EXPECT_EQ(endpoint.send_shared(to, {}, data), 0U);
      pool.free(taken.back());
      taken.pop_back();
      EXPECT_EQ(endpoint.send_shared(to, {}, pattern(100'000, 3)), 0U) << "two are needed";
      EXPECT_EQ(pool.available(), 1U);
      pool.free(taken);
    }
    runtime.barrier();
    EXPECT_TRUE(matcher.all.empty());
  });
}

// --- Written before they are lent ----------------------------------------------------------------

/// Where another process wants the core messages of several packets go at once, half a MiB of them.
int went_at_once(const char* open) {
  register_comm_config();
  const test::ConfigOverride how(test::ConfigOverride::List{{"comm.open_packets", open}});
  const auto data = pattern(131'072, 5);
  std::atomic<bool> holds{true};
  int went = 0;
  on_ranks(2, [&](Runtime& runtime) {
    Kept matcher;
    matcher.holds = &holds;
    Endpoint endpoint(runtime, {.arrival = Arrival::matcher, .matcher = &matcher});
    runtime.barrier();
    if (runtime.rank() == Rank{0}) {
      const auto goes = [&] {
        // Waiting finds out again.
        runtime.impl().core_is_shared.store(true, std::memory_order_relaxed);
        return endpoint.send_wide(Rank{1}, {}, data) == Post::done;
      };
      // In trouble one may be refused for another reason.
      const uint64_t deadline = base::now_ns() + 2'000'000'000;
      while (went < 4 && base::now_ns() < deadline) went += goes() ? 1 : 0;
      for (int more = 0; more < 50; ++more) went += goes() ? 1 : 0;
      holds.store(false);
    }
    runtime.barrier();
    if (runtime.rank() == Rank{1}) {
      while (matcher.all.size() < static_cast<std::size_t>(went)) runtime.relax();
      for (const auto& message : matcher.all) EXPECT_EQ(message, data);
    }
    runtime.barrier();
  });
  return went;
}

TEST(WrittenPackets, GoAtOnceWhereProcessesTakeTurns) {
  EXPECT_EQ(went_at_once("automatic"), 4);
  EXPECT_EQ(went_at_once("never"), 0);
}

}  // namespace
}  // namespace weft::test
