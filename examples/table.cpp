// A table that is spread over all ranks: each key lives on one of them, and every thread of every
// rank may add to it. A request is met by a handler, which answers at once; where there is no room
// for the answer, it is sent a little later.
//
//   weftrun -n N table [additions of each thread]
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>
#include <weft/weft.hpp>

namespace {

/// Who waits for an answer, on its own stack.
struct Call {
  weft::Synchronizer answered{1};
  uint64_t value = 0;
};

// Messages are plain data. `call` is an address of the asker's, which comes back as it went.
struct Request {
  uint64_t key;
  uint64_t amount;
  Call* call;
};
struct Reply {
  Call* call;
  uint64_t value;
};

template <class T>
std::span<const std::byte> bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
T from(std::span<const std::byte> data) {
  T value;
  std::memcpy(&value, data.data(), sizeof value);
  return value;
}

class Table {
 public:
  // A handler may be called as soon as its endpoint is made: so the one that it uses comes first.
  explicit Table(weft::Runtime& runtime)
      : runtime_(runtime),
        replies_(runtime, {.arrival = weft::Arrival::handler, .handler = on_reply}),
        requests_(
            runtime,
            {.arrival = weft::Arrival::handler, .handler = on_request, .handler_argument = this}) {}
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  /// Adds to the key's value, wherever it lives, and returns the sum. Blocks its thread or, in a
  /// task, the task.
  uint64_t add(uint64_t key, uint64_t amount) {
    Call call;
    const Request request{key, amount, &call};
    const weft::Rank owner{static_cast<int32_t>(key % static_cast<uint64_t>(runtime_.size()))};
    // So short a message is copied: when the call is over, it is done.
    (void)weft::until_posted(runtime_,
                             [&] { return requests_.send(owner, weft::Tag{}, bytes(request)); });
    runtime_.wait(call.answered);
    return call.value;
  }

  /// The sum of the values that live here.
  uint64_t total() {
    const std::lock_guard hold(lock_);
    uint64_t sum = 0;
    for (const auto& [key, value] : values_) sum += value;
    return sum;
  }

 private:
  /// An answer that found no room: it tries again after some progress, until it gets through.
  class LateReply final : public weft::Deferred {
   public:
    LateReply(Table& table, weft::Rank to, const Reply& reply)
        : table_(table), to_(to), reply_(reply) {}
    void run() noexcept override {
      if (table_.try_answer(to_, reply_)) {
        delete this;
      } else {
        table_.runtime_.defer(*this);
      }
    }

   private:
    Table& table_;
    const weft::Rank to_;
    const Reply reply_;
  };

  bool try_answer(weft::Rank to, const Reply& reply) {
    return replies_.send(to, weft::Tag{}, bytes(reply)) != weft::Post::retry;
  }

  /// Runs in whatever thread progresses, of several devices at the same time. It must not wait.
  static void on_request(void* argument, const weft::Incoming& message) {
    auto& self = *static_cast<Table*>(argument);
    const auto request = from<Request>(message.data);
    Reply reply{request.call, 0};
    {
      const std::lock_guard hold(self.lock_);
      reply.value = self.values_[request.key] += request.amount;
    }
    if (!self.try_answer(message.source, reply))
      self.runtime_.defer(*new LateReply(self, message.source, reply));
  }

  static void on_reply(void*, const weft::Incoming& message) {
    const auto reply = from<Reply>(message.data);
    reply.call->value = reply.value;
    reply.call->answered.arrive();  // wakes the caller, whose stack this is: nothing after it
  }

  weft::Runtime& runtime_;
  std::mutex lock_;  ///< of the values
  std::unordered_map<uint64_t, uint64_t> values_;
  weft::Endpoint replies_;
  weft::Endpoint requests_;
};

}  // namespace

int main(int argc, char** argv) {
  constexpr uint64_t kThreads = 4;
  uint64_t additions = 20'000;
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), additions);
    if (argc > 2 || wrong != std::errc() || end != text.data() + text.size() || additions < 1 ||
        additions > 100'000'000) {
      std::fprintf(stderr, "table [additions of each thread, 1 to 100000000]: not this number\n");
      return 2;
    }
  }

  weft::Runtime runtime;
  weft::Team team(runtime);
  Table table(runtime);
  {
    std::vector<std::jthread> threads;
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (uint64_t i = 1; i <= additions; ++i) table.add(i % 1000, i);
      });
    }
  }
  team.barrier();  // nobody adds any more

  const uint64_t sum = team.sum(table.total());
  const uint64_t threads = kThreads * static_cast<uint64_t>(runtime.size());
  const uint64_t expected = threads * (additions * (additions + 1) / 2);
  if (runtime.rank().value == 0) {
    std::printf("%llu threads added %llu times each: %s\n",
                static_cast<unsigned long long>(threads),
                static_cast<unsigned long long>(additions),
                sum == expected ? "all of it is there" : "something is missing");
  }
  return sum == expected ? 0 : 1;
}
