// Three other ways for a message to arrive: at a handler, in a queue, and in memory.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <weft/weft.hpp>

// Called by whoever progresses. It may send, but not wait.
static void handle(void* counted, const weft::Incoming& message) {
  *static_cast<std::atomic<std::size_t>*>(counted) += message.data.size();
}

int main() {
  weft::Runtime runtime;
  std::atomic<std::size_t> counted{0};
  weft::CompletionQueue signals;
  weft::Endpoint calls(
      runtime,
      {.arrival = weft::Arrival::handler, .handler = handle, .handler_argument = &counted});
  weft::Endpoint queue(runtime, {.arrival = weft::Arrival::queue});
  weft::Endpoint memory(runtime, {.arrival = weft::Arrival::memory, .at_target = &signals});
  const weft::Rank partner{runtime.size() - 1 - runtime.rank().value};
  std::array<std::byte, 100> letter{}, room{};

  // retry: no room just now, and nothing happened. Do something else, and post it again; who has
  // nothing else to do lets progress and others have the core in between.
  while (calls.send(partner, weft::Tag{}, letter) == weft::Post::retry) runtime.relax();
  runtime.wait_until([&] { return counted == letter.size(); });

  const weft::Region region(runtime, room);  // its key is plain data
  queue.send_wait(partner, {}, std::as_bytes(std::span(&region.key(), 1)));
  const weft::Message message = queue.dequeue_wait();  // whoever sent it, and with whatever tag
  weft::fabric::MemoryKey theirs;
  std::memcpy(&theirs, message.data().data(), sizeof theirs);

  weft::Synchronizer written;  // or let until_posted try again, and progress in between
  const auto put = [&] { return memory.put_signal(theirs, 0, letter, weft::Tag{7}, &written); };
  if (weft::until_posted(runtime, put) == weft::Post::posted) runtime.wait(written);
  const weft::Event signal = runtime.pop_wait(signals);  // the partner's letter is in `room`
  std::printf("%zu bytes handled, a key from rank %d, signal %u\n", counted.load(),
              message.source().value, signal.tag.value);
}
