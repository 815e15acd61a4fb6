// Four threads in each of two processes greet their partners in the other process.
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>
#include <weft/weft.hpp>

int main() {
  weft::Runtime runtime;                // this process as a rank of its job
  weft::Endpoint letters(runtime, {});  // messages that meet a receive by rank and tag

  const int me = runtime.rank().value;
  const weft::Rank partner{runtime.size() - 1 - me};

  auto correspond = [&](uint32_t thread) {
    const weft::Tag tag{thread};  // a tag for each pair of threads
    const std::string letter =
        "rank " + std::to_string(me) + " thread " + std::to_string(thread) + " says hello";
    letters.send_wait(partner, tag, std::as_bytes(std::span(letter)));

    std::array<char, 64> page{};
    const weft::Event came =
        letters.recv_wait(partner, tag, std::as_writable_bytes(std::span(page)));
    std::printf("%.*s\n", static_cast<int>(came.bytes), page.data());
  };

  std::vector<std::jthread> threads;
  for (uint32_t thread = 0; thread < 4; ++thread) threads.emplace_back(correspond, thread);
}
