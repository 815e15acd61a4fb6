// Memory of peers: reading and writing it, shared allocations, exposures and their keys.
#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "base/config_override.hpp"
#include "fabric/conformance_ranks.hpp"
#include "weft/base/config.hpp"
#include "weft/base/topology.hpp"
#include "weft/fabric/config.hpp"

namespace weft::fabric::test {
namespace {

using Memory = Conformance;

TEST_P(Memory, ReadsAndWritesOrdinaryMemoryOfPeers) {
  Ranks ranks = make(2);
  if (!GetParam().reads_peers && ranks.size() > 1) {
    std::byte b{};
    EXPECT_FALSE(ranks.transport(0).can_read(Rank{1}));
    EXPECT_NE(ranks.transport(0).why_not_read(Rank{1}), "");
    const auto address = reinterpret_cast<uint64_t>(&b);
    EXPECT_EQ(ranks.transport(0).read_memory(Rank{1}, address, {&b, 1}), Errc::no_permission);
    EXPECT_EQ(ranks.transport(0).write_memory(Rank{1}, address, {&b, 1}), Errc::no_permission);
    return;
  }
  const int to = ranks.at(1);
  ASSERT_TRUE(ranks.transport(0).can_read(Rank{to})) << ranks.transport(0).why_not_read(Rank{to});
  EXPECT_EQ(ranks.transport(0).why_not_read(Rank{to}), "");
  std::vector<std::byte> theirs(3 << 20), mine(theirs.size());
  for (std::size_t i = 0; i < theirs.size(); ++i) theirs[i] = static_cast<std::byte>(i * 31);
  const auto address = reinterpret_cast<uint64_t>(theirs.data());
  ASSERT_EQ(ranks.transport(0).read_memory(Rank{to}, address, mine), Errc::ok);
  EXPECT_EQ(mine, theirs);
  for (auto& b : mine) b = static_cast<std::byte>(~static_cast<unsigned>(b));
  ASSERT_EQ(ranks.transport(0).write_memory(Rank{to}, address, mine), Errc::ok);
  EXPECT_EQ(mine, theirs);
}

TEST_P(Memory, SwitchedOffItSaysSo) {
  if (!GetParam().reads_peers) GTEST_SKIP() << "reads no memory of peers anyway";
  Provider off = GetParam();
  off.config.emplace_back("fabric.cma", "off");
  Ranks ranks(off, off.ranks == 1 ? 1 : 2, small_geometry());
  const int to = ranks.at(1);
  if (to == 0) {
    EXPECT_TRUE(ranks.transport(0).can_read(Rank{0}));  // its own memory it may read
    return;
  }
  EXPECT_EQ(ranks.transport(0).why_not_read(Rank{to}), "not tried yet");
  EXPECT_FALSE(ranks.transport(0).can_read(Rank{to}));
  EXPECT_NE(ranks.transport(0).why_not_read(Rank{to}).find("fabric.cma"), std::string::npos);
  std::byte b{};
  EXPECT_EQ(ranks.transport(0).read_memory(Rank{to}, reinterpret_cast<uint64_t>(&b), {&b, 1}),
            Errc::no_permission);
}

TEST_P(Memory, SharedMemoryIsWrittenByPeersWithoutACopy) {
  Ranks ranks = make(2);
  const int to = ranks.at(1);
  Transport& owner = ranks.transport(to);
  const auto memory = owner.allocate_shared(100000);
  ASSERT_EQ(memory.size(), 100000u);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 4096, 0u);
  for (const std::byte b : memory) ASSERT_EQ(b, std::byte{0});
  const MemoryKey key = owner.expose(memory.subspan(1000, 50000));
  EXPECT_NE(key.segment, 0u);
  const auto view = ranks.transport(0).map_peer(key);
  if (!GetParam().reads_peers && ranks.size() > 1) {
    EXPECT_FALSE(view);
    owner.release_shared(memory);
    EXPECT_FALSE(owner.resolve(key)) << "released memory is withdrawn";
    return;
  }
  ASSERT_TRUE(view);
  ASSERT_EQ(view->size(), 50000u);
  std::memset(view->data(), 7, view->size());
  EXPECT_EQ(memory[999], std::byte{0});
  EXPECT_EQ(memory[1000], std::byte{7});
  EXPECT_EQ(memory[50999], std::byte{7});
  EXPECT_EQ(memory[51000], std::byte{0});
  const auto again = ranks.transport(0).map_peer(key);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->data(), view->data()) << "not cached";
  owner.withdraw(key);
  EXPECT_FALSE(ranks.transport(0).map_peer(key));
  EXPECT_FALSE(owner.resolve(key));
  owner.release_shared(memory);
}

TEST_P(Memory, KeysAreCheckedBeforeTheyAreBelieved) {
  Ranks ranks = make(2);
  Transport& owner = ranks.transport(0);
  std::vector<std::byte> memory(1000);
  const MemoryKey key = owner.expose(memory);
  EXPECT_EQ(key.segment, 0u);
  const auto range = owner.resolve(key);
  ASSERT_TRUE(range);
  EXPECT_EQ(range->data(), memory.data());
  EXPECT_EQ(range->size(), 1000u);
  EXPECT_FALSE(ranks.transport(ranks.at(1)).map_peer(key)) << "ordinary memory";
  const auto refused = [&](auto change) {
    MemoryKey forged = key;
    change(forged);
    return !owner.resolve(forged);
  };
  EXPECT_TRUE(refused([](MemoryKey& k) { k.owner = 1; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.owner = -1; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.slot += 1; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.slot = 0xffffffff; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.generation += 1; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.generation += 2; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.generation = 0; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.segment = 5; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.base += 8; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.bytes += 1; }));
  owner.withdraw(key);
  EXPECT_FALSE(owner.resolve(key));
  const MemoryKey next = owner.expose(memory);
  EXPECT_FALSE(owner.resolve(key)) << "an old key of a row that is in use again";
  EXPECT_TRUE(owner.resolve(next));
  owner.withdraw(key);  // an old key withdraws nothing
  EXPECT_TRUE(owner.resolve(next));
  owner.withdraw(next);
}

TEST_P(Memory, ForgedKeysMapNothing) {
  Ranks ranks = make(2);
  if (!GetParam().reads_peers && ranks.size() > 1) GTEST_SKIP() << "maps no memory of peers";
  const int to = ranks.at(1);
  const auto memory = ranks.transport(to).allocate_shared(8192);
  const MemoryKey key = ranks.transport(to).expose(memory);
  const auto refused = [&](auto change) {
    MemoryKey forged = key;
    change(forged);
    return !ranks.transport(0).map_peer(forged);
  };
  EXPECT_FALSE(refused([](MemoryKey&) {}));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.owner = 1000; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.owner = -5; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.slot = 1u << 30; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.generation += 2; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.segment += 1; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.segment = 0xffffffff; }));
  EXPECT_TRUE(refused([](MemoryKey& k) {
    k.base = 8192;
    k.bytes = 1;
  }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.base = ~uint64_t{0}; }));
  EXPECT_TRUE(refused([](MemoryKey& k) { k.bytes = ~uint64_t{0}; }));
  ranks.transport(to).release_shared(memory);
  EXPECT_TRUE(refused([](MemoryKey&) {})) << "released memory is withdrawn";
}

TEST_P(Memory, AllocationsComeAndGoManyTimes) {
  Ranks ranks = make(2);
  if (!GetParam().reads_peers && ranks.size() > 1) GTEST_SKIP() << "maps no memory of peers";
  const int to = ranks.at(1);
  for (int i = 0; i < 600; ++i) {
    const auto memory =
        ranks.transport(to).allocate_shared(4096u * static_cast<unsigned>(1 + i % 5));
    ASSERT_EQ(memory[0], std::byte{0});
    const MemoryKey key = ranks.transport(to).expose(memory);
    const auto view = ranks.transport(0).map_peer(key);
    ASSERT_TRUE(view) << i;
    (*view)[0] = static_cast<std::byte>(i | 1);
    ASSERT_EQ(memory[0], static_cast<std::byte>(i | 1));
    ranks.transport(to).release_shared(memory);
    ASSERT_FALSE(ranks.transport(0).map_peer(key));
  }
}

TEST_P(Memory, FullTablesAreErrorsThatSayWhatToRaise) {
  Ranks ranks = make(2);
  std::byte b[2];
  std::vector<MemoryKey> keys;
  try {
    for (int i = 0; i < 1 << 21; ++i) keys.push_back(ranks.transport(0).expose(b));
    FAIL() << "a table without an end";
  } catch (const Error& full) {
    EXPECT_EQ(full.code(), Errc::no_memory);
    EXPECT_NE(std::string(full.what()).find("fabric.exposures"), std::string::npos);
  }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(base::config_int("fabric.exposures")));
  for (const auto& key : keys) ranks.transport(0).withdraw(key);
  ranks.transport(0).withdraw(ranks.transport(0).expose(b));
  EXPECT_THROW((void)ranks.transport(0).allocate_shared(0), Error);
}

/// Keys are resolved by some threads while others withdraw and expose the same rows again.
TEST_P(Memory, ResolveNeverMixesTwoExposures) {
  Ranks ranks = make(2);
  Transport& owner = ranks.transport(0);
  std::byte small[16], large[64];
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> base{0}, bytes{0};
  std::atomic<uint32_t> generation{0}, slot{0};
  std::thread changer([&] {
    for (int i = 0; !stop.load(); ++i) {
      const MemoryKey key = owner.expose(i % 2 == 0 ? std::span<std::byte>(small) : large);
      base = key.base, bytes = key.bytes, slot = key.slot, generation = key.generation;
      owner.withdraw(key);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    const MemoryKey guess{0, slot.load(), generation.load(), 0, base.load(), bytes.load()};
    if (const auto range = owner.resolve(guess)) {
      ASSERT_EQ(range->size(), range->data() == small ? sizeof small : sizeof large);
    }
  }
  stop = true;
  changer.join();
}

INSTANTIATE_TEST_SUITE_P(All, Memory, ::testing::ValuesIn(plain_providers()), provider_name);

/// What a rank of node `node` asks for: rings on its own, packets on `packets`.
void expect_placed(const Provider& provider, int node, int packets) {
  const std::size_t before = base::place_log().size();
  const Geometry g = small_geometry();
  const auto come_here = [node] { ASSERT_TRUE(base::bind_this_thread(2 * node)); };
  come_here();
  ASSERT_EQ(base::Topology::machine().this_numa_node(), node);
  Ranks ranks(provider, provider.ranks, g, come_here);
  const auto log = base::place_log();
  std::size_t areas = 0, lanes = 0;
  for (std::size_t i = before; i < log.size(); ++i) {
    bool is_area = false;
    for (int r = 0; r < ranks.size(); ++r) {
      if (log[i].address != ranks.transport(r).packet_area().data()) continue;
      is_area = true;
      EXPECT_EQ(log[i].bytes, ranks.transport(r).packet_area().size());
    }
    EXPECT_EQ(log[i].node, is_area ? packets : node) << provider.name;
    areas += is_area ? 1 : 0;
    lanes += log[i].bytes >= std::size_t{g.lane_cells} * 64 * static_cast<unsigned>(ranks.size());
  }
  EXPECT_EQ(areas, static_cast<std::size_t>(ranks.size())) << provider.name;
  EXPECT_EQ(log.size() - before, areas + static_cast<std::size_t>(ranks.size()) * g.ports);
  EXPECT_GE(lanes, static_cast<std::size_t>(ranks.size()) * g.ports);
  const auto memory = ranks.transport(0).allocate_shared(5000);
  EXPECT_EQ(base::place_log().back().address, memory.data());
  EXPECT_EQ(base::place_log().back().node, node);
}

TEST(Placement, RingsAndPacketsAreAskedForOnTheirNode) {
  const auto& machine = base::Topology::machine();
  if (!machine.faked() || machine.numa_nodes() < 2)
    GTEST_SKIP() << "run with WEFT_BASE_TOPOLOGY='numa:2 core:2 pu:1'";
  register_fabric_config();
  for (const Provider& provider : plain_providers()) {
    if (!provider.reads_peers) continue;  // it has no rings of peers, and does not place yet
    if (provider.beside) continue;        // others place as well
    for (const int node : {0, 1}) {
      std::thread([&] {
        expect_placed(provider, node, node);
        for (const int packets : {0, 1}) {
          const weft::test::ConfigOverride config(
              {{"fabric.packet_node", std::to_string(packets)}});
          expect_placed(provider, node, packets);
        }
      }).join();
    }
  }
}

}  // namespace
}  // namespace weft::fabric::test
