// Cards of a host: what one rank wrote the others read, the newest counts, and what is too long or
// nonsense is left to the launcher.
#include "fabric/node_cards.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

namespace weft::fabric {
namespace {

class Cards : public testing::Test {
 protected:
  static constexpr int kRanks = 3;
  std::unique_ptr<NodeCards> open(int place) {
    return NodeCards::open(NodeCards::place(memory_), kRanks, place);
  }
  Descriptor memory_ = NodeCards::create(kRanks);
};

TEST_F(Cards, ShowWhatWasPublished) {
  const auto mine = open(1);
  const auto theirs = open(2);
  ASSERT_TRUE(mine && theirs);
  mine->put("shm", "there");
  mine->put("ofi", std::string("a\0b", 3));
  EXPECT_EQ(theirs->find(1, "shm"), std::nullopt) << "not yet";
  mine->publish();
  EXPECT_EQ(theirs->find(1, "shm"), "there");
  EXPECT_EQ(theirs->find(1, "ofi"), std::string("a\0b", 3));
  EXPECT_EQ(theirs->find(1, "sh"), std::nullopt);
  EXPECT_EQ(theirs->find(0, "shm"), std::nullopt) << "another's";
  EXPECT_EQ(theirs->find(-1, "shm"), std::nullopt);
  EXPECT_EQ(theirs->find(kRanks, "shm"), std::nullopt);
  mine->put("shm", "");
  mine->publish();
  EXPECT_EQ(theirs->find(1, "shm"), "") << "the newest";
}

TEST_F(Cards, ThatAreFullAreNotRead) {
  const auto mine = open(0);
  const auto theirs = open(1);
  mine->put("first", "value");
  mine->publish();
  mine->put("second", std::string(900, 'x'));
  mine->put("third", std::string(200, 'y'));
  mine->put("fourth", "z");
  mine->publish();
  for (const char* key : {"first", "second", "third", "fourth"}) {
    EXPECT_EQ(theirs->find(0, key), std::nullopt) << key;
  }
}

TEST_F(Cards, AreNotBelieved) {
  const auto mine = open(0);
  void* const at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory_.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  auto* const words = static_cast<uint32_t*>(at);
  mine->put("key", "value");
  mine->publish();
  uint32_t& lengths = words[2];  // behind the count of fences
  for (const uint32_t length : {uint32_t{5}, uint32_t{9}, uint32_t{1021}, UINT32_MAX - 1}) {
    lengths = length;
    EXPECT_EQ(mine->find(0, "key"), std::nullopt) << length;
  }
  lengths = 12;
  EXPECT_EQ(mine->find(0, "key"), "value");
  words[3] = UINT32_MAX;  // lengths of name and value
  EXPECT_EQ(mine->find(0, "key"), std::nullopt);
  ::munmap(at, 4096);
}

TEST_F(Cards, TellWhoHasNotComeToAFence) {
  auto first = open(0);
  const auto second = open(1);
  first->come_to_fence();
  EXPECT_EQ(first->absent(), 1);
  EXPECT_EQ(second->absent(), std::nullopt) << "it waits for nobody yet";
  second->come_to_fence();
  EXPECT_EQ(first->absent(), std::nullopt) << "the third never opened its card";
  second->come_to_fence();
  EXPECT_EQ(first->absent(), std::nullopt) << "further than asked";
  EXPECT_EQ(second->absent(), 0);
  const auto third = open(2);
  EXPECT_EQ(second->absent(), 0);
  first->come_to_fence();
  EXPECT_EQ(second->absent(), 2);
}

/// The rank's next program begins to count anew, though the last one of another came to fewer.
TEST_F(Cards, CountTheFencesOfEachProgram) {
  auto first = open(0);
  auto second = open(1);
  first->come_to_fence();
  second->come_to_fence();
  first->come_to_fence();
  EXPECT_EQ(first->absent(), 1) << "it left without";
  first = open(0);
  second = open(1);
  open(1);  // one that comes to no fence
  first->come_to_fence();
  EXPECT_EQ(first->absent(), 1);
  second->come_to_fence();
  EXPECT_EQ(first->absent(), std::nullopt);
  EXPECT_EQ(second->absent(), std::nullopt);
}

TEST(NoCards, AreNothingBad) {
  for (const char* place : {"", "1", "1 /proc/self/fd/4711", "1 /dev/null", "1 ", "x /dev/null"}) {
    EXPECT_EQ(NodeCards::open(place, 1, 0), nullptr) << place;
  }
  const Descriptor small = NodeCards::create(1);
  EXPECT_EQ(NodeCards::open(NodeCards::place(small), 2, 0), nullptr) << "of another job's size";
}

TEST_F(Cards, AreOfOneInode) {
  const Descriptor other = NodeCards::create(kRanks);
  std::string place = NodeCards::place(memory_);
  EXPECT_NE(NodeCards::open(place, kRanks, 0), nullptr);
  place = place.substr(0, place.find(' ')) +
          NodeCards::place(other).substr(NodeCards::place(other).find(' '));
  EXPECT_EQ(NodeCards::open(place, kRanks, 0), nullptr);
}

TEST_F(Cards, KeepTheirSize) {
  EXPECT_NE(::ftruncate(memory_.get(), 0), 0);
  EXPECT_NE(::ftruncate(memory_.get(), 1 << 20), 0);
}

/// One writes more and more, another reads: what it finds is whole.
TEST_F(Cards, AreReadWhileTheyAreWritten) {
  const auto mine = open(0);
  const auto theirs = open(1);
  std::jthread writer([&] {
    for (int i = 0; i < 60; ++i) {
      mine->put("key", std::string(4, static_cast<char>('a' + i % 26)));
      mine->publish();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const auto found = theirs->find(0, "key");
    if (!found) continue;
    ASSERT_EQ(*found, std::string(4, found->front()));
  }
}

}  // namespace
}  // namespace weft::fabric
