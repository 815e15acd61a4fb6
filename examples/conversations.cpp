// A hundred thousand conversations between two processes, each of them blocking, on a few threads.
//
//   weftrun -n 2 conversations [conversations] [questions in each]
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string_view>
#include <vector>
#include <weft/base/clock.hpp>
#include <weft/task/scheduler.hpp>
#include <weft/weft.hpp>

namespace {

template <class T>
std::span<const std::byte> bytes(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

/// One side asks for the square of a number, waits for the answer, and asks again. Its thread does
/// not wait: while this task does, another one runs on it.
uint64_t ask(weft::Endpoint& line, weft::Rank peer, weft::Tag topic, uint32_t questions) {
  uint64_t sum = 0;
  for (uint64_t number = 1; number <= questions; ++number) {
    uint64_t square = 0;
    line.send_wait(peer, topic, bytes(number));
    line.recv_wait(peer, topic, writable(square));
    sum += square;
  }
  return sum;
}

/// The other side.
void answer(weft::Endpoint& line, weft::Rank peer, weft::Tag topic, uint32_t questions) {
  for (uint32_t i = 0; i < questions; ++i) {
    uint64_t number = 0;
    line.recv_wait(peer, topic, writable(number));
    line.send_wait(peer, topic, bytes(number * number));
  }
}

/// A number from the command line, from 1 to `most`.
std::optional<uint32_t> number(std::string_view text, uint32_t most) {
  uint32_t value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value >= 1 && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  const auto wanted = argc > 1 ? number(argv[1], 10'000'000) : 100'000;
  const auto wanted_in_each = argc > 2 ? number(argv[2], 100'000) : 10;
  if (!wanted || !wanted_in_each || argc > 3) {
    std::fprintf(stderr,
                 "conversations [how many, 1 to 10000000] [questions in each, 1 to 100000]: "
                 "not these numbers\n");
    return 2;
  }
  const uint32_t conversations = *wanted;
  const uint32_t questions = *wanted_in_each;

  weft::Runtime runtime;
  if (runtime.size() != 2) {
    std::fprintf(stderr, "start two of us: weftrun -n 2 %s\n", argv[0]);
    return 2;
  }
  weft::Endpoint line(runtime, {});  // messages meet their receives by rank and tag
  weft::task::Scheduler scheduler({.workers = 1});
  const weft::Rank peer{1 - runtime.rank().value};

  if (runtime.rank().value == 1) {
    scheduler.run([&] {
      std::vector<weft::task::Handle<void>> all;
      for (uint32_t topic = 0; topic < conversations; ++topic) {
        all.push_back(
            weft::task::spawn([&, topic] { answer(line, peer, weft::Tag{topic}, questions); }));
      }
      for (auto& each : all) each.join();
    });
    return 0;
  }

  const uint64_t start = weft::base::now_ns();
  const uint64_t sum = scheduler.run([&] {
    std::vector<weft::task::Handle<uint64_t>> all;
    for (uint32_t topic = 0; topic < conversations; ++topic) {
      all.push_back(
          weft::task::spawn([&, topic] { return ask(line, peer, weft::Tag{topic}, questions); }));
    }
    uint64_t total = 0;
    for (auto& each : all) total += each.join();
    return total;
  });
  const double seconds = static_cast<double>(weft::base::now_ns() - start) / 1e9;

  // 1 + 4 + 9 + ... in each; what does not fit into 64 bits is lost on both sides alike.
  const uint64_t in_each = uint64_t{questions} * (questions + 1) * (2 * questions + 1) / 6;
  const uint64_t expected = conversations * in_each;
  std::printf("%u conversations, %u questions each: %.2f s, %.2f million messages a second\n",
              conversations, questions, seconds, 2.0 * conversations * questions / seconds / 1e6);
  if (sum != expected) std::printf("but the sum of the squares is wrong\n");
  return sum == expected ? 0 : 1;
}
