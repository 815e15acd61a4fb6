// What a user of an installed weft writes: a job in which every rank tells its left neighbour.
#include <cstdio>
#include <weft/tasks.hpp>
#include <weft/version.hpp>
#include <weft/weft.hpp>

int main() {
  weft::Runtime runtime;
  weft::Endpoint letters(runtime, {});
  const int ranks = runtime.size();
  const weft::Rank left{(runtime.rank().value + ranks - 1) % ranks};
  const weft::Rank right{(runtime.rank().value + 1) % ranks};

  int sent = runtime.rank().value + 100;
  int came = -1;
  weft::Synchronizer arrived;
  const weft::Post answer =
      letters.recv(right, weft::Tag{7}, std::as_writable_bytes(std::span(&came, 1)), &arrived);
  if (answer == weft::Post::done) arrived.arrive();
  (void)letters.send_wait(left, weft::Tag{7}, std::as_bytes(std::span(&sent, 1)));
  runtime.wait(arrived);
  runtime.barrier();
  std::printf("weft %s: %d of %d got %d\n", WEFT_VERSION_STRING, runtime.rank().value, ranks, came);
  return came == right.value + 100 ? 0 : 1;
}
