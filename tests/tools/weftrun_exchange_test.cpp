// What the ranks of several hosts exchange through weftrun and its daemons: fences that go up a
// tree of these, and come down.
#include <gtest/gtest.h>
#include <pmix_common.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weftrun/exchange.hpp"

namespace weft::run {

/// None is asked here.
void PmixServer::request(int, Answer) {}

namespace {

/// weftrun and two daemons, each the parent of the next, with a rank each.
class Exchanges : public ::testing::Test {
 protected:
  static constexpr int kMembers = 3;
  struct Ended {
    int status;
    std::string data;
  };

  Exchanges() {
    spec_.root_node = 0;
    spec_.degree = 1;
    for (int node = 0; node < kMembers; ++node) spec_.nodes.push_back({"host", node, 1});
    for (int member = 0; member < kMembers; ++member)
      members_.push_back(std::make_unique<Exchange>(
          spec_, member,
          Exchange::Ways{
              .up = [this,
                     member](const Message& message) { at(member - 1).fence_in(over(message)); },
              .down =
                  [this, member](const Message& message) {
                    for (int below = member + 1; below < kMembers; ++below)
                      at(below).fence_out(over(message));
                  },
              .to = {}}));
  }

  Exchange& at(int member) { return *members_.at(static_cast<std::size_t>(member)); }
  /// What of it comes over the network.
  [[nodiscard]] Message over(const Message& message) const {
    std::optional<Message> there =
        decode(encode(message).substr(kLengthBytes), {spec_.members(), spec_.ranks()});
    EXPECT_TRUE(there.has_value());
    return there ? *std::move(there) : Message{};
  }
  /// The rank of a member comes to its next fence.
  void come(int member, std::string data) {
    PmixServer::Event event;
    event.kind = PmixServer::Event::fence;
    event.text = std::move(data);
    event.answer = [this](int status, const std::string& all) { ended_.push_back({status, all}); };
    at(member).from_server(std::move(event));
  }

  JobSpec spec_;
  std::vector<std::unique_ptr<Exchange>> members_;
  std::vector<Ended> ended_;
};

TEST_F(Exchanges, WhatIsCollectedComesToAllHosts) {
  for (const int first : {0, 1, 2}) {
    ended_.clear();
    for (int i = 0; i < kMembers; ++i) {
      EXPECT_TRUE(ended_.empty());
      const int member = (first + i) % kMembers;
      come(member, std::string(1, static_cast<char>('a' + member)));
    }
    ASSERT_EQ(ended_.size(), std::size_t{kMembers});
    for (const Ended& one : ended_) {
      EXPECT_EQ(one.status, PMIX_SUCCESS);
      EXPECT_EQ(one.data.size(), std::size_t{kMembers});
    }
  }
}

TEST_F(Exchanges, WhereMoreIsCollectedThanCanBeSentAllHostsHearOfIt) {
  const std::string more_than_half(kMostText / 2 + 1, 'x');
  // Too much at a daemon; at weftrun.
  for (const auto& [by_two, by_one, by_zero] :
       {std::tuple(true, true, false), std::tuple(true, false, true)}) {
    ended_.clear();
    come(2, by_two ? more_than_half : "");
    come(1, by_one ? more_than_half : "");
    come(0, by_zero ? more_than_half : "");
    ASSERT_EQ(ended_.size(), std::size_t{kMembers});
    for (const Ended& one : ended_) {
      EXPECT_NE(one.status, PMIX_SUCCESS);
      EXPECT_TRUE(one.data.empty());
    }
  }
}

}  // namespace
}  // namespace weft::run
