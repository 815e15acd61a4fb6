// Ranks that talk without a pause, for tests that disturb them: round after round each sends to
// every other one and receives from it, short messages and long ones, and checks what came.
//
//   chatter SECONDS      rank 0 says "talking" after the first round, and at the end "chatter: N
//   rounds, 0 wrong"; exit 1 if anything was wrong, 3 if an operation failed
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "weft/weft.hpp"

namespace {

using namespace weft;

constexpr std::size_t kSizes[] = {8, 200, 5000, 100'000};

std::byte content(int from, int to, uint32_t round, std::size_t at) {
  return static_cast<std::byte>(static_cast<std::size_t>(from) * 7 +
                                static_cast<std::size_t>(to) * 13 + round * 31 + at * 17);
}

/// One round with everybody; how many bytes were wrong. Throws the error of what failed.
std::size_t talk(Runtime& rt, Endpoint& letters, uint32_t round) {
  const std::size_t size = kSizes[round % std::size(kSizes)];
  const int me = rt.rank().value;
  const int others = rt.size() - 1;
  std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(rt.size())), out = in;
  Synchronizer over(static_cast<uint32_t>(2 * others));
  const auto post = [&](auto again) {
    Post answer = again();
    for (; answer == Post::retry; answer = again()) rt.relax();
    if (answer == Post::done) over.arrive();
  };
  for (int step = 1; step <= others; ++step) {
    const int to = (me + step) % rt.size();
    const int from = (me + rt.size() - step) % rt.size();
    auto& mine = out[static_cast<std::size_t>(to)];
    auto& theirs = in[static_cast<std::size_t>(from)];
    mine.resize(size);
    theirs.resize(size);
    for (std::size_t at = 0; at < size; ++at) mine[at] = content(me, to, round, at);
    post([&] { return letters.recv(Rank{from}, Tag{round}, theirs, &over); });
    post([&] { return letters.send(Rank{to}, Tag{round}, mine, &over); });
  }
  rt.wait(over);
  if (over.event().error != Errc::ok)
    throw Error(over.event().error, fmt::format("round {} did not end well", round));
  std::size_t wrong = 0;
  for (int from = 0; from < rt.size(); ++from) {
    const auto& theirs = in[static_cast<std::size_t>(from)];
    for (std::size_t at = 0; at < theirs.size(); ++at)
      wrong += theirs[at] != content(from, me, round, at);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::chrono::duration<double> wanted(std::atof(argv[1]));
  try {
    Runtime runtime;
    Endpoint letters(runtime, {});
    Team team(runtime);
    const auto start = std::chrono::steady_clock::now();
    std::size_t wrong = 0;
    uint32_t round = 0;
    for (bool goes_on = true; goes_on;) {
      for (int i = 0; i < 16; ++i) wrong += talk(runtime, letters, round++);
      if (round == 16 && runtime.rank().value == 0) {
        std::puts("talking");
        std::fflush(stdout);
      }
      goes_on = std::chrono::steady_clock::now() - start < wanted;
      team.broadcast(Rank{0}, std::as_writable_bytes(std::span(&goes_on, 1)));
    }
    if (runtime.rank().value == 0) fmt::print("chatter: {} rounds, {} wrong\n", round, wrong);
    return wrong == 0 ? 0 : 1;
  } catch (const Error& error) {
    fmt::print(stderr, "chatter: {}\n", error.what());
    return 3;
  }
}
