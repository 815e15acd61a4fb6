// A made-up machine with two memory nodes, on any machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "weft/base/config.hpp"
#include "weft/base/error.hpp"
#include "weft/base/topology.hpp"

namespace weft::base {
namespace {

// One test, in this order: the process reads its topology once, at the first attempt that succeeds.
TEST(FakedTopology, NonsenseIsRefusedAndAGoodOneIsBelieved) {
  set_config("base.topology", "numa:2 gnome:4");
  EXPECT_THROW(Topology::machine(), Error);
  set_config("base.topology", "numa:2 l3:2(size=16777216) l2:2(size=1048576) core:1 pu:1");
  for (const char* list : {"8", "x", "3-20"}) {
    set_config("base.faked_affinity", list);
    EXPECT_THROW(Topology::machine(), Error) << list;
  }
  // Who may use one processor of eight: the others may have one each, too.
  const auto child = [] {
    set_config("base.faked_affinity", "3");
    const Topology& bound = Topology::machine();
    std::_Exit(bound.has_processors_for(8) && !bound.has_processors_for(9) ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
  set_config("base.faked_affinity", "2-5,7");
  const Topology& machine = Topology::machine();
  EXPECT_TRUE(machine.faked());
  EXPECT_EQ(machine.numa_nodes(), 2);
  ASSERT_EQ(machine.cores().size(), 5U);
  const int indexes[] = {2, 3, 4, 5, 7};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(machine.cores()[i].os_index, indexes[i]);
    EXPECT_EQ(machine.cores()[i].numa_node, indexes[i] / 4);
  }
  EXPECT_TRUE(machine.has_processors_for(5));
  EXPECT_FALSE(machine.has_processors_for(6)) << "who may use several shares them";
  EXPECT_EQ(machine.second_cache_bytes(), 1U << 20);
  EXPECT_EQ(machine.cache_bytes(), 16U << 20);
  EXPECT_EQ(machine.all_cache_bytes(), 64U << 20);
  EXPECT_NE(machine.describe().find("made-up"), std::string::npos);

  for (int processor = 0; processor < 8; ++processor) {
    std::thread([&] {
      EXPECT_TRUE(bind_this_thread(processor));
      EXPECT_EQ(machine.this_numa_node(), processor / 4);
    }).join();
  }
  EXPECT_FALSE(bind_this_thread(8));
  const int unbound = machine.this_numa_node();
  EXPECT_TRUE(unbound == 0 || unbound == 1);

  int here = 0;
  EXPECT_TRUE(prefer_numa_node(&here, sizeof here, 1));
  EXPECT_FALSE(prefer_numa_node(&here, sizeof here, 2));
  ASSERT_EQ(place_log().size(), 2U);
  EXPECT_EQ(place_log().front().node, 1);
}

}  // namespace
}  // namespace weft::base
