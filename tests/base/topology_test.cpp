// The machine's own topology, binding, and memory policy as the system keeps it.
#include "weft/base/topology.hpp"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/binding.hpp"

namespace weft::base {
namespace {

TEST(Topology, CoresAreThoseOfTheAffinityMask) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const Topology& machine = Topology::machine();
  EXPECT_FALSE(machine.faked());
  EXPECT_EQ(machine.cores().size(), static_cast<std::size_t>(CPU_COUNT(&allowed)));
  EXPECT_GE(machine.numa_nodes(), 1);
  for (const Core& core : machine.cores()) {
    EXPECT_TRUE(CPU_ISSET(core.os_index, &allowed));
    EXPECT_TRUE(machine.has_processor(core.os_index));
    EXPECT_GE(core.numa_node, 0);
    EXPECT_LT(core.numa_node, machine.numa_nodes());
  }
  EXPECT_FALSE(machine.has_processor(-1));
  EXPECT_FALSE(machine.has_processor(1 << 20));
}

TEST(Topology, IsReadOnceAndDescribesItself) {
  EXPECT_EQ(&Topology::machine(), &Topology::machine());
  const std::string text = Topology::machine().describe();
  EXPECT_NE(text.find("PU"), std::string::npos) << text;
  EXPECT_NE(text.find("memory node 0"), std::string::npos) << text;
}

TEST(Binding, AThreadRunsWhereItWasBound) {
  for (const Core& core : Topology::machine().cores()) {
    std::thread([&] {
      ASSERT_TRUE(bind_this_thread(core.os_index));
      EXPECT_EQ(sched_getcpu(), core.os_index);
      EXPECT_EQ(Topology::machine().this_numa_node(), core.numa_node);
    }).join();
  }
}

TEST(Binding, AProcessorThatIsNotThereIsRefused) {
  EXPECT_FALSE(bind_this_thread(-1));
  EXPECT_FALSE(bind_this_thread(100'000));
}

TEST(Binding, SharedPagesKeepThePolicyThatWasAskedFor) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* pages = mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const int node = Topology::machine().numa_os_index(Topology::machine().numa_nodes() - 1);
  if (!prefer_system_node(pages, 4 * page, node)) {
    munmap(pages, 4 * page);
    GTEST_SKIP() << "the system does not let this process set a memory policy";
  }
  int mode = -1;
  unsigned long mask[16] = {};
  void* third = static_cast<char*>(pages) + 2 * page;
  ASSERT_EQ(syscall(SYS_get_mempolicy, &mode, mask, 8 * sizeof mask, third, MPOL_F_ADDR), 0);
  EXPECT_EQ(mode, MPOL_PREFERRED);
  EXPECT_EQ(mask[0], 1UL << node);
  munmap(pages, 4 * page);
}

TEST(Binding, PlacementsAreRememberedNewestLastAndBounded) {
  int here = 0;
  EXPECT_TRUE(prefer_numa_node(&here, sizeof here, 0));
  EXPECT_FALSE(prefer_numa_node(&here, sizeof here, Topology::machine().numa_nodes()));
  EXPECT_FALSE(prefer_numa_node(&here, sizeof here, -1));
  ASSERT_GE(place_log().size(), 3U);
  EXPECT_EQ(place_log().back().address, &here);
  EXPECT_EQ(place_log().back().bytes, sizeof here);
  EXPECT_EQ(place_log().back().node, -1);
  for (int i = 0; i < 10'000; ++i) prefer_numa_node(&here, 1, 0);
  EXPECT_LE(place_log().size(), 4096U);
}

}  // namespace
}  // namespace weft::base
