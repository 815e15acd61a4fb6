// What may outlive an endpoint, and what an endpoint waits for when it ends.
#include <atomic>
#include <cstring>
#include <memory>

#include "base/config_override.hpp"
#include "comm/ranks.hpp"
#include "weft/comm/config.hpp"
#include "weft/fabric/config.hpp"

namespace weft {
namespace {

using test::on_ranks;
using test::pattern;

constexpr std::size_t kLarge = 1 << 20;

/// Heap blocks, counted; it may be told to have none.
class Counting final : public Allocator {
 public:
  std::atomic<bool> empty{false};
  std::atomic<int> out{0};
  std::atomic<int> asked{0};
  std::byte* allocate(std::size_t bytes) noexcept override {
    ++asked;
    if (empty) return nullptr;
    ++out;
    return heap_allocator().allocate(bytes);
  }
  void release(std::byte* memory, std::size_t bytes) noexcept override {
    --out;
    heap_allocator().release(memory, bytes);
  }
};

/// Ends `endpoint` and uses its memory again.
class Overwritten {
 public:
  explicit Overwritten(std::unique_ptr<Endpoint>& endpoint) {
    endpoint.reset();
    for (std::size_t bytes = 16; bytes < 4096; bytes += 16) {
      for (int i = 0; i < 2; ++i) {
        blocks_.push_back(std::make_unique<char[]>(bytes));
        std::memset(blocks_.back().get(), 0x5a, bytes);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

TEST(Lifetimes, ALargeMessageMayOutliveItsEndpoint) {
  for (const bool ready : {true, false}) {
    on_ranks(2, [&](Runtime& rt) {
      Counting memory;
      memory.empty = !ready;
      auto queue = std::make_unique<Endpoint>(
          rt, EndpointSpec{.arrival = Arrival::queue, .allocator = &memory});
      if (rt.rank() == Rank{0}) {
        EXPECT_EQ(queue->send_wait(Rank{1}, Tag{1}, pattern(kLarge, 1)).error, Errc::ok);
      } else {
        Message message;
        rt.wait_until([&] { return queue->dequeue(message); });
        if (ready) rt.wait(message);
        const Overwritten ended(queue);
        memory.empty = false;
        rt.wait(message);
        const auto data = message.data();
        EXPECT_TRUE(std::vector<std::byte>(data.begin(), data.end()) == pattern(kLarge, 1));
        EXPECT_EQ(memory.out, 1);
        message = Message();
        EXPECT_EQ(memory.out, 0);
      }
      rt.barrier();
    });
  }
}

}  // namespace
}  // namespace weft
