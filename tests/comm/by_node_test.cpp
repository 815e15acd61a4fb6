// Jobs whose nodes are apart: what collectives send between nodes, counted, and remote memory of
// both kinds of peers.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/ranks.hpp"
#include "fabric/interceptor_base.hpp"
#include "weft/base/config.hpp"
#include "weft/fabric/config.hpp"
#include "weft/fabric/job.hpp"

namespace weft {
namespace {

using test::pattern;

constexpr int kRanks = 8;
constexpr int kNodes = 4;

/// What one rank sent, by where it went.
struct Sent {
  std::atomic<int> within{0}, between{0};
  std::atomic<int> packets_within{0}, packets_between{0};  // of these
};

class CountingPort final : public fabric::PassingPort {
 public:
  CountingPort(std::unique_ptr<fabric::Port> inner, const fabric::Job& job, Sent& sent)
      : PassingPort(std::move(inner)), job_(job), sent_(sent) {}
  Post try_send(Rank to, uint32_t to_port, std::span<const std::byte> header,
                std::span<const std::byte> payload) noexcept override {
    return counted(to, inner().try_send(to, to_port, header, payload));
  }
  Post try_send_packet(Rank to, uint32_t to_port, std::span<const std::byte> header,
                       fabric::PacketPart part) noexcept override {
    const Post answer = counted(to, inner().try_send_packet(to, to_port, header, part));
    if (answer != Post::retry) ++(is_near(to) ? sent_.packets_within : sent_.packets_between);
    return answer;
  }

 private:
  [[nodiscard]] bool is_near(Rank rank) const {
    return job_.node_of(rank) == job_.node_of(job_.rank());
  }
  Post counted(Rank to, Post answer) noexcept {
    if (answer == Post::retry) return answer;
    ++(is_near(to) ? sent_.within : sent_.between);
    return answer;
  }
  const fabric::Job& job_;
  Sent& sent_;
};

/// What becomes of reads over the network.
enum class Reading : uint8_t { works, fails_often, is_not_there };

/// What all ranks began to read, and what of that failed.
struct Reads {
  std::atomic<int> begun{0};
  std::atomic<int> failed{0};
};

/// Counts what was begun to be read, and has reads fail.
class ReadingPort final : public fabric::PassingPort {
 public:
  ReadingPort(std::unique_ptr<fabric::Port> inner, Reading how, Reads& reads)
      : PassingPort(std::move(inner)), how_(how), reads_(reads) {}
  Post try_read(fabric::Address from, uint64_t address, uint64_t key, uint64_t offset,
                std::span<std::byte> into, uint64_t token) noexcept override {
    if (how_ == Reading::is_not_there) return Post::done;
    const Post answer = inner().try_read(from, address, key, offset, into, token);
    if (answer == Post::posted) ++reads_.begun;
    return answer;
  }
  uint32_t poll(fabric::Sink& sink, uint32_t budget) override {
    Failing between(sink, *this);
    return inner().poll(how_ == Reading::fails_often ? between : sink, budget);
  }

 private:
  class Failing final : public fabric::PassingSink {
   public:
    Failing(fabric::Sink& sink, ReadingPort& port) : PassingSink(sink), port_(port) {}
    void on_read(uint64_t token, bool ok) override {
      const bool fails = ++port_.ended_ % 5 == 0;
      if (fails) ++port_.reads_.failed;
      inner().on_read(token, ok && !fails);
    }

   private:
    ReadingPort& port_;
  };
  const Reading how_;
  Reads& reads_;
  int ended_ = 0;
};

using Wrap = std::function<std::unique_ptr<fabric::Port>(std::unique_ptr<fabric::Port>)>;

/// Runs `body(runtime, sent)` on every rank of a job of four nodes, by node.
void on_nodes(const std::function<void(Runtime&, Sent&)>& body, const Wrap& wrap = {}) {
  fabric::register_fabric_config();
  base::set_config("fabric.transport", "by_node");
  const auto jobs = fabric::make_local_job(kRanks, kNodes);
  std::vector<Sent> sent(kRanks);
  std::vector<std::string> failures(kRanks);
  test::on_threads(kRanks, [&](int r) {
    const auto index = static_cast<std::size_t>(r);
    RuntimeOptions options;
    options.job = jobs[index].get();
    options.wrap = [&](std::unique_ptr<fabric::Transport> inner) {
      EXPECT_EQ(inner->name(), "by_node");
      return fabric::wrap_ports(
          std::move(inner), [&](std::unique_ptr<fabric::Port> port, uint32_t) {
            if (wrap) port = wrap(std::move(port));
            return std::make_unique<CountingPort>(std::move(port), *jobs[index], sent[index]);
          });
    };
    try {
      Runtime runtime(options);
      body(runtime, sent[index]);
      runtime.barrier();
    } catch (const std::exception& error) {
      std::cerr << "rank " << r << ": " << error.what() << std::endl;
      failures[index] = error.what();
    }
  });
  base::set_config("fabric.transport", "automatic");
  for (const std::string& failure : failures) EXPECT_EQ(failure, "");
}

TEST(ByNode, CollectivesSendAsLittleBetweenNodesAsThereAreOtherNodes) {
  constexpr int kTimes = 5;
  constexpr int kOthers = kNodes - 1;
  std::atomic<int> broadcast{0}, allreduce{0}, barrier{0}, within{0};
  on_nodes([&](Runtime& rt, Sent& sent) {
    Team team(rt);
    const auto counted = [&](std::atomic<int>& sum, const auto& collective) {
      const int before = sent.between;
      collective();
      sum += sent.between - before;  // what this rank sends it has sent when it returns
    };
    for (int root = 0; root < kTimes; ++root) {
      const auto want = pattern(1000, static_cast<uint32_t>(root));
      auto data = rt.rank().value == root ? want : std::vector<std::byte>(want.size());
      counted(broadcast, [&] { team.broadcast(Rank{root}, data); });
      EXPECT_TRUE(data == want);
      int64_t sum = 0;
      counted(allreduce, [&] { sum = team.sum(rt.rank().value); });
      EXPECT_EQ(sum, kRanks * (kRanks - 1) / 2);
      counted(barrier, [&] { team.barrier(); });
    }
    within += sent.within;
  });
  // Once to every other node; an allreduce and a barrier there and back.
  EXPECT_EQ(broadcast, kTimes * kOthers);
  EXPECT_EQ(allreduce, kTimes * kOthers * 2);
  EXPECT_EQ(barrier, kTimes * kOthers * 2);
  EXPECT_GT(within, 0);
}

/// The network's frames are shorter than the rings' of a node, which all of a node's messages use:
/// matched ones, with pieces or without, and puts.
TEST(ByNode, NeighboursSendInTheRingWhatGoesToOthersInAPacket) {
  on_nodes([](Runtime& rt, Sent& sent) {
    Endpoint talk(rt, {.arrival = Arrival::matched});
    Endpoint queue(rt, {.arrival = Arrival::queue});
    Endpoint memory(rt, {.arrival = Arrival::memory});
    const int me = rt.rank().value;
    const Rank neighbour{me ^ 1};
    const Rank other{(me + kRanks / 2) % kRanks};
    const std::size_t longest = rt.inline_bytes(neighbour);
    ASSERT_GT(longest, rt.inline_bytes(other));
    EXPECT_EQ(rt.inline_bytes(other), rt.inline_bytes());
    std::vector<std::byte> region(2 * longest);
    const Region exposed(rt, region);
    for (const Rank peer : {neighbour, other}) {
      fabric::MemoryKey theirs;
      talk.send_wait(peer, Tag{9}, test::bytes_of(exposed.key()));
      talk.recv_wait(peer, Tag{9}, test::writable(theirs));
      for (const std::size_t bytes : {rt.inline_bytes(), rt.inline_bytes() + 1, longest}) {
        const bool in_packet = bytes > rt.inline_bytes(peer);
        const auto packets = [&] { return sent.packets_within + sent.packets_between; };
        const auto mine = pattern(bytes, static_cast<uint32_t>(me));
        const auto want = pattern(bytes, static_cast<uint32_t>(peer.value));
        int before = packets();
        talk.send_wait(peer, Tag{1}, mine);
        EXPECT_EQ(packets() - before, in_packet) << bytes;
        before = packets();
        const std::span<const std::byte> halves[] = {std::span(mine).first(bytes / 2),
                                                     std::span(mine).subspan(bytes / 2)};
        (void)until_posted(rt, [&] { return talk.send_gathered(peer, Tag{2}, halves); });
        EXPECT_EQ(packets() - before, in_packet) << bytes;
        before = packets();
        queue.send_wait(peer, Tag{3}, mine);
        EXPECT_EQ(packets() - before, in_packet) << bytes;
        before = packets();
        EXPECT_EQ(memory.put_wait(theirs, 0, std::span(mine).first(bytes - 64)).error, Errc::ok);
        EXPECT_EQ(packets() - before, bytes - 64 > rt.inline_bytes(peer)) << bytes;
        std::vector<std::byte> got(bytes);
        for (const uint32_t tag : {1, 2}) {
          talk.recv_wait(peer, Tag{tag}, got);
          EXPECT_TRUE(got == want) << bytes;
        }
        Message message = queue.dequeue_wait();
        EXPECT_EQ(message.source(), peer);
        EXPECT_TRUE(std::ranges::equal(message.data(), want)) << bytes;
        rt.barrier();
      }
    }
    EXPECT_EQ(sent.packets_within, 0);
  });
}

/// Rank 0's memory is written and read by a neighbour and by a rank of another node, in every size
/// class, whether it could be mapped by neighbours or not.
TEST(ByNode, PutsAndGetsFindTheirMemoryFromBothSides) {
  constexpr std::size_t kBytes = 200'000;
  for (const bool shared : {false, true}) {
    on_nodes([&](Runtime& rt, Sent&) {
      Endpoint memory(rt, {.arrival = Arrival::memory});
      Endpoint talk(rt, {.arrival = Arrival::matched});
      const int me = rt.rank().value;
      std::vector<std::byte> own;
      if (!shared && me == 0) own.resize(kBytes);
      std::span<std::byte> region(own);
      fabric::MemoryKey key;
      std::optional<Region> exposed;
      if (me == 0) {
        if (shared) region = rt.allocate_shared(kBytes);
        key = exposed.emplace(rt, region).key();
        EXPECT_EQ(key.segment != 0, shared);
        for (const int user : {1, 7}) talk.send_wait(Rank{user}, Tag{1}, test::bytes_of(key));
      }
      if (me == 1 || me == 7) {
        talk.recv_wait(Rank{0}, Tag{1}, test::writable(key));
        const std::size_t part = me == 1 ? 0 : kBytes / 2;
        for (const std::size_t bytes : {8, 200, 5000, 90'000}) {
          const auto want = pattern(bytes, static_cast<uint32_t>(me));
          EXPECT_EQ(memory.put_wait(key, part, want).error, Errc::ok);
          std::vector<std::byte> got(bytes);
          EXPECT_EQ(memory.get_wait(key, part, got).error, Errc::ok);
          EXPECT_TRUE(got == want) << bytes;
        }
      }
      rt.barrier();
      if (me == 0) {
        for (const int user : {1, 7}) {
          const auto want = pattern(90'000, static_cast<uint32_t>(user));
          EXPECT_TRUE(
              std::equal(want.begin(), want.end(), region.begin() + (user == 1 ? 0 : kBytes / 2)));
        }
        exposed.reset();
        if (shared) rt.release_shared(region);
      }
      rt.barrier();
    });
  }
}

/// Large messages and puts between nodes are read by their receiver; where that fails in the middle
/// or is not there at all, they come all the same.
TEST(ByNode, LargeMessagesArriveWhateverBecomesOfReads) {
  for (const Reading how : {Reading::works, Reading::fails_often, Reading::is_not_there}) {
    Reads reads;
    const auto body = [](Runtime& rt, Sent&) {
      Endpoint talk(rt, {.arrival = Arrival::matched});
      Endpoint memory(rt, {.arrival = Arrival::memory});
      const int me = rt.rank().value;
      const Rank other{(me + kRanks / 2) % kRanks};
      std::vector<std::byte> region(3'000'000);
      const Region exposed(rt, region);
      fabric::MemoryKey theirs;
      Synchronizer told;
      (void)until_posted(rt,
                         [&] { return talk.recv(other, Tag{1}, test::writable(theirs), &told); });
      talk.send_wait(other, Tag{1}, test::bytes_of(exposed.key()));
      rt.wait(told);
      for (const std::size_t bytes : {70'000, 100'000, 1'000'000, 3'000'000}) {
        constexpr uint32_t kAtOnce = 3;
        std::vector<std::vector<std::byte>> sent, came(kAtOnce, std::vector<std::byte>(bytes));
        Synchronizer done[2 * kAtOnce];
        for (uint32_t i = 0; i < kAtOnce; ++i) {
          sent.push_back(pattern(bytes, static_cast<uint32_t>(me) + 10 * i));
          (void)until_posted(rt, [&] { return talk.recv(other, Tag{i}, came[i], &done[i]); });
          (void)until_posted(rt,
                             [&] { return talk.send(other, Tag{i}, sent[i], &done[kAtOnce + i]); });
        }
        for (auto& one : done) {
          rt.wait(one);
          EXPECT_EQ(one.event().error, Errc::ok);
        }
        for (uint32_t i = 0; i < kAtOnce; ++i)
          EXPECT_TRUE(came[i] == pattern(bytes, static_cast<uint32_t>(other.value) + 10 * i));
        EXPECT_EQ(memory.put_wait(theirs, 0, sent[0]).error, Errc::ok);
        rt.barrier();
        EXPECT_TRUE(std::equal(came[0].begin(), came[0].end(), region.begin()));
        std::vector<std::byte> got(bytes);
        EXPECT_EQ(memory.get_wait(theirs, 0, got).error, Errc::ok);
        EXPECT_TRUE(got == sent[0]);
        rt.barrier();
      }
    };
    on_nodes(body, [&](std::unique_ptr<fabric::Port> port) -> std::unique_ptr<fabric::Port> {
      return std::make_unique<ReadingPort>(std::move(port), how, reads);
    });
    // Of four sizes three messages, a put and a get each; the largest in three pieces.
    if (how == Reading::works) {
      EXPECT_EQ(reads.begun, 30 * kRanks);
    }
    EXPECT_EQ(reads.begun != 0, how != Reading::is_not_there);
    EXPECT_EQ(reads.failed != 0, how == Reading::fails_often);
  }
}

}  // namespace
}  // namespace weft
