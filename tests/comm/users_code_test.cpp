// Functions of the user's that progress calls, where they do what they must not.
#include <optional>
#include <stdexcept>

#include "comm/ranks.hpp"

namespace weft {
namespace {

using test::on_ranks;

class UsersCode : public testing::Test {
 protected:
  UsersCode() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// A message of this size from the rank to itself, and progress until it is over.
void send_to_handler(std::size_t bytes, Handler handler, void* argument = nullptr) {
  on_ranks(1, [=](Runtime& rt) {
    Endpoint ep(rt,
                {.arrival = Arrival::handler, .handler = handler, .handler_argument = argument});
    const auto data = test::pattern(bytes, 1);
    Counter sent;
    (void)until_posted(rt, [&] { return ep.send(Rank{0}, Tag{0}, data, &sent); });
    for (int i = 0; i < 1000; ++i) (void)rt.progress();
  });
}

using UsersCodeDeathTest = UsersCode;

TEST_F(UsersCodeDeathTest, AHandlerThatThrowsEndsTheProcessAndSaysWhich) {
  const Handler throws = [](void*, const Incoming&) {
    throw std::runtime_error("no such account");
  };
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{5000}, std::size_t{1} << 20}) {
    EXPECT_DEATH(send_to_handler(bytes, throws),
                 "handler of endpoint [0-9]+ threw.*: no such account");
  }
  EXPECT_DEATH(send_to_handler(8, [](void*, const Incoming&) { throw 7; }),
               "handler of endpoint [0-9]+ threw");
}

TEST_F(UsersCodeDeathTest, AHandlerThatWaitsIsTold) {
  struct State {
    Runtime& rt;
    Endpoint other;
    std::optional<Endpoint> more;
    explicit State(Runtime& the_runtime) : rt(the_runtime), other(the_runtime, {}) {
      more.emplace(the_runtime, EndpointSpec{});
    }
  };
  const auto run = [](Handler handler, Progress progress) {
    on_ranks(1,
             [handler](Runtime& rt) {
               State state(rt);
               Endpoint ep(
                   rt,
                   {.arrival = Arrival::handler, .handler = handler, .handler_argument = &state});
               ep.send_wait(Rank{0}, Tag{0}, {});
               for (int i = 0; i < 1000; ++i) (void)rt.progress();
             },
             {.devices = 1, .progress = progress});
  };
  const Handler receives = [](void* state, const Incoming& in) {
    std::byte none[1];
    (void)static_cast<State*>(state)->other.recv_wait(in.source, Tag{5}, none);
  };
  const Handler waits_until = [](void* state, const Incoming&) {
    static_cast<State*>(state)->rt.wait_until([] { return false; });
  };
  const Handler tries_again = [](void* state, const Incoming&) {
    for (;;) static_cast<State*>(state)->rt.relax();
  };
  const Handler makes_one = [](void* state, const Incoming&) {
    const Endpoint more(static_cast<State*>(state)->rt, {});
  };
  const Handler ends_one = [](void* state, const Incoming&) {
    static_cast<State*>(state)->more.reset();
  };
  for (const Progress progress : {Progress::workers, Progress::waiters, Progress::explicit_}) {
    for (const Handler handler : {receives, waits_until, tries_again, makes_one, ends_one}) {
      EXPECT_DEATH(run(handler, progress), "handler of endpoint [0-9]+ waits");
    }
  }
}

// What is there already is no wait.
TEST_F(UsersCode, AHandlerMayWaitForWhatIsReady) {
  struct State {
    Runtime& rt;
    int called = 0;
  };
  on_ranks(1, [](Runtime& rt) {
    State state{rt};
    Endpoint ep(rt, {.arrival = Arrival::handler,
                     .handler =
                         [](void* argument, const Incoming&) {
                           auto& mine = *static_cast<State*>(argument);
                           Synchronizer done;
                           done.arrive();
                           mine.rt.wait(done);
                           ++mine.called;
                         },
                     .handler_argument = &state});
    ep.send_wait(Rank{0}, Tag{0}, {});
    rt.wait_until([&] { return state.called == 1; });
    Synchronizer later;  // out of the handler a wait may wait
    Endpoint plain(rt, {});
    std::byte none[1];
    (void)until_posted(rt, [&] { return plain.recv(Rank{0}, Tag{0}, none, &later); });
    plain.send_wait(Rank{0}, Tag{0}, {});
    rt.wait(later);
  });
}

TEST_F(UsersCodeDeathTest, ACompletionThatThrowsEndsTheProcess) {
  const auto complete = [] {
    HandlerCompletion throws([](void*, const Event&) { throw std::runtime_error("no luck"); },
                             nullptr);
    (void)throws.try_complete({});
  };
  EXPECT_DEATH(complete(), "function of a HandlerCompletion threw.*: no luck");
}

}  // namespace
}  // namespace weft
